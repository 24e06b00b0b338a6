"""The placement core: all members of a gang at once, or the reasons why not.

`solve` and `check` are the only judges of placements: the placer, the binder's check, repairs, what-ifs and tests call
them. Both obey the rules of kube-scheduler 1.37's default filters (docs/kubernetes-rules.md), with the members of the
same decision seen like everybody else. How a placement is found is in `services.core.solving`; whatever finds it, it is
gone through once more, member by member, before it leaves here.

A placement is valid where there is an order in which every member passes the filters beside those before it: what
kube-scheduler would accept, were they bound in that order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from services.core.allocations import ClaimAllocation
from services.core.decisions import Victim
from services.core.inventory import Snapshot
from services.core.judgements import NO_DOMAIN
from services.core.node_rules import TEXT_OF_VERDICT, Verdict
from services.core.objects import NodeName, Pod, Uid
from services.core.occupants import Occupant
from services.core.policy import TopologyLevel
from services.core.quantities import Resources, shown
from services.core.reasons import Reason, ReasonCode
from services.core.solving.allocating import Allocated, allocated
from services.core.solving.board import Board, Move
from services.core.solving.bounds import most_of_all
from services.core.solving.classes import classes_of
from services.core.solving.compiling import compiled
from services.core.solving.explaining import reasons_of, text_of_rule
from services.core.solving.finding import Aim, Sibling, find
from services.core.solving.ordering import take_places
from services.core.solving.rechecking import lost_devices, without_claims
from services.core.solving.rules import Counts
from services.core.topology import NO_WISH, TopologyRequest, TopologyWish

MAX_KINDS = 1024
"""Kinds of members that may have rules about pods: each kind is asked about every other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where each member goes; members that did not fit beside the needed ones are absent.

    `claims` are the devices of their claims, those that are allocated already included.
    """

    nodes: Mapping[Uid, NodeName]
    claims: tuple[ClaimAllocation, ...] = ()
    #: Pods that have to go first.
    victims: tuple[Victim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Fewer members than needed can be placed; `partial` and its `claims` are what could be, for a repair to hold."""

    placeable: int
    reasons: tuple[Reason, ...]
    partial: Mapping[Uid, NodeName]
    claims: tuple[ClaimAllocation, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """So many members were found a place; `most` are possible where that is proved to be less than needed."""

    found: int
    most: int | None


def solve(
    snapshot: Snapshot,
    *,
    members: Iterable[Pod],
    needed: int,
    excluded_nodes: Mapping[Uid, frozenset[NodeName]] | None = None,
    wish: TopologyWish = NO_WISH,
    levels: Sequence[TopologyLevel] = (),
    placed: Iterable[Pod] = (),
) -> Placement | Refusal:
    """Place every member, or at least `needed` of them, on the snapshot.

    `placed` are members of the gang that are on nodes already: where the gang has to be together, they say where. A
    placement is taken off the snapshot, and what follows on it sees the members where they are; a refusal leaves it
    as it was. The same snapshot and members give the same answer, in whatever order they come.
    """
    pods = tuple(members)
    classes = classes_of(pods, snapshot=snapshot, excluded_nodes=excluded_nodes or {}, subgroups=wish.subgroups)
    if len(classes) > MAX_KINDS and any(one.rules.looks_at_pods for one in classes):
        return Refusal(placeable=0, reasons=(_too_many_kinds(len(classes)),), partial={})
    board = compiled(snapshot, classes)
    aim = _aim(needed=needed, wish=wish, levels=levels, placed=placed)
    finding = find(board, aim)
    board.back_to(0)
    _go_through(board, finding.moves)
    nodes = _nodes(board, finding.moves)
    found = allocated(snapshot, pods, nodes=nodes) if board.devices is not None else Allocated(nodes=nodes)
    if len(found.nodes) < needed:
        finding.leave_out(finding.placed - len(found.nodes))
        reasons = (*reasons_of(board, finding, aim), *found.reasons)
        return Refusal(placeable=finding.placed, reasons=reasons, partial=found.nodes, claims=found.claims)
    snapshot.free[:] = board.free
    for pod in pods:
        uid = pod.metadata.uid
        if uid in found.nodes:
            snapshot.placed[uid] = Occupant(pod=pod, node=found.nodes[uid])
        elif uid in nodes:
            snapshot.give_back(pod, node=nodes[uid])
    snapshot.devices.take(found.claims)
    return Placement(nodes=found.nodes, claims=found.claims)


def estimate(
    snapshot: Snapshot,
    *,
    members: Iterable[Pod],
    needed: int,
    excluded_nodes: Mapping[Uid, frozenset[NodeName]] | None = None,
    wish: TopologyWish = NO_WISH,
    levels: Sequence[TopologyLevel] = (),
    placed: Iterable[Pod] = (),
) -> Estimate:
    """Return how many members could be placed, without search: what is asked beside a decision has to be cheap."""
    classes = classes_of(members, snapshot=snapshot, excluded_nodes=excluded_nodes or {}, subgroups=wish.subgroups)
    board = compiled(snapshot, classes)
    aim = _aim(needed=needed, wish=wish, levels=levels, placed=placed, is_searched=False)
    finding = find(board, aim)
    board.back_to(0)
    if finding.placed >= needed or not finding.is_proved:
        return Estimate(found=finding.placed, most=None)
    return Estimate(found=finding.placed, most=max(finding.placed, min(most_of_all(board), needed - 1)))


def check(
    snapshot: Snapshot,
    *,
    pods: Mapping[Uid, Pod],
    nodes: Mapping[Uid, NodeName],
    wish: TopologyWish = NO_WISH,
    placed: Iterable[Pod] = (),
    claims: Iterable[ClaimAllocation] = (),
) -> dict[Uid, Reason]:
    """Return the members that do not fit where they were promised, with the reason; empty where all do.

    They fit where there is an order in which each does beside those before it. Who does is taken off the snapshot.
    `claims` are their promised devices: the very same ones have to be free still.
    """
    claims = tuple(claims)
    claiming = {uid for one in claims for uid in one.consumers}
    members = [without_claims(pods[uid]) if uid in claiming else pods[uid] for uid in nodes]
    classes = classes_of(members, snapshot=snapshot, excluded_nodes={}, subgroups=wish.subgroups)
    board = compiled(snapshot, classes)
    groups = {pod.metadata.uid: group for group, one in enumerate(classes) for pod in one.members}
    known = [uid for uid in nodes if nodes[uid] in snapshot.rows and not pods[uid].unreadable]
    over = take_places(board, [(groups[uid], snapshot.rows[nodes[uid]]) for uid in known])
    misfits = {known[position] for position in over} | (set(nodes) - set(known))
    reasons = {uid: _problem(board, pods[uid], group=groups[uid], name=nodes[uid]) for uid in nodes if uid in misfits}
    fitting = {uid: node for uid, node in nodes.items() if uid not in misfits}
    reasons |= lost_devices(snapshot.devices, nodes=fitting, claims=claims)
    misfits |= reasons.keys()
    for uid in nodes:
        if uid not in misfits:
            snapshot.placed[uid] = Occupant(pod=pods[uid], node=nodes[uid])
    snapshot.free[:] = board.free
    return reasons | _apart_from_the_others(snapshot, nodes=nodes, misfits=reasons, wish=wish, placed=tuple(placed))


def _too_many_kinds(count: int) -> Reason:
    text = f"members of {count} kinds with rules about other pods; at most {MAX_KINDS} kinds can be placed at once"
    return Reason(code=ReasonCode.GANG_TOO_LARGE, message=text, count=count)


def _aim(
    *,
    needed: int,
    wish: TopologyWish,
    levels: Sequence[TopologyLevel],
    placed: Iterable[Pod],
    is_searched: bool = True,
) -> Aim:
    subgroups = wish.subgroups
    siblings = (Sibling(node=pod.node, subgroup=subgroups.get(pod.metadata.uid, "")) for pod in placed if pod.node)
    return Aim(
        needed=needed,
        requests=wish.requests,
        levels=tuple(levels),
        siblings=tuple(siblings),
        is_searched=is_searched,
    )


def _nodes(board: Board, moves: Iterable[Move]) -> dict[Uid, NodeName]:
    """Return node by member: the members of a class in name order, the nodes in the order in which they were chosen."""
    waiting = [iter(one.members) for one in board.classes]
    return {
        next(waiting[move.group]).metadata.uid: board.snapshot.names[move.row]
        for move in moves
        for _ in range(move.count)
    }


def _go_through(board: Board, moves: Iterable[Move]) -> None:
    """Make the moves on an empty board, each checked on its own: whatever found them, these rules are the judge."""
    for group, run in groupby(moves, key=lambda move: move.group):
        steps = tuple(run)
        rules = board.rules[group]
        if rules.steps or board.classes[group].storage.attached:
            for move in steps:
                for _ in range(move.count):
                    _judge(board, group, rows=np.array([move.row]), counts=np.array([1]))
        else:
            rows, position = np.unique([move.row for move in steps], return_inverse=True)
            counts = np.bincount(position, weights=[move.count for move in steps]).astype(np.int64)
            _judge(board, group, rows=rows, counts=counts)


def _judge(board: Board, group: int, *, rows: Counts, counts: Counts) -> None:
    """Place members on nodes, or fail where a node would not take them."""
    rules = board.rules[group]
    is_wrong = not rules.can_be_placed or not rules.static[rows].all()
    for column, amount, where in rules.amounts:
        here = board.free[rows, column] >= amount * counts
        is_wrong |= not (here if where is None else here | ~where[rows]).all()
    is_wrong |= any(board.refusal_on(group, row) for row in rows.tolist())
    if board.devices is not None:
        places = zip(rows.tolist(), counts.tolist(), strict=True)
        is_wrong |= not all(board.devices.takes(group, row, count=count) for row, count in places)
    if is_wrong:
        pod = board.classes[group].members[0].metadata
        nodes = ", ".join(board.snapshot.names[row] for row in rows.tolist()[:3])
        raise AssertionError(f"pods like {pod.namespace}/{pod.name} were placed wrongly, on {nodes}")
    board.put_many(group, rows=rows, counts=counts)


def _problem(board: Board, pod: Pod, *, group: int, name: NodeName) -> Reason:
    """Return what keeps a member from its node now."""
    row = board.snapshot.rows.get(name)
    if row is None:
        return _stale(f"node {name} does not exist", subject=name)
    if pod.unreadable:
        return Reason(code=ReasonCode.UNREADABLE_FIELD, message=f"pod {pod.metadata.name}: {pod.unreadable}", count=1)
    verdict = board.verdict_on(group, row)
    if verdict is not Verdict.ADMITTED:
        return _stale(f"node {name} is {TEXT_OF_VERDICT.get(verdict, 'gone')}", subject=name)
    refusals = (*board.classes[group].storage.refusals, *board.classes[group].demand.problems)
    if refusals:
        return refusals[0]
    has_all = board.rules[group].can_be_placed and board.has_amounts(group, row)
    short = None if has_all else _shortage(board, row=row, requests=pod.requests)
    if short is not None:
        resource, asked, free = short
        return _stale(
            f"node {name} has {shown(max(free, 0), resource=resource)} free {resource}, "
            f"pod {pod.metadata.name} asks for {shown(asked, resource=resource)}",
            subject=name,
        )
    refused = board.refusal_on(group, row)
    what = "closed by the other members of the gang" if refused is None else text_of_rule(refused)
    return _stale(f"node {name} is {what}", subject=name)


def _apart_from_the_others(
    snapshot: Snapshot,
    *,
    nodes: Mapping[Uid, NodeName],
    misfits: Mapping[Uid, Reason],
    wish: TopologyWish,
    placed: tuple[Pod, ...],
) -> dict[Uid, Reason]:
    """Return the members that are outside the domain in which they have to be with the others."""
    found: dict[Uid, Reason] = {}
    for request in wish.requests:
        if not request.is_required:
            continue
        codes = snapshot.judgements.domains(request.level_label).codes
        members = {uid: name for uid, name in nodes.items() if uid not in misfits and _is_of(request, wish, uid)}
        others = [pod.node for pod in placed if pod.node and _is_of(request, wish, pod.metadata.uid)]
        allowed = {int(codes[snapshot.rows[name]]) for name in others if name in snapshot.rows} - {NO_DOMAIN}
        where = {uid: int(codes[snapshot.rows[name]]) for uid, name in members.items()}
        if not allowed and where:
            allowed = {max(sorted(set(where.values())), key=list(where.values()).count)} - {NO_DOMAIN}
        for uid, code in where.items():
            if code not in allowed:
                text = f"node {nodes[uid]} is not in the domain of {request.level_label} in which the others are"
                found[uid] = _stale(text, subject=nodes[uid])
    return found


def _is_of(request: TopologyRequest, wish: TopologyWish, uid: Uid) -> bool:
    return request.subgroup in {"", wish.subgroups.get(uid, "")}


def _stale(message: str, *, subject: str) -> Reason:
    return Reason(code=ReasonCode.PLACEMENT_STALE, message=message, count=1, subject=subject)


def _shortage(board: Board, *, row: int, requests: Resources) -> tuple[str, int, int] | None:
    """Return resource, amount asked and amount free of the first resource that does not suffice."""
    for resource, amount in sorted(requests.items()):
        column = board.snapshot.columns.get(resource)
        free = 0 if column is None else int(board.free[row, column])
        if amount > 0 and free < amount:
            return resource, amount, free
    return None
