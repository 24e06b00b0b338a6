"""The exact fallback for unequal members: HiGHS decides whether amounts allow a placement, where counting does not.

Only for classes that others do not hinder (no spread, affinity or shared volumes): then a placement is a whole number
of members for each class and node, bounded by amounts. One thread and a bound on nodes of its search tree, not on time,
so the answer does not depend on the machine. What it finds is placed again on the board, which has the last word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np

from services.core.devices.demands import NO_DEMAND
from services.core.solving.board import Board, Rows
from services.core.solving.rules import Counts, Flags
from services.core.solving.searching import Outcome

MAX_CLASSES = 24
MAX_VARIABLES = 12_000
MAX_TREE_NODES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """Members of which classes could be on which of the chosen nodes: the variables are where `most` is above zero."""

    rows: Rows
    groups: tuple[int, ...]
    most: Counts
    """A row per class of `groups`, a column per node of `rows`."""


class _QuietHighs(highspy.Highs):
    """HiGHS without a word on standard output, where the answers of commands are read by programs."""

    def enableCallbacks(self) -> None:  # noqa: N802 - the library's name
        """The library's own constructor calls this first, and whatever comes first prints its banner."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]  # as above


def is_exact(board: Board) -> bool:
    """Tell whether amounts, and at most one member of a class per node, are all that members do to each other."""
    return all(
        not rules.spreads
        and rules.near is None
        and not one.storage.attached
        and one.demand == NO_DEMAND
        and all(_is_own_and_by_node(board, group, counter) for counter, _ in rules.adds)
        for group, (one, rules) in enumerate(zip(board.classes, board.rules, strict=True))
    )


def _is_own_and_by_node(board: Board, group: int, counter: object) -> bool:
    """Tell whether a counter only keeps the class's own next member off a node."""
    for other, rules in enumerate(board.rules):
        if other != group and any(one is counter for _, one in rules.forbidden):
            return False
        if other == group:
            for one in rules.forbids_itself:
                inside = one.codes[one.codes >= 0]
                if one is counter and len(np.unique(inside)) < len(inside):
                    return False
    return True


def solve_exactly(board: Board, *, needed: int, masks: Sequence[Flags | None]) -> Outcome:
    """Place at least `needed` members in all on a board where nothing is placed, if that is possible."""
    question = _question(board, masks=masks)
    if question is None:
        return Outcome.GAVE_UP
    counts = _answer(board, question, needed=needed)
    if isinstance(counts, Outcome):
        return counts
    for position, group in enumerate(question.groups):
        for row, count in zip(question.rows.tolist(), counts[position].tolist(), strict=True):
            room = int(board.room(group, within=masks[group] if masks else None)[row]) if count else 0
            if count > room:
                # Not what was asked: rounding, or a rule that the question does not have.
                board.back_to(0)
                return Outcome.GAVE_UP
            if count:
                board.put(group, row=row, count=count)
    return Outcome.FOUND


def _question(board: Board, *, masks: Sequence[Flags | None]) -> _Question | None:
    groups = tuple(group for group in range(len(board.classes)) if board.left[group])
    if not groups or len(groups) > MAX_CLASSES:
        return None
    room = np.stack([board.room(group, within=masks[group] if masks else None) for group in groups])
    rows = _enough_of_each_kind(board, room, members=sum(board.left))
    if int((room[:, rows] > 0).sum()) > MAX_VARIABLES:
        return None
    return _Question(rows=rows, groups=groups, most=room[:, rows])


def _enough_of_each_kind(board: Board, room: Counts, *, members: int) -> Rows:
    """Return nodes that take anybody: of those that are alike no more than there are members."""
    usable = np.flatnonzero(room.any(axis=0))
    if not usable.size:
        return usable
    alike = np.concatenate([room[:, usable].T, board.free[usable]], axis=1)
    _, kinds = np.unique(alike, axis=0, return_inverse=True)
    chosen: list[int] = []
    counted: dict[int, int] = {}
    for position in np.argsort(board.snapshot.ranks[usable], kind="stable").tolist():
        kind = int(kinds.reshape(-1)[position])
        counted[kind] = counted.get(kind, 0) + 1
        if counted[kind] <= members:
            chosen.append(int(usable[position]))
    return np.array(chosen, dtype=np.int64)


def _answer(board: Board, question: _Question, *, needed: int) -> Counts | Outcome:
    solver = _QuietHighs()  # type: ignore[no-untyped-call]  # its stubs leave this out
    for name, value in (
        ("threads", 1),
        ("random_seed", 0),
        ("mip_max_nodes", MAX_TREE_NODES),
        ("mip_rel_gap", 0.0),
    ):
        solver.setOptionValue(name, value)
    variables = _add_variables(solver, question)
    _add_amounts(solver, board, question, variables)
    every: list[int] = []
    for position, group in enumerate(question.groups):
        own = [index for (where, _), index in variables.items() if where == position]
        every += own
        if own:
            solver.addRow(0, board.left[group], len(own), np.array(own, dtype=np.int32), np.ones(len(own)))
    solver.addRow(
        needed, len(every) + sum(board.left), len(every), np.array(every, dtype=np.int32), np.ones(len(every))
    )
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Outcome.NOTHING
    if status != highspy.HighsModelStatus.kOptimal:
        return Outcome.GAVE_UP
    values = solver.getSolution().col_value
    counts = np.zeros_like(question.most)
    for (position, column), index in variables.items():
        counts[position, column] = round(values[index])
    return counts


def _add_variables(solver: highspy.Highs, question: _Question) -> dict[tuple[int, int], int]:
    """Add an integer for each class and node where it fits; return their positions."""
    positions = [tuple(one) for one in np.argwhere(question.most > 0).tolist()]
    for position, column in positions:
        solver.addVar(0, int(question.most[position, column]))
    indexes = np.arange(len(positions), dtype=np.int32)
    solver.changeColsIntegrality(len(positions), indexes, np.array([highspy.HighsVarType.kInteger] * len(positions)))
    return {(position, column): index for index, (position, column) in enumerate(positions)}


def _add_amounts(
    solver: highspy.Highs, board: Board, question: _Question, variables: dict[tuple[int, int], int]
) -> None:
    """Bound what the members on each node ask for in sum, in units that keep the numbers small."""
    by_node: dict[int, list[tuple[int, int]]] = {}
    for (position, column), index in variables.items():
        by_node.setdefault(column, []).append((position, index))
    for column, members in by_node.items():
        row = int(question.rows[column])
        asked: dict[int, list[tuple[int, int]]] = {}
        for position, index in members:
            for resource, amount, _ in board.rules[question.groups[position]].amounts:
                asked.setdefault(resource, []).append((index, amount))
        for resource, terms in asked.items():
            # A class alone is bounded by its variable already.
            if len(terms) < 2:  # noqa: PLR2004 - as said
                continue
            unit = int(np.gcd.reduce(np.array([amount for _, amount in terms], dtype=np.int64)))
            indexes = np.array([index for index, _ in terms], dtype=np.int32)
            weights = np.array([amount // unit for _, amount in terms], dtype=np.float64)
            solver.addRow(-highspy.kHighsInf, int(board.free[row, resource]) // unit, len(terms), indexes, weights)
