"""Placing as many members as fit, class after class, without going back: what finds most placements at once.

A class whose members do not hinder each other is one sort and one sum over all nodes. Where a member changes where the
next one may be (spread, affinity, anti-affinity), nodes are taken one after the other, each with as many as it may.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from services.core.judgements import Codes
from services.core.solving.board import Board, Rows
from services.core.solving.bounds import capacity
from services.core.solving.classes import scarcest
from services.core.solving.compiling import liked_near
from services.core.solving.rules import Counts, Flags
from services.core.solving.turns import Turns
from services.core.solving.usefulness import waste_keys

MAX_STEPWISE = 256
"""Members of a class that are placed one by one, each on the best node of all; of larger ones by turns or in lumps."""

Masks = Sequence[Flags | None]
"""For each class the nodes to which it is kept; None keeps it to none."""


class Manner(Enum):
    """How nodes are chosen among those that are liked equally."""

    FEWEST = "fewest"
    """The node that takes most of the class, then the one whose room stays most useful, then that with least left."""
    TIGHTEST = "tightest"
    """The node that is left with the least of what is scarce."""
    EVENEST = "evenest"
    """The node that has most of what is scarce, which keeps room for others on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """How a board is filled. `order` are classes; `levels` are domains of which few should be used, narrowest first.

    Classes of more members than `most_stepwise` are not placed one by one.
    """

    order: tuple[int, ...]
    manner: Manner = Manner.FEWEST
    masks: Masks = ()
    levels: tuple[Codes, ...] = ()
    most_stepwise: int = MAX_STEPWISE

    def mask(self, group: int) -> Flags | None:
        """Return the nodes to which a class is kept."""
        return self.masks[group] if self.masks else None


def fill(board: Board, filling: Filling) -> None:
    """Place as many members as fit. A class that could not begin is tried again when others have been placed."""
    while True:
        before = board.placed_count
        for group in filling.order:
            if board.left[group]:
                _place(board, group, filling)
        if board.placed_count == before or not any(
            board.left[group] and board.rules[group].near is not None for group in filling.order
        ):
            return


def _place(board: Board, group: int, filling: Filling) -> None:
    if not board.rules[group].steps:
        _place_at_once(board, group, filling, wanted=board.left[group])
        return
    step = _place_step if board.left[group] <= filling.most_stepwise else _place_many
    while board.left[group] and step(board, group, filling):
        pass


def _place_at_once(board: Board, group: int, filling: Filling, *, wanted: int) -> None:
    room = board.room(group, within=filling.mask(group))
    usable = np.flatnonzero(room)
    if not usable.size:
        return
    order = usable[np.lexsort(_keys(board, group, filling, usable=usable, room=room, wanted=wanted))]
    _take(board, group, order=order, room=room, wanted=wanted)


def _take(board: Board, group: int, *, order: Rows, room: Counts, wanted: int) -> None:
    """Place members on the first nodes of an order, each with all of its room, until as many as wanted are placed."""
    filled = np.cumsum(room[order])
    last = int(np.searchsorted(filled, wanted))
    chosen = order[: last + 1]
    counts = room[chosen]
    if last < len(order):
        counts[-1] -= int(filled[last]) - wanted
    board.put_many(group, rows=chosen, counts=counts)


def _place_step(board: Board, group: int, filling: Filling) -> bool:
    """Place members on one node; tell whether there was one."""
    rules = board.rules[group]
    room = board.room(group, within=filling.mask(group))
    usable = np.flatnonzero(room)
    if not usable.size:
        return False
    only_keeps_off = not rules.spreads_itself and rules.near is None and not rules.likes_near
    if only_keeps_off and all(_is_by_node(counter.codes, usable) for counter in rules.forbids_itself):
        # Members keep each other off node by node: one sort serves all of them.
        _place_at_once(board, group, filling, wanted=board.left[group])
        return False
    row = _best_row(board, group, filling, usable=usable, room=room, wanted=board.left[group])
    # What is preferred of pods changes with each of them: then they are placed one by one.
    at_once = 1 if rules.likes_near else int(room[row])
    most = min([at_once, board.left[group], *(spread.allowance(row) for spread in rules.spreads)])
    board.put(group, row=row, count=max(most, 1))
    return True


def _place_many(board: Board, group: int, filling: Filling) -> bool:
    """Place members of a large class; tell whether to go on.

    Where rules may close a node, domains take turns. Where pods are only liked or disliked, members go in lumps, so
    that a lump is placed as the pods before it make it: that keeps the number of steps, each over all nodes, bounded.
    """
    rules = board.rules[group]
    room = board.room(group, within=filling.mask(group))
    usable = np.flatnonzero(room)
    if not usable.size:
        return False
    wanted = board.left[group]
    is_open = not rules.spreads_itself and rules.near is None
    if is_open and all(_is_by_node(counter.codes, usable) for counter in rules.forbids_itself):
        lump = -(-board.classes[group].size // max(filling.most_stepwise, 1)) if rules.likes_near else wanted
        _place_lump(board, group, filling, usable=usable, room=room, lump=min(lump, wanted))
        return True
    # Nodes that a rule closes now may be open when others have taken their turns.
    room = capacity(board, group, within=filling.mask(group))
    usable = np.flatnonzero(room)
    order = usable[np.lexsort(_keys(board, group, filling, usable=usable, room=room, wanted=wanted))]
    Turns(board, group, rows=order.tolist(), room=room).run()
    return False


def _place_lump(board: Board, group: int, filling: Filling, *, usable: Rows, room: Counts, lump: int) -> None:
    """Place some members on nodes that are liked best, evenly over them: what is liked may change node by node."""
    left = np.arange(len(usable))
    for key in reversed(_wished(board, group, filling, usable=usable, room=room, wanted=board.left[group])):
        here = key[left]
        left = left[here == here.min()]
    rows = usable[left]
    even = room.copy()
    if board.rules[group].likes_near:
        even[rows] = np.minimum(room[rows], max(-(-lump // len(rows)), 1))
    order = rows[np.lexsort(_by_manner(board, group, filling.manner, rows=rows, taken=even[rows]))]
    _take(board, group, order=order, room=even, wanted=lump)


def _is_by_node(codes: Codes, usable: Rows) -> bool:
    inside = codes[usable]
    return bool((inside >= 0).all()) and len(np.unique(inside)) == len(usable)


def _keys(board: Board, group: int, filling: Filling, *, usable: Rows, room: Counts, wanted: int) -> tuple[Counts, ...]:
    """Return sort keys of the usable nodes, the last the most important, as numpy.lexsort takes them.

    What the members like comes first, then few domains, then the manner. Ties go by name, so that the answer does not
    depend on the order in which nodes were seen.
    """
    wished = _wished(board, group, filling, usable=usable, room=room, wanted=wanted)
    taken = np.minimum(room[usable], wanted)
    return (*_by_manner(board, group, filling.manner, rows=usable, taken=taken), *wished)


def _best_row(board: Board, group: int, filling: Filling, *, usable: Rows, room: Counts, wanted: int) -> int:
    """Return the node that a sort by the keys would put first. Costly keys are asked only of those that are left."""
    left = np.arange(len(usable))
    taken = np.minimum(room[usable], wanted)
    fewest = [-taken] if filling.manner is Manner.FEWEST else []
    for key in (*reversed(_wished(board, group, filling, usable=usable, room=room, wanted=wanted)), *fewest):
        here = key[left]
        left = left[here == here.min()]
    rows = usable[left]
    return int(rows[_first(_by_manner(board, group, filling.manner, rows=rows, taken=taken[left]))])


def _wished(
    board: Board, group: int, filling: Filling, *, usable: Rows, room: Counts, wanted: int
) -> tuple[Counts, ...]:
    """Return the keys of what members like, and before it of few domains."""
    rules, names = board.rules[group], board.snapshot.ranks[usable]
    keys = [_domain_ranks(codes[usable], room[usable], names=names, wanted=wanted) for codes in filling.levels]
    if rules.likes_near:
        keys.append(-liked_near(rules)[usable])
    if rules.liked is not None:
        keys.append(-rules.liked[usable])
    return tuple(keys)


def _by_manner(board: Board, group: int, manner: Manner, *, rows: Rows, taken: Counts) -> tuple[Counts, ...]:
    """Return the keys of a manner, where each node takes so many; ties go by name."""
    column = board.snapshot.columns.get(scarcest(board.classes[group].requests))
    left = board.free[rows, column] if column is not None else np.zeros(len(rows), dtype=np.int64)
    names = board.snapshot.ranks[rows]
    match manner:
        case Manner.FEWEST:
            return (names, left, *waste_keys(board, group, rows=rows, counts=taken), -taken)
        case Manner.TIGHTEST:
            return (names, -taken, left)
        case Manner.EVENEST:
            return (names, -left)


def _domain_ranks(codes: Codes, room: Counts, *, names: Counts, wanted: int) -> Counts:
    """Return a rank for each usable node, so that few domains are used: the roomiest, and last the tightest that does.

    Domains that are equally roomy go by the name of their first node.
    """
    domains, position = np.unique(codes, return_inverse=True)
    sums = np.bincount(position, weights=room).astype(np.int64)
    sums[domains < 0] = 0
    first_names = np.full(len(domains), len(names) + int(names.max()), dtype=np.int64)
    np.minimum.at(first_names, position, names)
    order = np.lexsort((first_names, -sums))
    last = int(np.searchsorted(np.cumsum(sums[order]), wanted))
    ranks = np.empty(len(domains), dtype=np.int64)
    ranks[order] = 2 * np.arange(len(domains))
    if last < len(order):
        rest = wanted - int(sums[order[:last]].sum())
        others = order[last:]
        enough = others[sums[others] >= rest]
        # After those that are used whole, and before all others.
        ranks[enough[np.lexsort((first_names[enough], sums[enough]))[0]]] = 2 * last - 1
    return ranks[position]


def _first(keys: tuple[Counts, ...]) -> int:
    """Return the position that a sort by these keys would put first."""
    left = np.arange(len(keys[0]))
    for key in reversed(keys):
        here = key[left]
        left = left[here == here.min()]
        if len(left) == 1:
            break
    return int(left[0])
