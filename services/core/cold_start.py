"""What a cold start costs, phase by phase: from the signal that there is work to the first item that is taken.

A start is folded from what is seen of its pods. Every phase ends once, in the moment in which it holds for all of them;
moments are seconds since the signal. Phases may end in another order than here (the first pod takes an item before
the last one is ready), so the time of a phase is what it adds to all before it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum


class Phase(StrEnum):
    """What a cold start goes through, in this order; each is named by its end."""

    DECIDED = "decided"
    """From the signal to the decision, the question about room included."""
    REPLICAS_SET = "replicas-set"
    """Until the API server had the replicas."""
    PODS_CREATED = "pods-created"
    """Until all pods existed."""
    PLACED = "placed"
    """Until the placer had a node for each; missing where another scheduler places them."""
    BOUND = "bound"
    """Until all were bound."""
    RUNNING = "running"
    """Until the containers of all had started: images, volumes, devices."""
    READY = "ready"
    """Until all were ready: what the program itself loads."""
    FIRST_ITEM = "first-item"
    """Until somebody had taken an item of the queue; missing where the queue does not tell."""


PHASES = tuple(Phase)
TOTAL = "total"
"""Stands beside the phases for the whole."""


class PodStage(IntEnum):
    """How far a pod is; each includes those before it."""

    CREATED = 1
    BOUND = 2
    RUNNING = 3
    READY = 4


_STAGES = {
    PodStage.CREATED: Phase.PODS_CREATED,
    PodStage.BOUND: Phase.BOUND,
    PodStage.RUNNING: Phase.RUNNING,
    PodStage.READY: Phase.READY,
}


@dataclass(slots=True, kw_only=True)
class ColdStart:
    """One start of `replicas` pods, folded from what is seen of them.

    `ends_s` is when each phase ended. A pod that goes is no longer counted: another one has to come in its place.
    """

    replicas: int
    counts_items: bool = True
    ends_s: dict[Phase, float] = field(default_factory=dict)
    _stages: dict[str, PodStage] = field(default_factory=dict)
    _reached: Counter[PodStage] = field(default_factory=Counter)
    _placed: set[str] = field(default_factory=set)
    _placed_and_seen: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether everything has ended that can be seen to end."""
        return Phase.READY in self.ends_s and (not self.counts_items or Phase.FIRST_ITEM in self.ends_s)

    @property
    def is_abandoned(self) -> bool:
        """Whether all its pods were created and none is left."""
        return Phase.PODS_CREATED in self.ends_s and not self._stages

    @property
    def has_running(self) -> bool:
        """Whether a pod runs: from then on an item may be taken."""
        return self._reached[PodStage.RUNNING] > 0

    @property
    def missing(self) -> str:
        """What has not ended yet, for people; empty where the start is complete."""
        if self.is_complete:
            return ""
        if self.is_abandoned:
            return "its pods are gone"
        reached = ", ".join(
            f"{self._reached[stage]} of {self.replicas} {phase}"
            for stage, phase in _STAGES.items()
            if phase not in self.ends_s
        )
        return reached or "no item was taken"

    def ended(self, phase: Phase, *, at_s: float) -> None:
        """Note the end of a phase, unless it had ended before."""
        self.ends_s.setdefault(phase, at_s)

    def pod_seen(self, uid: str, *, stage: PodStage, at_s: float) -> None:
        """Note that a pod was seen at a stage; it never goes back to an earlier one."""
        before = self._stages.get(uid)
        if before is None and uid in self._placed:
            self._placed_and_seen += 1
        for one in PodStage:
            if (before or 0) < one <= stage:
                self._reached[one] += 1
        self._stages[uid] = max(stage, before or stage)
        self._count(at_s=at_s)

    def pod_gone(self, uid: str) -> None:
        """Forget a pod."""
        before = self._stages.pop(uid, None)
        if before is None:
            return
        self._placed_and_seen -= uid in self._placed
        for one in PodStage:
            if one <= before:
                self._reached[one] -= 1

    def pods_placed(self, uids: Iterable[str], *, at_s: float) -> None:
        """Note that the placer had nodes for pods, which may not have been seen yet."""
        for uid in uids:
            if uid not in self._placed:
                self._placed.add(uid)
                self._placed_and_seen += uid in self._stages
        self._count(at_s=at_s)

    def _count(self, *, at_s: float) -> None:
        if self._placed_and_seen >= self.replicas:
            self.ended(Phase.PLACED, at_s=at_s)
        for stage, phase in _STAGES.items():
            if self._reached[stage] >= self.replicas:
                self.ended(phase, at_s=at_s)


def took_s(ends_s: Mapping[Phase, float]) -> Mapping[Phase, float]:
    """Return what each phase added to the time of all before it. Together that is the end of the last one."""
    found: dict[Phase, float] = {}
    before_s = 0.0
    for phase in PHASES:
        if phase in ends_s:
            found[phase] = max(ends_s[phase] - before_s, 0.0)
            before_s = max(before_s, ends_s[phase])
    return found


def total_s(ends_s: Mapping[Phase, float]) -> float:
    """Return the time from the signal to the end of the last phase."""
    return max(ends_s.values(), default=0.0)
