"""Nodes whose kubelets rejected members, remembered for a while, so that a successor is not sent to the same one.

A rejected pod is Failed and none of its containers ever started (OutOfcpu, NodeAffinity, UnexpectedAdmissionError,
...): what its node told the API server of itself was not true for it, and will not be a moment later. It says nothing
about members that ask for something else, so it is remembered for those that ask for the same.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from services.core.node_rules import Constraints, constraints_of
from services.core.objects import GangId, NodeName, Pod, Uid

MAX_REJECTIONS = 65_536
"""Nodes that are remembered over all gangs; beyond it the oldest are forgotten."""

_Shape = tuple[GangId, tuple[tuple[str, int], ...], Constraints]


def is_rejected(pod: Pod) -> bool:
    """Tell whether a kubelet rejected the pod. One that is being deleted may end so without being rejected."""
    ended_at_once = pod.phase == "Failed" and not pod.has_started and not pod.is_terminating
    return bool(ended_at_once and pod.node and pod.failure)


@dataclass(slots=True, kw_only=True)
class Rejections:
    """Until when which node is excluded for which members of which gang; `gang_of` tells the gang of a pod."""

    memory: timedelta
    gang_of: Callable[[Pod], GangId]
    #: Insertion-ordered, for bounded memory.
    _until: dict[tuple[_Shape, NodeName], datetime] = field(default_factory=dict)

    def note(self, pod: Pod, *, at: datetime) -> None:
        """Remember a rejected pod. One that was rejected long ago, as a restarted process sees it, is no news."""
        rejected_at = at if pod.rejected_at is None else min(pod.rejected_at, at)
        if rejected_at + self.memory <= at:
            return
        key = (self._shape(pod), pod.node)
        self._until.setdefault(key, rejected_at + self.memory)
        if len(self._until) > MAX_REJECTIONS:
            del self._until[next(iter(self._until))]

    def excluded(self, pods: tuple[Pod, ...]) -> dict[Uid, frozenset[NodeName]]:
        """Return the nodes to which members must not go now; members without any are left out."""
        if not self._until:
            return {}
        nodes: dict[_Shape, set[NodeName]] = {}
        for shape, node in self._until:
            nodes.setdefault(shape, set()).add(node)
        return {pod.metadata.uid: frozenset(found) for pod in pods if (found := nodes.get(self._shape(pod)))}

    def forget(self, now: datetime) -> frozenset[GangId]:
        """Forget what is too old, and return the gangs for which that makes a difference."""
        over = [key for key, until in self._until.items() if until <= now]
        for key in over:
            del self._until[key]
        return frozenset(shape[0] for shape, _ in over)

    def next_due(self) -> datetime | None:
        """Return when something will be forgotten."""
        return min(self._until.values(), default=None)

    def _shape(self, pod: Pod) -> _Shape:
        requests = tuple(sorted((name, amount) for name, amount in pod.requests.items() if amount > 0))
        return self.gang_of(pod), requests, constraints_of(pod)
