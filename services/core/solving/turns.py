"""Placing very many equal members whose rules change with each of them, without asking all nodes for each one.

Domains of the narrowest spread take turns, the emptiest first, and each has its nodes in the order in which a filling
would use them. What a node says is asked of that node alone (`Board.refusal_on`), which is the same rule as over all.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from services.core.solving.board import Board
from services.core.solving.rules import Counts, Spread

LOOKS_PER_MEMBER = 16
"""Nodes that are asked for each member, on average, before a filling ends with those that it has placed."""

Turn = tuple[int, int, int]
"""Members that count in a domain, its place in the order of nodes, and the domain."""


class Turns:
    """One class on one board. `rows` are nodes in the order of use, `room` how many members each could take at most."""

    def __init__(self, board: Board, group: int, *, rows: Sequence[int], room: Counts) -> None:
        """Begin where the board is: what is placed on it stays."""
        self._board, self._group = board, group
        self._spread = _narrowest([one for one in board.rules[group].spreads if one.adds])
        self._left = {row: int(room[row]) for row in rows}
        self._lanes: dict[int, deque[int]] = {}
        for row in rows:
            self._lanes.setdefault(0 if self._spread is None else int(self._spread.domains[row]), deque()).append(row)
        self._looks = LOOKS_PER_MEMBER * board.left[group] + len(rows)

    def run(self) -> None:
        """Place as many as can be, or as the bound on looks allows."""
        ready = [self._turn(index, domain) for index, domain in enumerate(self._lanes)]
        heapify(ready)
        blocked: list[Turn] = []
        while ready and self._board.left[self._group] and self._looks > 0:
            turn = heappop(ready)
            row = self._next_row(self._lanes[turn[2]])
            if row is None:
                blocked.append(turn)
                continue
            self._board.put(self._group, row=row)
            self._left[row] -= 1
            # One member more, and others may be admitted where they were not.
            for one in (turn, *blocked):
                heappush(ready, self._turn(one[1], one[2]))
            blocked.clear()

    def _turn(self, index: int, domain: int) -> Turn:
        return (0 if self._spread is None else int(self._spread.counter.counts[domain]), index, domain)

    def _next_row(self, lane: deque[int]) -> int | None:
        """Return the first node of a domain that takes one more member; those that refuse go to its end."""
        for _ in range(len(lane)):
            row = lane[0]
            self._looks -= 1
            if self._looks < 0 or (self._spread is not None and not self._spread.admits_on(row)):
                return None
            if self._left[row] <= 0:
                lane.popleft()
            elif self._takes(row):
                return row
            else:
                lane.rotate(-1)
        return None

    def _takes(self, row: int) -> bool:
        board, group = self._board, self._group
        return board.refusal_on(group, row) is None and board.has_amounts(group, row)


def _narrowest(spreads: Sequence[Spread]) -> Spread | None:
    """Return the spread with the fewest domains: there a domain is asked once for all of its nodes."""
    return min(spreads, key=lambda one: int(one.counted.sum()), default=None)
