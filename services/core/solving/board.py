"""The state of one search: what is free, what the rules count, and which members are where.

Everything on it is a sum, so a member that is taken back leaves no trace. `admits` and `admits_on` are the same rules
twice: over all nodes at once for choosing, and for one node for checking; a property test holds them together.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.inventory import Snapshot
from services.core.node_rules import Verdict
from services.core.reasons import ReasonCode
from services.core.solving.classes import MemberClass
from services.core.solving.device_room import DeviceRoom
from services.core.solving.rules import Attachments, Counter, Counts, Flags, Near, Spread

Rows = NDArray[np.int64]
Amount = tuple[int, int, Flags | None]
"""Column, amount, and where it is counted: everywhere where that is None."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClassRules:
    """The rules of one class, ready to be asked. `static` are the nodes that admit it whatever the others do.

    `forbidden` are counters that have to be zero: of pods to be apart from, of ports and disks in use, of claims for
    one pod; each with the reason that it stands for. `adds` is what a placed member adds to whose counter.
    `limits_itself` says that a member can keep the next one of its class from a node that admitted it. `amounts` are
    column, amount, and the nodes where it is counted: None for all; a resource that a DeviceClass stands for is
    counted only where a device plugin offers it.
    """

    static: Flags
    amounts: tuple[Amount, ...]
    forbidden: tuple[tuple[ReasonCode, Counter], ...]
    spreads: tuple[Spread, ...]
    near: Near | None
    adds: tuple[tuple[Counter, int], ...]
    forbids_itself: tuple[Counter, ...]
    liked: Counts | None
    likes_near: tuple[tuple[Counter, int], ...]
    can_be_placed: bool = True

    @property
    def spreads_itself(self) -> bool:
        """True where a placed member changes what the class's own spread admits."""
        return any(one.adds for one in self.spreads)

    @property
    def steps(self) -> bool:
        """True where members have to be placed one node at a time, because each changes where the next may be."""
        return self.spreads_itself or self.near is not None or bool(self.forbids_itself) or bool(self.likes_near)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Some members of a class on a node."""

    group: int
    row: int
    count: int


class Board:
    """One search. Classes are known by their position."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        classes: tuple[MemberClass, ...],
        rules: tuple[ClassRules, ...],
        attachments: Attachments,
        devices: DeviceRoom | None = None,
    ) -> None:
        """Begin with nothing placed; the snapshot itself is not changed. `devices` is None where nobody needs any."""
        self.snapshot = snapshot
        self.classes = classes
        self.rules = rules
        self.free = snapshot.free.copy()
        self.left = [one.size for one in classes]
        self.moves: list[Move] = []
        self.devices = devices
        self._attachments = attachments
        self._adding: dict[int, list[int]] = {}
        for group, one in enumerate(rules):
            for counter, _ in one.adds:
                self._adding.setdefault(id(counter), []).append(group)

    @property
    def placed_count(self) -> int:
        """How many members are placed."""
        return sum(one.size for one in self.classes) - sum(self.left)

    def adding_to(self, counter: Counter) -> tuple[int, ...]:
        """Return the classes whose members count in a counter of one of the board's rules."""
        return tuple(self._adding.get(id(counter), ()))

    def admits(self, group: int) -> Flags:
        """Return the nodes that admit one more member of a class, amounts aside."""
        rules = self.rules[group]
        admitted = rules.static.copy()
        for _, counter in rules.forbidden:
            admitted &= counter.over_nodes() == 0
        for spread in rules.spreads:
            admitted &= spread.admits()
        if rules.near is not None:
            admitted &= rules.near.admits()
        attachable = self.attachable(group)
        if attachable is not None:
            admitted &= attachable
        return admitted

    def attachable(self, group: int) -> Flags | None:
        """Return the nodes that can attach the volumes of a class, or None where no limit is known."""
        volumes = self.classes[group].storage.attached
        return self._attachments.admits(volumes) if volumes else None

    def room(self, group: int, *, within: Flags | None = None) -> Counts:
        """Return how many members of a class each node could take now, by amounts and by rules.

        Where a member forbids itself, that is one; where it spreads itself, it is how many amounts allow.
        """
        admitted = self.admits(group)
        if within is not None:
            admitted &= within
        return self.one_per_domain(group, self.amounts_for(group, admitted=admitted))

    def one_per_domain(self, group: int, room: Counts) -> Counts:
        """Return the room of nodes with at most one where a member keeps the next one off."""
        for counter in self.rules[group].forbids_itself:
            room = np.where(counter.codes >= 0, np.minimum(room, 1), room)
        return room

    def amounts_for(self, group: int, *, admitted: Flags) -> Counts:
        """Return how many members the free amounts of each admitted node allow, at most as many as there are."""
        rules = self.rules[group]
        if not rules.can_be_placed:
            return np.zeros(len(admitted), dtype=np.int64)
        fits = np.where(admitted, self.classes[group].size, 0)
        for column, amount, where in rules.amounts:
            here = np.minimum(fits, self.free[:, column] // amount)
            fits = here if where is None else np.where(where, here, fits)
        fits = np.maximum(fits, 0)
        return fits if self.devices is None else self.devices.limited(group, fits)

    def has_amounts(self, group: int, row: int, *, count: int = 1) -> bool:
        """Tell whether the free amounts of a node suffice for more members of a class."""
        return all(
            self.free[row, column] >= amount * count or (where is not None and not where[row])
            for column, amount, where in self.rules[group].amounts
        )

    def refusal_on(self, group: int, row: int) -> ReasonCode | None:
        """Return the first rule among pods that a node breaks for one more member, None where it breaks none."""
        rules = self.rules[group]
        for code, counter in rules.forbidden:
            if counter.on(row):
                return code
        if any(not spread.admits_on(row) for spread in rules.spreads):
            return ReasonCode.TOPOLOGY_SPREAD_MISMATCH
        if rules.near is not None and not rules.near.admits_on(row):
            return ReasonCode.POD_AFFINITY_MISMATCH
        attachable = self.attachable(group)
        if attachable is not None and not attachable[row]:
            return ReasonCode.VOLUME_LIMIT_EXCEEDED
        return None if self.devices is None or self.devices.takes(group, row) else ReasonCode.DEVICES_INSUFFICIENT

    def refusals(self, group: int) -> dict[ReasonCode, int]:
        """Return how many nodes that would admit the class break a rule among pods, by the first that each breaks."""
        rules = self.rules[group]
        left = rules.static
        found: dict[ReasonCode, int] = {}
        broken = [(code, counter.over_nodes() != 0) for code, counter in rules.forbidden]
        broken += [(ReasonCode.TOPOLOGY_SPREAD_MISMATCH, ~spread.admits()) for spread in rules.spreads]
        if rules.near is not None:
            broken.append((ReasonCode.POD_AFFINITY_MISMATCH, ~rules.near.admits()))
        attachable = self.attachable(group)
        if attachable is not None:
            broken.append((ReasonCode.VOLUME_LIMIT_EXCEEDED, ~attachable))
        if self.devices is not None and self.devices.asks(group):
            fits = self.devices.limited(group, left.astype(np.int64))
            broken.append((ReasonCode.DEVICES_INSUFFICIENT, left & (fits == 0)))
        for code, flags in broken:
            found[code] = found.get(code, 0) + int((left & flags).sum())
            left = left & ~flags
        return found

    def verdict_on(self, group: int, row: int) -> Verdict:
        """Return whether a node admits a class by itself."""
        one = self.classes[group]
        if self.snapshot.names[row] in one.excluded_nodes:
            return Verdict.EXCLUDED
        return Verdict(int(self.snapshot.verdicts_for(one.constraints)[row]))

    def put(self, group: int, *, row: int, count: int = 1) -> None:
        """Place members of a class on a node."""
        self.moves.append(Move(group=group, row=row, count=count))
        self._add(group, row=row, count=count)

    def put_many(self, group: int, *, rows: Rows, counts: Counts) -> None:
        """Place members of a class on several nodes at once."""
        for column, amount, _ in self.rules[group].amounts:
            self.free[rows, column] -= amount * counts
        self.left[group] -= int(counts.sum())
        quiet = not self.rules[group].adds and not self.classes[group].storage.attached and self.devices is None
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            self.moves.append(Move(group=group, row=row, count=count))
            if not quiet:
                self._count(group, row=row, count=count)

    def back_to(self, length: int) -> None:
        """Take back all moves after the first `length`."""
        while len(self.moves) > length:
            move = self.moves.pop()
            self._add(move.group, row=move.row, count=-move.count)

    def replay(self, moves: tuple[Move, ...]) -> None:
        """Take everything back and make these moves instead."""
        self.back_to(0)
        for move in moves:
            self.put(move.group, row=move.row, count=move.count)

    def _add(self, group: int, *, row: int, count: int) -> None:
        for column, amount, _ in self.rules[group].amounts:
            self.free[row, column] -= amount * count
        self.left[group] -= count
        self._count(group, row=row, count=count)

    def _count(self, group: int, *, row: int, count: int) -> None:
        for counter, each in self.rules[group].adds:
            counter.add(row, each * count)
        volumes = self.classes[group].storage.attached
        if volumes:
            self._attachments.add(row, volumes, count)
        if self.devices is not None:
            self.devices.add(group, row=row, count=count)
