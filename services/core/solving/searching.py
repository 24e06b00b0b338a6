"""Bounded back-tracking: member after member, on every node that differs from the others, until enough are placed.

The bound counts steps, so the answer does not depend on the machine. A search that ends before its bound has looked at
everything: then nothing exists. Orders matter to spread and affinity (a member may open the way for another), so each
step may take a member of any class there; what was reached once is not looked at again, however it was reached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from services.core.solving.board import Board, Rows
from services.core.solving.bounds import most_of
from services.core.solving.classes import scarcest
from services.core.solving.rules import Flags

MAX_STEPS = 4_000
"""Steps of one search on a small cluster."""
NODE_STEPS = 1_500_000
"""Steps times nodes that one search may take on a large one."""
PAIR_STEPS = 8_000_000
"""Steps times the square of classes: each step asks every class, and each of these what the others bring it."""
MIN_STEPS = 10
"""Steps that are taken whatever they cost."""
MAX_BRANCHES = 48
"""Nodes that are tried for one member; with more of them the search is not complete."""


class Outcome(Enum):
    """How a search ended."""

    FOUND = "found"
    NOTHING = "nothing"
    GAVE_UP = "gave up"


@dataclass(slots=True, kw_only=True)
class Budget:
    """Steps that are left, shared by all searches of one decision."""

    steps: int

    @classmethod
    def of(cls, *, nodes: int, classes: int) -> "Budget":
        """Return the budget of a decision on so many nodes, for members of so many classes."""
        by_nodes = max(NODE_STEPS // max(nodes, 1), 100)
        by_classes = PAIR_STEPS // max(classes, 1) ** 2
        return cls(steps=max(min(MAX_STEPS, by_nodes, by_classes), MIN_STEPS))


class Search:
    """One search on a board, for at least `needed` members in all."""

    def __init__(self, board: Board, *, needed: int, masks: Sequence[Flags | None], budget: Budget) -> None:
        """Begin where the board is: what is placed on it stays."""
        self._board = board
        self._needed = needed
        self._masks = masks
        self._budget = budget
        self._seen: set[tuple[tuple[int, int, int], ...]] = set()
        self._is_complete = True
        self._groups = range(len(board.classes))
        # Where no member can open the way for another, one order of classes, and of nodes within a class, is enough.
        self._any_order = any(rules.spreads or rules.near is not None for rules in board.rules)
        self._kinds = _kinds_of_nodes(board, masks)

    def run(self) -> Outcome:
        """Search; the board holds what was found, or what it held before."""
        if self._descend(first_group=0, last_row=-1):
            return Outcome.FOUND
        return Outcome.NOTHING if self._is_complete else Outcome.GAVE_UP

    def _descend(self, *, first_group: int, last_row: int) -> bool:
        """Place one more member. Deep where gangs are large: as deep as the budget allows at most."""
        board = self._board
        if board.placed_count >= self._needed:
            return True
        if self._is_over():
            return False
        self._budget.steps -= 1
        if self._was_here() or not self._can_succeed(first_group):
            return False
        groups = self._groups if self._any_order else range(first_group, len(self._groups))
        for group in groups:
            if self._is_over():
                return False
            if board.left[group] and self._try_class(group, last_row=last_row if group == first_group else -1):
                return True
        return False

    def _is_over(self) -> bool:
        """Tell whether the budget is used up: then nothing more is looked at, on no level of the search."""
        if self._budget.steps > 0:
            return False
        self._is_complete = False
        return True

    def _try_class(self, group: int, *, last_row: int) -> bool:
        board = self._board
        for row in self._candidates(group, last_row=-1 if self._any_order else last_row):
            length = len(board.moves)
            board.put(group, row=row)
            if self._descend(first_group=group, last_row=int(board.snapshot.ranks[row])):
                return True
            board.back_to(length)
            if self._is_over():
                return False
        return False

    def _can_succeed(self, first_group: int) -> bool:
        groups = self._groups if self._any_order else range(first_group, len(self._groups))
        possible = self._board.placed_count
        for group in groups:
            if self._board.left[group]:
                possible += most_of(self._board, group, within=self._mask(group))
        return possible >= self._needed

    def _mask(self, group: int) -> Flags | None:
        return self._masks[group] if self._masks else None

    def _was_here(self) -> bool:
        sums: dict[tuple[int, int], int] = {}
        for move in self._board.moves:
            sums[move.group, move.row] = sums.get((move.group, move.row), 0) + move.count
        state = tuple(sorted((group, row, count) for (group, row), count in sums.items()))
        if state in self._seen and self._any_order:
            return True
        self._seen.add(state)
        return False

    def _candidates(self, group: int, *, last_row: int) -> list[int]:
        """Return the nodes to try for a member, tightest first, one of each kind of nodes that are alike now."""
        board = self._board
        usable: Rows = np.flatnonzero(board.room(group, within=self._mask(group)))
        if last_row >= 0:
            usable = usable[board.snapshot.ranks[usable] >= last_row]
        if not usable.size:
            return []
        column = board.snapshot.columns.get(scarcest(board.classes[group].requests))
        scarce = board.free[usable, column] if column is not None else np.zeros(len(usable), dtype=np.int64)
        ordered = usable[np.lexsort((board.snapshot.ranks[usable], scarce))]
        touched = {move.row for move in board.moves}
        kinds: set[int] = set()
        found: list[int] = []
        for row in ordered.tolist():
            # A node that this search has not touched is like all others of its kind, and the first stands for them.
            if row not in touched:
                if int(self._kinds[row]) in kinds:
                    continue
                kinds.add(int(self._kinds[row]))
            found.append(row)
            if len(found) > MAX_BRANCHES:
                self._is_complete = False
                return found[:MAX_BRANCHES]
        return found


def _kinds_of_nodes(board: Board, masks: Sequence[Flags | None]) -> Rows:
    """Return a number for each node, equal for nodes between which no rule and no amount makes a difference.

    Labels of which each value is on one node alone (as the hostname) make no difference by themselves: what their
    counters say does.
    """
    columns: list[Rows] = [board.free[:, column] for column in range(board.free.shape[1])]
    # One class may be kept to nodes that are nothing special to another, which has to leave them room.
    columns += [mask.astype(np.int64) for mask in masks if mask is not None]
    for group, rules in enumerate(board.rules):
        columns.append(rules.static.astype(np.int64))
        attachable = board.attachable(group)
        if attachable is not None:
            # Which volumes are where is too fine to compare: each node is a kind of its own.
            return np.arange(len(board.snapshot.names), dtype=np.int64)
        counters = [counter for _, counter in rules.forbidden]
        counters += [spread.counter for spread in rules.spreads]
        counters += list(rules.near.counters) if rules.near is not None else []
        columns += [_told_apart(counter.codes, counter.counts) for counter in counters]
        columns += [_told_apart(spread.domains, spread.counter.counts) for spread in rules.spreads]
    if board.devices is not None:
        columns.append(board.devices.all_kinds())
    return _numbered(columns, count=len(board.snapshot.names))


def _numbered(columns: Sequence[Rows], *, count: int) -> Rows:
    """Return a number for each row, equal where rows are equal in all columns.

    Column by column, because sorting whole rows takes ten times as long, and this is done for each region.
    """
    kinds = np.zeros(count, dtype=np.int64)
    for column in columns:
        if not count or column.min() == column.max():
            continue
        _, codes = np.unique(column, return_inverse=True)
        _, kinds = np.unique(kinds * (int(codes.max()) + 1) + codes, return_inverse=True)
    return kinds.astype(np.int64)


def _told_apart(codes: Rows, counts: Rows) -> Rows:
    inside = codes[codes >= 0]
    sizes = np.bincount(inside, minlength=len(counts))
    is_alone = sizes[codes] <= 1
    # Alone in its domain: only the count matters. Numbers of domains and counts must not meet, so one is negative.
    by_count = -2 - counts[codes]
    return np.where(codes < 0, -1, np.where(is_alone, by_count, codes))
