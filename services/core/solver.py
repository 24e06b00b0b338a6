"""The placement core: all members of a gang at once, or the reasons why not.

`solve` and `check` are the only judges of placements: the placer, the binder's check, repairs, what-ifs and tests call
them. Members that ask for the same are one class, and a class against all nodes is one array operation, so the cost
grows with nodes x classes and not with members. Unequal classes are placed largest first, without going back, and
smallest first where that leaves too few; topology, devices and a search among unequal classes have their place in
`_place_class` and `solve`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.inventory import Amounts, Snapshot
from services.core.node_rules import REASON_OF_VERDICT, TEXT_OF_VERDICT, Constraints, Verdict, constraints_of
from services.core.objects import NodeName, Pod, Uid
from services.core.quantities import PODS, Resources, shown
from services.core.reasons import Reason, ReasonCode

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberClass:
    """Members that ask for exactly the same. `requests` includes one pod slot; members are in name order."""

    requests: tuple[tuple[str, int], ...]
    constraints: Constraints
    excluded_nodes: frozenset[NodeName]
    members: tuple[Pod, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where each member goes, in the order of the request's members."""

    nodes: Mapping[Uid, NodeName]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Fewer members than needed can be placed; `partial` is what could be, for a repair to hold."""

    placeable: int
    reasons: tuple[Reason, ...]
    partial: Mapping[Uid, NodeName]


def classes_of(
    members: Iterable[Pod], *, excluded_nodes: Mapping[Uid, frozenset[NodeName]] | None = None
) -> tuple[MemberClass, ...]:
    """Group members that ask for the same, hardest class first.

    A class is harder where one member takes the larger part of any resource; amounts compare by resource name, so that
    the order does not depend on the members' order.
    """
    excluded = excluded_nodes or {}
    grouped: dict[tuple[tuple[tuple[str, int], ...], Constraints, frozenset[NodeName]], list[Pod]] = {}
    for pod in sorted(members, key=lambda pod: (pod.metadata.namespace, pod.metadata.name)):
        requests = tuple(sorted((name, amount) for name, amount in pod.requests.items() if amount > 0))
        key = (requests, constraints_of(pod), excluded.get(pod.metadata.uid, frozenset()))
        grouped.setdefault(key, []).append(pod)
    classes = [
        MemberClass(requests=key[0], constraints=key[1], excluded_nodes=key[2], members=tuple(pods))
        for key, pods in grouped.items()
    ]
    return tuple(
        sorted(classes, key=lambda one: (_difficulty(one.requests), one.members[0].metadata.name), reverse=True)
    )


def solve(snapshot: Snapshot, *, classes: tuple[MemberClass, ...], needed: int) -> Placement | Refusal:
    """Place every member, or at least `needed` of them, on the snapshot.

    The snapshot's `free` is reduced by what is placed, also in a refusal's `partial`. The same snapshot and classes
    give the same answer.
    """
    before = snapshot.free.copy()
    nodes, left = _place_classes(snapshot, classes)
    if len(nodes) >= needed:
        return Placement(nodes=nodes)
    if len(classes) > 1 and needed < sum(len(one.members) for one in classes):
        # Not all are needed, and a hard member may have taken the room of several easy ones.
        hardest_first = snapshot.free.copy()
        snapshot.free[:] = before
        fewest, _ = _place_classes(snapshot, tuple(reversed(classes)))
        if len(fewest) >= needed:
            return Placement(nodes=fewest)
        snapshot.free[:] = hardest_first
    return Refusal(placeable=len(nodes), reasons=_refusal_reasons(snapshot, left, len(nodes), needed), partial=nodes)


def _place_classes(
    snapshot: Snapshot, classes: tuple[MemberClass, ...]
) -> tuple[dict[Uid, NodeName], list[MemberClass]]:
    """Place the classes one after the other; return where the members go, and the classes that do not fit whole."""
    nodes: dict[Uid, NodeName] = {}
    left: list[MemberClass] = []
    for one in classes:
        placed = _place_class(snapshot, one)
        nodes.update(zip((pod.metadata.uid for pod in one.members), placed, strict=False))
        if len(placed) < len(one.members):
            left.append(one)
    return nodes, left


def check(snapshot: Snapshot, *, pods: Mapping[Uid, Pod], nodes: Mapping[Uid, NodeName]) -> dict[Uid, Reason]:
    """Return the members that do not fit where they were promised, with the reason; empty where all do.

    Members are tried in the order of `nodes`, each beside those before it. The snapshot's `free` is reduced by those
    that fit.
    """
    misfits: dict[Uid, Reason] = {}
    for uid, name in nodes.items():
        pod = pods[uid]
        row = snapshot.rows.get(name)
        if row is None:
            misfits[uid] = _stale(f"node {name} does not exist", subject=name)
            continue
        found = Verdict(int(snapshot.verdicts[constraints_of(pod)][row]))
        if found is not Verdict.ADMITTED:
            misfits[uid] = _stale(f"node {name} is {TEXT_OF_VERDICT.get(found, 'gone')}", subject=name)
            continue
        short = _shortage(snapshot, row=row, requests=pod.requests)
        if short is not None:
            resource, asked, free = short
            misfits[uid] = _stale(
                f"node {name} has {shown(max(free, 0), resource=resource)} free {resource}, "
                f"pod {pod.metadata.name} asks for {shown(asked, resource=resource)}",
                subject=name,
            )
            continue
        for resource, amount in pod.requests.items():
            if amount > 0:
                snapshot.free[row, snapshot.columns[resource]] -= amount
    return misfits


def _stale(message: str, *, subject: str) -> Reason:
    return Reason(code=ReasonCode.PLACEMENT_STALE, message=message, count=1, subject=subject)


def _shortage(snapshot: Snapshot, *, row: int, requests: Resources) -> tuple[str, int, int] | None:
    """Return resource, amount asked and amount free of the first resource that does not suffice."""
    for resource, amount in sorted(requests.items()):
        column = snapshot.columns.get(resource)
        free = 0 if column is None else int(snapshot.free[row, column])
        if amount > 0 and free < amount:
            return resource, amount, free
    return None


def _difficulty(requests: tuple[tuple[str, int], ...]) -> tuple[tuple[int, str, int], ...]:
    """Order classes: extended resources before memory, CPU and slots, larger amounts first."""
    rank = {PODS: 0, "cpu": 1, "memory": 2, "ephemeral-storage": 2}
    return tuple(sorted(((rank.get(name, 3), name, amount) for name, amount in requests), reverse=True))


def _place_class(snapshot: Snapshot, one: MemberClass) -> list[NodeName]:
    """Return nodes for as many members of the class as fit, and take their amounts off the snapshot."""
    fits = _fits(snapshot, one)
    usable = np.flatnonzero(fits)
    if not usable.size:
        return []
    order = usable[np.argsort(_preference(snapshot, one, usable=usable, fits=fits), kind="stable")]
    filled = np.cumsum(fits[order])
    last = int(np.searchsorted(filled, len(one.members)))
    chosen = order[: last + 1]
    counts = fits[chosen].copy()
    if last < len(order):
        counts[-1] -= int(filled[last]) - len(one.members)
    for resource, amount in one.requests:
        snapshot.free[chosen, snapshot.columns[resource]] -= amount * counts
    return [snapshot.names[row] for row, count in zip(chosen, counts, strict=True) for _ in range(int(count))]


def _fits(snapshot: Snapshot, one: MemberClass) -> Counts:
    """Return how many members of the class fit on each node."""
    fits = np.where(snapshot.verdicts[one.constraints] == Verdict.ADMITTED, len(one.members), 0).astype(np.int64)
    for name in one.excluded_nodes:
        if name in snapshot.rows:
            fits[snapshot.rows[name]] = 0
    for resource, amount in one.requests:
        column = snapshot.columns.get(resource)
        if column is None:
            return np.zeros(len(snapshot.names), dtype=np.int64)
        fits = np.minimum(fits, snapshot.free[:, column] // amount)
    return np.maximum(fits, 0)


def _preference(snapshot: Snapshot, one: MemberClass, *, usable: Counts, fits: Counts) -> Counts:
    """Return ranks of the usable nodes, best first is smallest.

    A node that takes all members by itself and is left with the least comes first; otherwise the one that takes the
    most members, so that a gang spreads over as few nodes as it can. Ties go by name, so that the answer does not
    depend on the order in which nodes were seen.
    """
    wanted = len(one.members)
    scarce = _scarcest(one)
    left = snapshot.free[usable, snapshot.columns[scarce]] if scarce else np.zeros(len(usable), dtype=np.int64)
    taken = np.minimum(fits[usable], wanted)
    names = np.argsort(np.argsort(np.array([snapshot.names[row] for row in usable])))
    order = np.lexsort((names, left, -taken))
    ranks = np.empty(len(usable), dtype=np.int64)
    ranks[order] = np.arange(len(usable))
    return ranks


def _scarcest(one: MemberClass) -> str:
    """Return the resource by which nodes are filled up: an extended one where the class asks for one."""
    return max(one.requests, key=lambda item: _difficulty((item,)), default=("", 0))[0]


def _refusal_reasons(snapshot: Snapshot, left: list[MemberClass], placeable: int, needed: int) -> tuple[Reason, ...]:
    """Return why the members that are left cannot be placed beside those that could."""
    reasons = [
        Reason(
            code=ReasonCode.INSUFFICIENT_CAPACITY,
            message=f"{placeable} of the {needed} needed pods can be placed",
            count=placeable,
        )
    ]
    if not snapshot.node_count:
        return (*reasons, Reason(code=ReasonCode.NO_NODES, message="the cluster has no nodes"))
    seen: set[tuple[ReasonCode, str]] = set()
    for one in left:
        for reason in (*_shortage_reasons(snapshot, one), *_verdict_reasons(snapshot, one)):
            if (reason.code, reason.subject) not in seen:
                seen.add((reason.code, reason.subject))
                reasons.append(reason)
    return tuple(reasons)


def _shortage_reasons(snapshot: Snapshot, one: MemberClass) -> list[Reason]:
    admitted = snapshot.verdicts[one.constraints] == Verdict.ADMITTED
    total = int(admitted.sum())
    if not total:
        return []
    reasons = []
    for resource, amount in one.requests:
        column = snapshot.columns.get(resource)
        free: Amounts = (
            np.zeros(total, dtype=np.int64) if column is None else np.maximum(snapshot.free[admitted, column], 0)
        )
        short = int((free < amount).sum())
        if not short:
            continue
        most = shown(int(free.max()), resource=resource)
        asked = shown(amount, resource=resource)
        what = (
            f"no node has {asked} free {resource}"
            if short == total
            else (f"{short} of {total} nodes have less than {asked} free {resource}")
        )
        reasons.append(
            Reason(
                code=ReasonCode.INSUFFICIENT_RESOURCE,
                message=f"{what} (largest free is {most})",
                count=short,
                subject=resource,
            )
        )
    return reasons


def _verdict_reasons(snapshot: Snapshot, one: MemberClass) -> list[Reason]:
    verdicts = snapshot.verdicts[one.constraints]
    reasons = []
    for kind, code in REASON_OF_VERDICT.items():
        count = int((verdicts == kind).sum())
        if kind is Verdict.EXCLUDED:
            count = sum(name in snapshot.rows for name in one.excluded_nodes)
        if count:
            what = f"{count} node{'s are' if count > 1 else ' is'} {TEXT_OF_VERDICT[kind]}"
            reasons.append(Reason(code=code, message=what, count=count))
    return reasons
