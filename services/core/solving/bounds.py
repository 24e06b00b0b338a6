"""How many members could be placed at most: cheap proofs that something cannot be, before anything is searched.

Each bound leaves rules out that it does not see, never one that would place more: what it excludes does not exist.
"""

from collections.abc import Sequence

import numpy as np

from services.core.judgements import NO_DOMAIN, Codes
from services.core.solving.board import Board
from services.core.solving.compiling import feeders
from services.core.solving.rules import Counts, Flags, Spread

_MOST_COUNTED = 2**62
_ROUNDED_UP = 1 + 1e-9
"""Makes a sum of whole numbers that was added up in floats no smaller than it is."""


def capacity(board: Board, group: int, *, within: Flags | None) -> Counts:
    """Return how many members of a class each node could take at most, now and after any other placements.

    Rules that others' placements could loosen (spread, affinity) are left out.
    """
    admitted = board.rules[group].static.copy()
    if within is not None:
        admitted &= within
    for _, counter in board.rules[group].forbidden:
        admitted &= counter.over_nodes() == 0
    return board.one_per_domain(group, board.amounts_for(group, admitted=admitted))


def most_of(board: Board, group: int, *, within: Flags | None) -> int:
    """Return how many of the class's members that are left could be placed at most."""
    return _most_in(board, group, capacity(board, group, within=within))


def _most_in(board: Board, group: int, room: Counts) -> int:
    rules, left = board.rules[group], board.left[group]
    most = min(int(room.sum()), left)
    for counter in rules.forbids_itself:
        free = (room > 0) & (counter.codes >= 0)
        outside = int(room[counter.codes < 0].sum())
        most = min(most, len(np.unique(counter.codes[free])) + outside)
    for spread in rules.spreads:
        most = min(most, _most_spread(board, group, spread, room))
    if rules.near is not None:
        most = min(most, _most_near(board, group, room))
    return most


def most_of_all(board: Board, *, masks: Sequence[Flags | None] = ()) -> int:
    """Return how many members could be placed at most beside those that are.

    Class by class, and where there are several of them also all together: what one takes the others lack.
    """
    groups = [group for group in range(len(board.classes)) if board.left[group]]
    most, is_open = 0, np.zeros(len(board.snapshot.names), dtype=np.bool_)
    for group in groups:
        room = capacity(board, group, within=masks[group] if masks else None)
        is_open |= room > 0
        most += _most_in(board, group, room)
    if len(groups) < 2 or not most:  # noqa: PLR2004 - one class alone is counted
        return most
    return min(most, int(most_together(board, groups, codes=np.where(is_open, 0, NO_DOMAIN), count=1)[0]))


def most_together(board: Board, groups: Sequence[int], *, codes: Codes, count: int) -> Counts:
    """Return how many members of some classes that are left each domain could take at most, by amounts alone.

    On each node, and in each domain, those that ask for the least of a resource go first: no choice places more.
    """
    inside = codes >= 0
    wanted = sum(board.left[group] for group in groups)
    most = np.full(count, wanted, dtype=np.int64)
    # What a DeviceClass stands for on some nodes bounds nobody there.
    for column in {column for group in groups for column, _, where in board.rules[group].amounts if where is None}:
        asked = _asked(board, groups, column)
        free = np.maximum(board.free[inside, column], 0)
        on_nodes = np.searchsorted(asked, free, side="right")
        by_nodes = np.bincount(codes[inside], weights=on_nodes, minlength=count)
        total = np.bincount(codes[inside], weights=free, minlength=count) * _ROUNDED_UP
        in_sum = np.searchsorted(asked, total, side="right")
        most = np.minimum(most, np.minimum(by_nodes, in_sum).astype(np.int64))
    return most


def _asked(board: Board, groups: Sequence[int], column: int) -> Counts:
    """Return what the first, the first two, … members ask for together, those that ask for the least first."""
    amounts = [
        next((amount for one, amount, where in board.rules[group].amounts if one == column and where is None), 0)
        for group in groups
    ]
    left = [board.left[group] for group in groups]
    # Amounts that nobody has count as less than they are, so that the sum fits into 64 bits.
    each = np.minimum(np.array(amounts, dtype=np.int64), _MOST_COUNTED // max(sum(left), 1))
    return np.cumsum(np.sort(np.repeat(each, left)))


def _sums(codes: Codes, room: Counts, count: int) -> Counts:
    inside = codes >= 0
    return np.bincount(codes[inside], weights=room[inside], minlength=count).astype(np.int64)


def _most_spread(board: Board, group: int, spread: Spread, room: Counts) -> int:
    """No domain can end with more than the emptiest one can ever have, and the skew beside it."""
    counts = spread.counter.counts
    sums = _sums(spread.domains, room, len(counts))
    if not spread.adds:
        return int(sums.sum())
    others = sum(board.left[other] for other in board.adding_to(spread.counter) if other != group)
    # Only nodes that take part add to the emptiest domain.
    growing = _sums(spread.counter.codes, room, len(counts))
    enough = int(spread.counted.sum()) >= spread.min_domains
    emptiest = int((counts + growing)[spread.counted].min(initial=board.left[group] + int(counts.max(initial=0))))
    ceiling = (emptiest + others if enough else 0) + spread.max_skew
    return int(np.minimum(sums, np.maximum(ceiling - counts, 0)).sum())


def _most_near(board: Board, group: int, room: Counts) -> int:
    """Only domains with pods to be near to count; where none is yet, and nobody else brings one, a single domain."""
    near = board.rules[group].near
    assert near is not None
    fed_by = set(feeders(board, group))
    inside = np.logical_and.reduce([counter.codes >= 0 for counter in near.counters])
    room = np.where(inside, room, 0)
    if any(board.left[other] for other in fed_by - {group}):
        return int(room.sum())
    if near.has_pods:
        return int(room[near.admits()].sum())
    if not near.may_be_first:
        return 0
    # The first one chooses; afterwards all terms hold only in its domains.
    return min(int(_sums(counter.codes, room, len(counter.counts)).max(initial=0)) for counter in near.counters)
