"""How many members of a class the devices of each node would still take, beside those that are on it.

The state is nothing but how many members of which class are on which node, so going back is a subtraction; which device
is whose is chosen at the end, for the whole placement (`Devices.allocate`). Whether the devices of a node suffice for
some members is a question of back-tracking, so it is asked once for each kind of node and each state of it.
"""

from collections.abc import Sequence

import numpy as np

from services.core.devices.demands import NO_DEMAND, DeviceDemand, SharedKey
from services.core.inventory import Snapshot
from services.core.solving.rules import Counts, Flags

_UNKNOWN = -1
Held = tuple[int, ...]
"""How many members of each demand are on a node."""


class DeviceRoom:
    """The devices of all nodes for one search. Classes are known by their position."""

    def __init__(self, snapshot: Snapshot, demands: Sequence[DeviceDemand]) -> None:
        """Begin with nobody placed. `demands` has one for each class, equal ones for classes that ask for the same."""
        self._snapshot = snapshot
        self._demands = tuple(dict.fromkeys(one for one in demands if one != NO_DEMAND))
        positions = {demand: position for position, demand in enumerate(self._demands)}
        self._positions = tuple(positions.get(one, _UNKNOWN) for one in demands)
        self._nobody: Held = (0,) * len(self._demands)
        self._held: dict[int, Held] = {}
        self._kinds: Counts = np.full(len(snapshot.names), _UNKNOWN, dtype=np.int64)
        self._numbers: dict[object, int] = {}
        self._known: dict[tuple[int, Held, int], tuple[int, bool]] = {}
        #: True once a question was given up: what it would have said is not known.
        self.gave_up = False

    def asks(self, group: int) -> bool:
        """Tell whether members of a class need devices."""
        return self._positions[group] != _UNKNOWN

    def limited(self, group: int, room: Counts) -> Counts:
        """Return the room of nodes with no more members of a class than their devices would take."""
        position = self._positions[group]
        if position == _UNKNOWN:
            return room
        rows = np.flatnonzero(room > 0)
        if not rows.size:
            return room
        kinds = self.kinds(rows)
        most = int(room.max())
        of_kind = {
            kind: self._most(int(row), kind, self._nobody, position, most=most)
            for kind, row in zip(*_first_of_each(kinds, rows), strict=True)
        }
        numbers, inverse = np.unique(kinds, return_inverse=True)
        limits = np.array([of_kind[int(kind)] for kind in numbers], dtype=np.int64)[inverse.reshape(-1)]
        found = room.copy()
        found[rows] = np.minimum(room[rows], limits)
        for row, held in self._held.items():
            if room[row] > 0:
                kind = int(self._kinds[row])
                found[row] = min(int(room[row]), self._most(row, kind, held, position, most=int(room[row])))
        return found

    def takes(self, group: int, row: int, *, count: int = 1) -> bool:
        """Tell whether a node's devices would take more members of a class."""
        position = self._positions[group]
        if position == _UNKNOWN:
            return True
        kind = int(self.kinds(np.array([row]))[0])
        return self._most(row, kind, self._held.get(row, self._nobody), position, most=count) >= count

    def add(self, group: int, *, row: int, count: int) -> None:
        """Let members be on a node, or take them off."""
        position = self._positions[group]
        if position == _UNKNOWN:
            return
        held = self._held.get(row, self._nobody)
        changed = (*held[:position], held[position] + count, *held[position + 1 :])
        if any(changed):
            self._held[row] = changed
        else:
            del self._held[row]

    def kinds(self, rows: Counts) -> Counts:
        """Return a number for each of the rows, equal where the devices of two nodes answer every question equally."""
        unknown = rows[self._kinds[rows] == _UNKNOWN]
        for row in unknown.tolist():
            signature = self._snapshot.devices.signature(self._snapshot.names[row], self._demands)
            self._kinds[row] = self._numbers.setdefault(signature, len(self._numbers))
        return self._kinds[rows]

    def ties(self) -> list[frozenset[int]]:
        """Return the classes that share a claim without devices, for each such claim whose devices are of one node."""
        found: dict[SharedKey, set[int]] = {}
        for group, position in enumerate(self._positions):
            for key in self._snapshot.devices.ties(self._demands[position]) if position != _UNKNOWN else ():
                found.setdefault(key, set()).add(group)
        return [frozenset(groups) for _, groups in sorted(found.items())]

    def all_kinds(self) -> Counts:
        """Return the number of every node's kind."""
        return self.kinds(np.arange(len(self._kinds)))

    def _most(self, row: int, kind: int, held: Held, position: int, *, most: int) -> int:
        """Return how many more members of a demand a node takes, at most `most`; each answer is remembered."""
        known, is_end = self._known.get((kind, held, position), (0, False))
        while not is_end and known < most:
            step = min(max(known, 1), most - known)
            if self._fits(row, held, position, known + step):
                known += step
            elif step == 1:
                is_end = True
            else:
                known, is_end = self._between(row, held, position, fits=known, too_many=known + step), True
        self._known[kind, held, position] = (known, is_end)
        return min(known, most)

    def _between(self, row: int, held: Held, position: int, *, fits: int, too_many: int) -> int:
        """Return the most that fit, by halving: what fits, fits without some of it too."""
        while too_many - fits > 1:
            middle = (fits + too_many) // 2
            if self._fits(row, held, position, middle):
                fits = middle
            else:
                too_many = middle
        return fits

    def _fits(self, row: int, held: Held, position: int, count: int) -> bool:
        wanted = {
            demand: there + (count if index == position else 0)
            for index, (demand, there) in enumerate(zip(self._demands, held, strict=True))
            if there or index == position
        }
        answer = self._snapshot.devices.fits(self._snapshot.names[row], wanted)
        self.gave_up |= answer is None
        return bool(answer)


def _first_of_each(kinds: Counts, rows: Counts) -> tuple[list[int], list[int]]:
    """Return each kind, and the first row of it."""
    numbers, first = np.unique(kinds, return_index=True)
    return numbers.tolist(), rows[first].tolist()


def admitted_by_devices(snapshot: Snapshot, demand: DeviceDemand) -> Flags | None:
    """Return the nodes that could ever host a member with this demand, None where all could."""
    names = snapshot.devices.admits(demand)
    if names is None:
        return None
    flags = np.zeros(len(snapshot.names), dtype=np.bool_)
    flags[[snapshot.rows[name] for name in names if name in snapshot.rows]] = True
    return flags
