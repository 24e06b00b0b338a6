"""Which devices each claim of a placement gets: the last step, and the exact judge of what the search has counted.

The search knows for each node how many members its devices take. What several nodes share (devices of a network, claims
of several members) is decided here, for all members at once; where that fails, members that need not be placed go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.core.allocations import ClaimAllocation
from services.core.devices.demands import NO_DEMAND
from services.core.inventory import Snapshot
from services.core.objects import NodeName, Pod, Uid
from services.core.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocated:
    """Members with a node and their devices. `reasons` say why there are fewer than there were, if there are."""

    nodes: Mapping[Uid, NodeName]
    claims: tuple[ClaimAllocation, ...] = ()
    reasons: tuple[Reason, ...] = ()


def allocated(snapshot: Snapshot, pods: Sequence[Pod], *, nodes: Mapping[Uid, NodeName]) -> Allocated:
    """Return the devices of a placement, of as many of its members by name as can have theirs."""
    placed = sorted(
        (pod for pod in pods if pod.metadata.uid in nodes),
        key=lambda pod: (pod.metadata.namespace, pod.metadata.name),
    )
    asking = [(pod, nodes[pod.metadata.uid]) for pod in placed if snapshot.devices.demand(pod) != NO_DEMAND]
    if not asking:
        return Allocated(nodes=nodes)
    claims, reasons = _asked(snapshot, asking)
    if not reasons:
        return Allocated(nodes=nodes, claims=claims)
    served, claims = _most(snapshot, asking)
    over = {pod.metadata.uid for pod, _ in asking[served:]}
    return Allocated(
        nodes={uid: node for uid, node in nodes.items() if uid not in over}, claims=claims, reasons=reasons
    )


def _asked(
    snapshot: Snapshot, asking: Sequence[tuple[Pod, NodeName]]
) -> tuple[tuple[ClaimAllocation, ...], tuple[Reason, ...]]:
    answer = snapshot.devices.allocate(asking)
    claims = tuple(one for one in answer if isinstance(one, ClaimAllocation))
    return claims, tuple(one for one in answer if isinstance(one, Reason))


def _most(snapshot: Snapshot, asking: Sequence[tuple[Pod, NodeName]]) -> tuple[int, tuple[ClaimAllocation, ...]]:
    """Return how many of the first members can have their devices, and these, by halving."""
    claims: tuple[ClaimAllocation, ...] = ()
    served, too_many = 0, len(asking)
    while too_many - served > 1:
        middle = (served + too_many) // 2
        some, reasons = _asked(snapshot, asking[:middle])
        if reasons:
            too_many = middle
        else:
            served, claims = middle, some
    return served, claims
