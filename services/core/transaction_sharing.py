"""The steps of a transaction for nodes that other schedulers use too (`ownership` in `services.core.policy`).

The binder's check and another scheduler's may both find the last free place of a node, and both bind. So what was bound
on shared nodes is looked at once more when the followed state shows it bound: every binding before ours is known then.
Where the node is over-committed, our latest members there give way, and are repaired like any that failed. Whoever
binds after us sees ours.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from services.core.cluster import Cluster
from services.core.decisions import Assignment
from services.core.objects import NodeName, Pod, Uid
from services.core.quantities import shown
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_members import Member, gone, target_of
from services.core.transaction_state import Step, TransactionState
from services.core.transaction_values import Recheck, Rechecked, Removal, Stage, Withdraw, Withdrawn


def recheck(state: TransactionState) -> tuple[TransactionState, tuple[Recheck, ...]] | None:
    """Have bound members on shared nodes looked at again, or None where there are none that were not."""
    members = tuple(one.assignment for one in state.in_stage(Stage.BOUND) if one.is_shared and not one.is_rechecked)
    return (replace(state, step=Step.BINDING), (Recheck(members=members),)) if members else None


def given_way(state: TransactionState, event: Rechecked | Withdrawn) -> tuple[TransactionState, tuple[Withdraw, ...]]:
    """Take members back whose node has no room for them, and go on without them when they are."""
    return _rechecked(state, event) if isinstance(event, Rechecked) else (_withdrawn(state, event), ())


def _rechecked(state: TransactionState, event: Rechecked) -> tuple[TransactionState, tuple[Withdraw, ...]]:
    """Choose who gives way. Pods that nobody would recreate stay, as in an undo."""
    members: dict[Uid, Member] = {
        uid: replace(one, is_rechecked=True, reason=event.collided.get(uid))
        for uid, one in state.members.items()
        if one.stage is Stage.BOUND
    }
    targets = tuple(
        target_of(one)
        for uid, one in members.items()
        if uid in event.collided and not one.is_finished and (one.has_controller or state.allows_delete)
    )
    return state.with_members(members), (Withdraw(targets=targets),) if targets else ()


def _withdrawn(state: TransactionState, event: Withdrawn) -> TransactionState:
    """Return the state without the members that were taken back; their successors are the placer's to place."""
    members: dict[Uid, Member] = {}
    for uid, removal in event.removals.items():
        one = state.members[uid]
        is_finished = removal is Removal.FINISHED
        members[uid] = replace(one, is_finished=True) if is_finished else gone(one, reason=one.reason)
    return state.with_members(members)


def collisions(cluster: Cluster, members: Iterable[Assignment], *, namespace: str) -> dict[Uid, Reason]:
    """Return which of the bound members have to give way, so that no node of theirs is over-committed by bound pods.

    What is only promised does not count: it is checked again before it is bound.
    """
    found: dict[Uid, Reason] = {}
    by_node: dict[NodeName, list[Assignment]] = {}
    for one in members:
        by_node.setdefault(one.node, []).append(one)
    for node, ours in by_node.items():
        lacking = _lacking(cluster, node)
        # All were bound in one burst; the order only has to be the same for everybody.
        for one in sorted(ours, key=lambda member: member.pod, reverse=True):
            requests = _requests(cluster.pod(namespace, one.pod), uid=one.uid)
            short = next(
                (resource for resource, amount in lacking.items() if amount > 0 and requests.get(resource)), ""
            )
            if not short:
                continue
            text = (
                f"node {node} has {shown(lacking[short], resource=short)} {short} less than its pods ask for: another "
                f"scheduler bound pods there at the same time, and pod {one.pod} gives way"
            )
            found[one.uid] = Reason(code=ReasonCode.NODE_OVERCOMMITTED, message=text, count=1, subject=node)
            lacking = {resource: amount - requests.get(resource, 0) for resource, amount in lacking.items()}
    return found


def _lacking(cluster: Cluster, node: NodeName) -> dict[str, int]:
    """Return how much more of each resource the node's bound pods ask for than it has; negative where it suffices."""
    free = cluster.inventory.free_on(node)
    for promise in cluster.promises().values():
        if promise.node == node:
            for resource, amount in promise.pod.requests.items():
                free[resource] = free.get(resource, 0) + amount
    return {resource: -amount for resource, amount in free.items()}


def _requests(pod: Pod | None, *, uid: Uid) -> Mapping[str, int]:
    """Return what a member holds on its node; nothing where it is gone or has ended."""
    return {} if pod is None or pod.metadata.uid != uid or not pod.node or pod.is_finished else pod.requests
