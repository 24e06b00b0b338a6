"""An order in which members can take given places, each passing the rules beside those before it.

Who asks for pods near by goes first (the first of a kind may be alone), then who is spread, then the rest; and again,
as long as one has opened the way for another. Where that leaves somebody over, other orders are tried within a bound.
"""

from collections import Counter
from collections.abc import Sequence

from services.core.node_rules import Verdict
from services.core.solving.board import Board

Place = tuple[int, int]
"""Class and row."""

MAX_STEPS = 400
"""Orders that are tried, counted in placed members, where the usual one leaves somebody over."""


def take_places(board: Board, places: Sequence[Place]) -> list[int]:
    """Place members where it is said, in some order; return the positions of those that cannot be there."""
    begun = len(board.moves)
    left = _in_usual_order(board, places)
    if not left or not any(rules.spreads or rules.near is not None for rules in board.rules):
        return left
    usual = tuple(board.moves[begun:])
    board.back_to(begun)
    wanted = Counter(places)
    if _in_any_order(board, wanted, seen=set(), steps=[MAX_STEPS]):
        return []
    board.back_to(begun)
    for move in usual:
        board.put(move.group, row=move.row, count=move.count)
    return left


def can_take(board: Board, group: int, row: int) -> bool:
    """Tell whether one more member of a class can be on a node now."""
    rules = board.rules[group]
    return (
        rules.can_be_placed
        and board.verdict_on(group, row) is Verdict.ADMITTED
        and board.has_amounts(group, row)
        and board.refusal_on(group, row) is None
    )


def _in_usual_order(board: Board, places: Sequence[Place]) -> list[int]:
    def urgency(position: int) -> tuple[bool, bool, int]:
        rules = board.rules[places[position][0]]
        return rules.near is None, not rules.spreads, position

    left = sorted(range(len(places)), key=urgency)
    while True:
        later = []
        for position in left:
            group, row = places[position]
            if can_take(board, group, row):
                board.put(group, row=row)
            else:
                later.append(position)
        if not later or len(later) == len(left):
            return sorted(later)
        left = later


def _in_any_order(
    board: Board, wanted: Counter[Place], *, seen: set[tuple[tuple[Place, int], ...]], steps: list[int]
) -> bool:
    """Place all that are wanted, going back where an order leads nowhere. `steps` holds what is left of the bound."""
    if not wanted.total():
        return True
    state = tuple(sorted(wanted.items()))
    if state in seen or steps[0] <= 0:
        return False
    seen.add(state)
    for place in sorted(wanted):
        if steps[0] <= 0:
            return False
        if not can_take(board, *place):
            continue
        steps[0] -= 1
        length = len(board.moves)
        board.put(place[0], row=place[1])
        if _in_any_order(board, wanted - Counter([place]), seen=seen, steps=steps):
            return True
        board.back_to(length)
    return False
