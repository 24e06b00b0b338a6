"""The next round of a transaction whose members failed, and room that is held for who cannot be placed yet."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceId, DeviceResult
from services.core.attention import DecisionPolicy
from services.core.claim_promises import claims_of, key_of
from services.core.cluster import Cluster
from services.core.decisions import Assignment, Proposed
from services.core.effects import Promise
from services.core.gangs import Gang
from services.core.ledger import OpenTransaction
from services.core.objects import GangId, NodeName, Pod, TransactionId, Uid
from services.core.rejections import Rejections
from services.core.solver import Refusal, solve

HELD = TransactionId("")
"""Stands for no transaction: under it the devices are held for those who cannot be placed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unplaced:
    """These members need nodes and cannot have them now; `nodes` is what could be had, to be held for them."""

    members: tuple[Pod, ...]
    nodes: Mapping[Uid, NodeName]
    claims: tuple[ClaimAllocation, ...] = ()


def next_round(
    cluster: Cluster,
    transaction: OpenTransaction,
    *,
    gang: Gang,
    rejections: Rejections,
    policy: DecisionPolicy,
) -> Proposed | Unplaced | None:
    """Return the round that a repairing transaction is owed; None where nobody needs a node.

    Members join the domain of those that are bound or promised.
    """
    repairing = transaction.repairing
    if repairing is None:
        return None
    promises = cluster.promises()
    bound = {one.uid for one in repairing.bound}
    pending = tuple(
        one
        for one in transaction.assignments
        if (promise := promises.get(one.uid)) is not None
        and promise.transaction == transaction.id
        and one.uid not in bound
    )
    settled = bound | {pod.metadata.uid for pod in gang.open if pod.metadata.uid in promises}
    members = tuple(pod for pod in gang.open if pod.metadata.uid not in settled)
    if not members:
        return None
    counted = len(settled | {pod.metadata.uid for pod in gang.placed})
    excluded = rejections.excluded(members)
    for one in repairing.open:
        excluded[one.uid] = excluded.get(one.uid, frozenset()) | frozenset(one.excluded_nodes)
    with _kept_off(cluster, {device for one in repairing.open for device in one.excluded_devices}):
        answer = solve(
            cluster.snapshot(members),
            members=members,
            excluded_nodes=excluded,
            wish=gang.topology.wish,
            levels=policy.topology.levels,
            placed=(*gang.placed, *_promised(cluster, gang)),
            needed=max(repairing.min_count - counted, 1),
        )
    if isinstance(answer, Refusal):
        return Unplaced(members=members, nodes=answer.partial, claims=answer.claims)
    return Proposed(
        revision=cluster.revision,
        deadline=repairing.until,
        min_count=repairing.min_count,
        round=repairing.round + 1,
        assignments=(*repairing.bound, *pending, *assignments_of(answer.nodes, pods=members)),
        already_placed=transaction.proposal.already_placed,
        repair_window=transaction.proposal.repair_window,
        claims=_claims_of_round(transaction, answer.claims),
    )


def _claims_of_round(transaction: OpenTransaction, anew: Iterable[ClaimAllocation]) -> tuple[ClaimAllocation, ...]:
    """Return the claims of members that stay where they are, and those of the members that are placed anew.

    A claim that both share has its devices from the round before: it gets consumers more.
    """
    members = {one.uid for one in transaction.held}
    known = {key_of(one.ref): one for one in claims_of(transaction.proposal.claims, members=members)}
    for one in anew:
        before = known.get(key_of(one.ref))
        if before is not None and not one.results:
            consumers = tuple(dict.fromkeys((*before.consumers, *one.consumers)))
            known[key_of(one.ref)] = replace(before, consumers=consumers)
        else:
            known[key_of(one.ref)] = one
    return tuple(known.values())


@contextmanager
def _kept_off(cluster: Cluster, devices: Collection[DeviceId]) -> Iterator[None]:
    """Count devices as taken that collided, or never got ready: for this round nobody gets them."""
    results = tuple(
        DeviceResult(request="", driver=one.driver, pool=one.pool, device=one.device) for one in sorted(devices)
    )
    taken = ClaimAllocation(ref=ClaimRef(namespace="", name="excluded"), consumers=(Uid("excluded"),), results=results)
    books = cluster.inventory.devices
    if results:
        books.hold(taken)
    try:
        yield
    finally:
        if results:
            books.release(taken.ref)


def _promised(cluster: Cluster, gang: Gang) -> Iterable[Pod]:
    """Yield the members that are bound or promised and still look open, on their nodes."""
    promises = cluster.promises()
    for pod in gang.open:
        promise = promises.get(pod.metadata.uid)
        if promise is not None:
            yield replace(pod, node=promise.node)


def room_for(
    cluster: Cluster, *, gang: Gang, members: tuple[Pod, ...], rejections: Rejections, policy: DecisionPolicy
) -> Unplaced:
    """Return the nodes that members of a gang would have now beside those that it has left, as many as can be."""
    answer = solve(
        cluster.snapshot(members),
        members=members,
        excluded_nodes=rejections.excluded(members),
        needed=len(members),
        wish=gang.topology.wish,
        levels=policy.topology.levels,
        placed=gang.placed,
    )
    nodes = answer.partial if isinstance(answer, Refusal) else answer.nodes
    return Unplaced(members=members, nodes=nodes, claims=answer.claims)


def hold_room(
    cluster: Cluster, unplaced: Unplaced, *, gang: GangId, transaction: TransactionId = TransactionId("")
) -> list[Promise]:
    """Charge the nodes with what is held, and return what is to be released again."""
    pods = {pod.metadata.uid: pod for pod in unplaced.members}
    held = [
        Promise(uid=uid, gang=gang, transaction=transaction, node=node, pod=pods[uid])
        for uid, node in unplaced.nodes.items()
        # A member that is promised has its room already.
        if uid not in cluster.promises()
    ]
    for promise in held:
        cluster.inventory.place(promise.pod, on=promise.node)
    for allocation in unplaced.claims:
        cluster.claims.hold(allocation, transaction=HELD)
    return held


def assignments_of(nodes: Mapping[Uid, NodeName], *, pods: Iterable[Pod]) -> tuple[Assignment, ...]:
    """Return the placement by pod name: uids are random, and what is tried first should not be."""
    placed = [pod.metadata for pod in pods if pod.metadata.uid in nodes]
    ordered = sorted(placed, key=lambda metadata: metadata.name)
    return tuple(Assignment(pod=one.name, uid=one.uid, node=nodes[one.uid]) for one in ordered)
