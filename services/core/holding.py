"""Holding room for what was promised: the one reading of the placement stream that placer and binder share.

A promise is held from the moment a member is promised until the cluster stream shows it bound or gone, whichever stream
was read first: a pod may be seen after its promise, and its binding after the end of its transaction.
"""

from collections.abc import Iterable

from services.core.allocations import ClaimAllocation
from services.core.claim_promises import claims_of
from services.core.cluster import Cluster
from services.core.decisions import Assignment
from services.core.effects import Promise
from services.core.gangs import MemberState, state_of
from services.core.ledger import Ledger
from services.core.objects import GangId, NodeName, Pod, TransactionId, Uid, namespace_of


def hold(
    cluster: Cluster,
    gang_id: GangId,
    *,
    members: Iterable[Assignment],
    transaction: TransactionId,
    claims: Iterable[ClaimAllocation] = (),
) -> frozenset[NodeName]:
    """Promise members that still look open to their nodes; return the nodes that lost a promise by that.

    `claims` are those of the transaction: the devices of those that the members use are held, whether or not the
    members are seen yet.
    """
    members = tuple(members)
    for allocation in claims_of(claims, members={one.uid for one in members}):
        cluster.claims.hold(allocation, transaction=transaction)
    gang = cluster.gang(gang_id)
    pods = {pod.metadata.uid: pod for pod in (gang.open if gang is not None else ())}
    left = [_hold_one(cluster, pods[one.uid], one, transaction=transaction) for one in members if one.uid in pods]
    return frozenset(node for node in left if node is not None)


def still_there(cluster: Cluster, gang_id: GangId, members: Iterable[Assignment]) -> frozenset[Uid]:
    """Return the members that exist and have not ended: claims of the others need no devices any more."""
    namespace = namespace_of(gang_id)
    pods = ((one.uid, cluster.pod(namespace, one.pod)) for one in members)
    return frozenset(uid for uid, pod in pods if pod is not None and pod.metadata.uid == uid and not pod.is_finished)


def recall(cluster: Cluster, *, ledger: Ledger, pod: Pod) -> None:
    """Promise what an open transaction promised to a pod before the pod was seen."""
    transaction = ledger.of_gang(cluster.gang_id_of(pod))
    uid = pod.metadata.uid
    if transaction is None or uid in cluster.promises() or state_of(pod) is not MemberState.OPEN:
        return
    for one in transaction.held:
        if one.uid == uid:
            _hold_one(cluster, pod, one, transaction=transaction.id)


def _hold_one(cluster: Cluster, pod: Pod, member: Assignment, *, transaction: TransactionId) -> NodeName | None:
    """Promise one member; return the node that it was promised to before, where that is another."""
    known = cluster.promises().get(member.uid)
    cluster.promise(
        Promise(
            uid=member.uid,
            gang=cluster.gang_id_of(pod),
            transaction=transaction,
            node=member.node,
            pod=pod,
        )
    )
    return known.node if known is not None and known.node != member.node else None
