"""What pods of lower priority use: the room that their going would make, kept for the priorities asked for lately.

Only refusals ask, and mostly for the same few priorities, so an answer is kept current event by event. One that could
not be added up in 64 bits (amounts that no node has) is unknown, and stays so until it is counted again.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from services.core.objects import NodeName
from services.core.occupants import Occupant, Occupants
from services.core.quantities import MAX_AMOUNT, Resources

Amounts = NDArray[np.int64]

MAX_KEPT = 8
"""Priorities whose answers are kept."""
_MOST = 2**62


class Preemptible:
    """Amounts in use by pods below a priority, a row per node and a column per resource."""

    def __init__(self) -> None:
        """Start without answers."""
        self._below: dict[int, Amounts | None] = {}

    def clear(self) -> None:
        """Forget all answers: rows or columns mean something else now."""
        self._below.clear()

    def add(self, row: int, *, requests: Resources, columns: Mapping[str, int], priority: int, sign: int) -> None:
        """Follow a pod that has come to a row (`sign` 1) or left it (-1)."""
        for threshold, amounts in self._below.items():
            if amounts is not None and priority < threshold and not _add(amounts, row, requests, columns, sign=sign):
                self._below[threshold] = None

    def below(
        self,
        priority: int,
        *,
        occupants: Occupants,
        rows: Mapping[NodeName, int],
        columns: Mapping[str, int],
        size: int,
    ) -> Amounts | None:
        """Return the amounts of all pods below a priority on `size` rows, or None where they cannot be added up.

        Belongs to these answers: copy it before it is changed.
        """
        if priority in self._below:
            found = self._below.pop(priority)
        else:
            found = _counted(occupants.below(priority), rows=rows, columns=columns, size=size)
            if len(self._below) >= MAX_KEPT:
                del self._below[next(iter(self._below))]
        self._below[priority] = found
        return found


def _counted(
    pods: Iterable[Occupant], *, rows: Mapping[NodeName, int], columns: Mapping[str, int], size: int
) -> Amounts | None:
    amounts: Amounts = np.zeros((size, max(len(columns), 1)), dtype=np.int64)
    for one in pods:
        row = rows.get(one.node)
        if row is not None and not _add(amounts, row, one.pod.requests, columns, sign=1):
            return None
    return amounts


def _add(amounts: Amounts, row: int, requests: Resources, columns: Mapping[str, int], *, sign: int) -> bool:
    """Add what a pod asks for; false where the sum is more than can be written down."""
    for resource, amount in requests.items():
        total = int(amounts[row, columns[resource]]) + sign * min(amount, MAX_AMOUNT)
        if total > _MOST:
            return False
        amounts[row, columns[resource]] = total
    return True
