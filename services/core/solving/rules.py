"""The rules of one class as counters over domains: what is there now, and what each sibling adds.

A rule looks at one number for each domain of a node label (or for each node, or for the whole cluster). Pods that hold
a place are counted once, when a decision begins; a sibling that is placed adds to the counters that it concerns, and
takes from them again when the search goes back. So siblings of the same decision are seen like everybody else.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.core.judgements import Codes

Counts = NDArray[np.int64]
Flags = NDArray[np.bool_]

UNCOUNTED = np.iinfo(np.int64).max // 4
"""Stands for the emptiest domain where there is none: then no spread is too uneven."""


@dataclass(slots=True, kw_only=True, eq=False)
class Counter:
    """A number for each domain. `codes` are the domain of each node, negative where it is in none."""

    codes: Codes
    counts: Counts

    def on(self, row: int) -> int:
        """Return the number of a node's domain, 0 where it is in none."""
        code = int(self.codes[row])
        return int(self.counts[code]) if code >= 0 else 0

    def over_nodes(self) -> Counts:
        """Return the number of each node's domain."""
        found = self.counts[self.codes]
        return np.where(self.codes >= 0, found, 0)

    def add(self, row: int, amount: int) -> None:
        """Add to a node's domain."""
        code = int(self.codes[row])
        if code >= 0:
            self.counts[code] += amount


@dataclass(slots=True, kw_only=True, eq=False)
class Spread:
    """A hard spread constraint. `counter` counts only on nodes that take part; `domains` are the label's of every node.

    `counted` are the domains that have a node which takes part, `adds` is 1 where the class counts itself.
    """

    counter: Counter
    domains: Codes
    counted: Flags
    max_skew: int
    min_domains: int
    adds: int

    @property
    def emptiest(self) -> int:
        """Number of the emptiest domain; 0 where there are fewer domains than there should be."""
        if int(self.counted.sum()) < self.min_domains:
            return 0
        return int(self.counter.counts[self.counted].min(initial=UNCOUNTED))

    def admits(self) -> Flags:
        """Return where one more member would not make the spread too uneven."""
        inside = self.domains >= 0
        found = np.where(inside, self.counter.counts[self.domains], 0)
        admitted: Flags = inside & np.less_equal(found + self.adds - self.emptiest, self.max_skew)
        return admitted

    def admits_on(self, row: int) -> bool:
        """Tell whether one more member may be on a node."""
        domain = int(self.domains[row])
        return domain >= 0 and int(self.counter.counts[domain]) + self.adds - self.emptiest <= self.max_skew

    def allowance(self, row: int) -> int:
        """Return how many members may be added on an admitted node before it has to be asked again."""
        return (
            self.max_skew - int(self.counter.counts[int(self.domains[row])]) + self.emptiest if self.adds else UNCOUNTED
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Near:
    """Required pod affinity: a counter for each term, of pods that all terms mean.

    Where no such pod exists in any domain, a member that the terms mean too may be the first (`may_be_first`).
    """

    counters: tuple[Counter, ...]
    may_be_first: bool

    @property
    def has_pods(self) -> bool:
        """True once a pod exists that the terms mean."""
        return any(bool(one.counts.any()) for one in self.counters)

    def admits(self) -> Flags:
        """Return the nodes that are in a domain with such a pod for every term."""
        inside = np.logical_and.reduce([one.codes >= 0 for one in self.counters])
        if not self.has_pods:
            return inside if self.may_be_first else np.zeros_like(inside)
        near: Flags = inside & np.logical_and.reduce([one.over_nodes() > 0 for one in self.counters])
        return near

    def admits_on(self, row: int) -> bool:
        """Tell whether a node is in such domains."""
        if any(one.codes[row] < 0 for one in self.counters):
            return False
        return all(one.on(row) > 0 for one in self.counters) if self.has_pods else self.may_be_first


@dataclass(slots=True, kw_only=True, eq=False)
class Attachments:
    """Volumes of CSI drivers on nodes: slots that are left, and which volumes are attached where.

    Shared by all classes. A volume that is on a node already takes no further slot, whoever mounts it.
    """

    slots: dict[str, Counts]
    """By driver, what each node can still attach; drivers without any limit are absent."""
    where: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    """By driver and handle, how many pods use the volume on each row."""

    def lacking(self, volumes: tuple[tuple[str, str], ...], driver: str) -> Counts:
        """Return how many of the volumes of one driver each node would have to attach."""
        wanted = [one for one in volumes if one[0] == driver]
        need = np.full(len(self.slots[driver]), len(wanted), dtype=np.int64)
        for one in wanted:
            need[[row for row, count in self.where.get(one, {}).items() if count]] -= 1
        return need

    def admits(self, volumes: tuple[tuple[str, str], ...]) -> Flags | None:
        """Return the nodes that can attach the volumes, or None where no limit is known."""
        admitted: Flags | None = None
        for driver in sorted({one[0] for one in volumes} & self.slots.keys()):
            need = self.lacking(volumes, driver)
            here = (need == 0) | (need <= self.slots[driver])
            admitted = here if admitted is None else admitted & here
        return admitted

    def add(self, row: int, volumes: tuple[tuple[str, str], ...], amount: int) -> None:
        """Let members use their volumes on a node, or give them up."""
        for one in volumes:
            rows = self.where.setdefault(one, {})
            before = rows.get(row, 0)
            rows[row] = before + amount
            slots = self.slots.get(one[0])
            if slots is not None:
                slots[row] -= int(rows[row] > 0) - int(before > 0)
