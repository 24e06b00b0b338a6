"""The binder's check: do promised members still fit where they were promised, on what is known now?

The same core check that the placer's answers obey, on a snapshot that counts everybody's promises but those of the
members in question.
"""

from collections.abc import Iterable, Mapping

from services.core.allocations import ClaimAllocation
from services.core.cluster import Cluster
from services.core.gangs import MemberState, state_of
from services.core.names import ALLOW_DELETE_ANNOTATION
from services.core.objects import GangId, NodeName, Pod, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.solver import check
from services.core.topology import NO_WISH


def misfits_of(
    cluster: Cluster,
    *,
    gang: GangId,
    pods: Mapping[Uid, Pod],
    promised: Mapping[Uid, NodeName],
    placed: Mapping[Uid, NodeName],
    claims: Iterable[ClaimAllocation] = (),
    leaving: Iterable[Uid] = (),
) -> dict[Uid, Reason]:
    """Return the members that cannot be where they are promised, or where somebody else bound them.

    `pods` are the members as they were read live, `promised` the nodes of those that are still to be bound, `placed`
    those of members that others bound: these only need a node that exists. `claims` are the promised devices, `leaving`
    pods that are evicted first.
    """
    snapshot = cluster.snapshot((pods[uid] for uid in promised), without=(*promised, *leaving))
    found = cluster.gang(gang)
    wish = NO_WISH if found is None else found.topology.wish
    beside = () if found is None else [pod for pod in found.placed if pod.metadata.uid not in promised]
    misfits = check(snapshot, pods=pods, nodes=promised, wish=wish, placed=beside, claims=claims)
    for uid, node in placed.items():
        if cluster.inventory.node(node) is None:
            misfits[uid] = bound_to_nowhere(pods[uid].metadata.name, node=node)
    return misfits


def bound_to_nowhere(pod: str, *, node: NodeName) -> Reason:
    """Return the reason for a member that somebody bound to a node which does not exist."""
    text = f"pod {pod} was bound by somebody else to node {node}, which does not exist"
    return Reason(code=ReasonCode.BOUND_ELSEWHERE, message=text, count=1, subject=node)


def placed_beside(cluster: Cluster, *, gang: GangId, members: Iterable[Uid]) -> int:
    """Return how many placed members of the gang are not in the transaction."""
    found = cluster.gang(gang)
    ours = frozenset(members)
    return 0 if found is None else sum(pod.metadata.uid not in ours for pod in found.placed)


def lost_members(cluster: Cluster, *, namespace: str, names: Mapping[Uid, str]) -> frozenset[Uid]:
    """Return the members that the followed cluster shows as gone. It must be past the revision that named them."""
    return frozenset(uid for uid, name in names.items() if _is_lost(cluster.pod(namespace, name), uid))


def allows_delete(cluster: Cluster, *, gang: GangId) -> bool:
    """Tell whether the gang's group lets an undo delete pods that nobody would recreate."""
    found = cluster.gang(gang)
    return found is not None and found.annotations.get(ALLOW_DELETE_ANNOTATION) == "true"


def _is_lost(pod: Pod | None, uid: Uid) -> bool:
    return pod is None or pod.metadata.uid != uid or state_of(pod) is MemberState.GONE
