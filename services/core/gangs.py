"""Which pods make a gang, and whether enough of them are here.

A PodGroup with members of our scheduler is a gang; a pod of our scheduler that names no group is a gang of one. How a
member counts follows from its state:

====================  ===========================================================================
open                  ours, not bound, not gated, not terminating, not finished: to be placed
placed                Succeeded; or bound and not terminating, unless it Failed before any container started
gated                 carries scheduling gates
foreign               not bound and of another scheduler: invisible to us
gone                  terminating, or Failed before any container started: counts for nothing
====================  ===========================================================================

A member that Failed at its work counts as long as it is the last word: not where its controller has made another in its
place, and not where none of the gang is left on a node. So a Job that starts again after all of its pods have failed is
a gang again, and its pods are not bound one by one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from services.core.names import SCHEDULER_NAME
from services.core.objects import GangId, Pod, PodGroup, Uid
from services.core.reasons import Reason, ReasonCode

COMPLETION_INDEX_LABEL = "batch.kubernetes.io/job-completion-index"
"""Which of a Job's completions a pod works on."""

MAX_MEMBERS = 4096
"""Members of one gang; above it the gang waits with GangTooLarge."""


class MemberState(StrEnum):
    """How a pod counts in its gang."""

    OPEN = "open"
    PLACED = "placed"
    GATED = "gated"
    FOREIGN = "foreign"
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """A gang at one moment. `is_declared` is False where pods name a group that does not exist."""

    id: GangId
    namespace: str
    min_count: int
    priority: int
    created_at: datetime
    is_declared: bool
    group: PodGroup | None
    open: tuple[Pod, ...] = ()
    placed: tuple[Pod, ...] = ()
    gated: tuple[Pod, ...] = ()
    foreign: tuple[Pod, ...] = ()
    gone: tuple[Pod, ...] = ()

    @property
    def existing(self) -> int:
        """Members that count towards `min_count`, or will when they are placed."""
        return len(self.open) + len(self.placed)

    @property
    def needed(self) -> int:
        """Open members that must be placed at once: at least one, where there is anything to place."""
        return max(self.min_count - len(self.placed), 1)

    @property
    def order(self) -> tuple[int, datetime, str]:
        """Sort key of the queue: higher priority, then older, then by name."""
        return (-self.priority, self.created_at, self.id)


def gang_id_of(pod: Pod) -> GangId:
    """Return the gang that a pod belongs to."""
    if pod.group:
        return GangId(f"podgroup/{pod.metadata.namespace}/{pod.group}")
    return GangId(f"pod/{pod.metadata.namespace}/{pod.metadata.name}")


def group_gang_id(group: PodGroup) -> GangId:
    """Return the gang that a PodGroup declares."""
    return GangId(f"podgroup/{group.metadata.namespace}/{group.metadata.name}")


def state_of(pod: Pod) -> MemberState:
    """Return how a pod counts in its gang."""
    if pod.phase == "Succeeded":
        return MemberState.PLACED
    # Before Failed: a deleted pod of a Job fails, and stays until the Job has counted it, but another will replace it.
    if pod.is_terminating:
        return MemberState.GONE
    if pod.phase == "Failed":
        return MemberState.PLACED if pod.has_started else MemberState.GONE
    if pod.node:
        return MemberState.PLACED
    if pod.scheduler_name != SCHEDULER_NAME:
        return MemberState.FOREIGN
    return MemberState.GATED if pod.is_gated else MemberState.OPEN


def is_ours(pods: Iterable[Pod]) -> bool:
    """Tell whether we place this gang: at least one of its pods names our scheduler."""
    return any(pod.scheduler_name == SCHEDULER_NAME for pod in pods)


def assemble(gang: GangId, *, pods: Iterable[Pod], group: PodGroup | None) -> Gang:
    """Return the gang that these pods and this group make now. Members are in name order."""
    members: dict[MemberState, list[Pod]] = {state: [] for state in MemberState}
    oldest: datetime | None = None
    priority = 0
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        members[state_of(pod)].append(pod)
        created = pod.metadata.created_at
        oldest = created if oldest is None else min(oldest, created)
        priority = max(priority, pod.priority)
    past = _past_failures(members)
    is_lone_pod = gang.startswith("pod/")
    if group is not None:
        oldest, priority = group.metadata.created_at, group.priority
    return Gang(
        id=gang,
        namespace=gang.split("/")[1],
        # The basic policy asks for no quorum: each member runs as soon as it can.
        min_count=group.min_count if group is not None and group.is_gang else 1,
        priority=priority,
        created_at=oldest if oldest is not None else datetime.min,  # noqa: DTZ901 - a gang without pods is never ordered
        is_declared=group is not None or is_lone_pod,
        group=group,
        open=tuple(members[MemberState.OPEN]),
        placed=tuple(pod for pod in members[MemberState.PLACED] if pod.metadata.uid not in past),
        gated=tuple(members[MemberState.GATED]),
        foreign=tuple(members[MemberState.FOREIGN]),
        gone=tuple(members[MemberState.GONE]),
    )


def _past_failures(members: Mapping[MemberState, list[Pod]]) -> frozenset[Uid]:
    """Return the members that Failed at their work, and whose place is that of others by now."""
    failed = [pod for pod in members[MemberState.PLACED] if pod.phase == "Failed"]
    newcomers = (*members[MemberState.OPEN], *members[MemberState.GATED], *members[MemberState.FOREIGN])
    if not failed or not newcomers:
        return frozenset()
    if all(pod.is_finished for pod in members[MemberState.PLACED]):
        return frozenset(pod.metadata.uid for pod in failed)
    failures: dict[_Place, list[Pod]] = {}
    for pod in failed:
        if (place := _place_of(pod)) is not None:
            failures.setdefault(place, []).append(pod)
    living = (*newcomers, *(pod for pod in members[MemberState.PLACED] if pod.phase != "Failed"))
    past: set[Uid] = set()
    for place, pods in failures.items():
        pods.sort(key=lambda pod: (pod.metadata.created_at, pod.metadata.name))
        # The same index is one place, of which the last pod counts; without indexes, each later pod may be a successor.
        later = sum(
            _place_of(pod) == place and pod.metadata.created_at >= pods[0].metadata.created_at for pod in living
        )
        kept = max((1 if place[1] else len(pods)) - later, 0)
        past.update(pod.metadata.uid for pod in pods[: len(pods) - kept])
    return frozenset(past)


_Place = tuple[Uid, str]
"""Controller and index of a pod; the index is empty where its controller gives none."""


def _place_of(pod: Pod) -> _Place | None:
    controller = next((owner.uid for owner in pod.metadata.owners if owner.is_controller), None)
    return None if controller is None else (controller, pod.metadata.labels.get(COMPLETION_INDEX_LABEL, ""))


def quorum_reasons(gang: Gang) -> tuple[Reason, ...]:
    """Return why the gang cannot be tried at all; empty where enough members are here.

    Gated and foreign members never hold back the others: they only explain why too few are left.
    """
    if not gang.is_declared:
        name = gang.id.rpartition("/")[2]
        text = f"PodGroup {name} does not exist in namespace {gang.namespace}; {len(gang.open)} pods name it"
        return (Reason(code=ReasonCode.GROUP_NOT_FOUND, message=text, count=len(gang.open), subject=name),)
    if len(gang.open) > MAX_MEMBERS:
        text = f"{len(gang.open)} members wait; at most {MAX_MEMBERS} can be placed in one transaction"
        return (Reason(code=ReasonCode.GANG_TOO_LARGE, message=text, count=len(gang.open)),)
    unsupported = _unsupported_reasons(gang)
    if unsupported:
        return unsupported
    if gang.existing >= gang.min_count:
        return ()
    missing = Reason(
        code=ReasonCode.MEMBERS_MISSING,
        message=f"{gang.existing} of the {gang.min_count} needed pods exist",
        count=gang.min_count - gang.existing,
    )
    reasons = [missing]
    if gang.gated:
        text = f"{_pods(gang.gated)} still {'carry' if len(gang.gated) > 1 else 'carries'} scheduling gates"
        reasons.insert(0, Reason(code=ReasonCode.MEMBERS_GATED, message=text, count=len(gang.gated)))
    if gang.foreign:
        others = ", ".join(sorted({pod.scheduler_name for pod in gang.foreign}))
        text = f"{_pods(gang.foreign)} of the group {'name' if len(gang.foreign) > 1 else 'names'} another scheduler"
        reasons.insert(
            0,
            Reason(
                code=ReasonCode.MIXED_SCHEDULERS,
                message=f"{text} ({others}); all members must name {SCHEDULER_NAME}",
                count=len(gang.foreign),
                subject=others,
            ),
        )
    return tuple(reasons)


def _unsupported_reasons(gang: Gang) -> tuple[Reason, ...]:
    fields: dict[str, int] = {}
    for pod in gang.open:
        for path in pod.unsupported:
            fields[path] = fields.get(path, 0) + 1
    return tuple(
        Reason(
            code=ReasonCode.UNSUPPORTED_CONSTRAINT,
            message=f"{count} pod{'s use' if count > 1 else ' uses'} {path}, which this release cannot honour",
            count=count,
            subject=path,
        )
        for path, count in sorted(fields.items())
    )


def _pods(pods: tuple[Pod, ...]) -> str:
    return f"{len(pods)} pod{'s' if len(pods) > 1 else ''}"
