"""What every node has and what of it is in use, as arrays: the ground on which placements are solved.

The inventory is kept current event by event; a snapshot of it is a few array copies, whatever the number of pods.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.node_rules import Constraints, Verdict, verdict
from services.core.objects import Node, NodeName
from services.core.quantities import MAX_AMOUNT, Resources

Amounts = NDArray[np.int64]
Verdicts = NDArray[np.int8]

MAX_CACHED_CONSTRAINTS = 256
"""Distinct pod constraints whose judgement of every node is kept; the one used longest ago goes first."""

_FIRST_ROWS = 64
_FIRST_COLUMNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The cluster at one moment, for one decision.

    `free` has a row per node and a column per resource; it may be negative where a node is over-committed. Rows of
    nodes that are gone are Verdict.ABSENT for every constraint. `free` belongs to the snapshot: a solver writes into
    it.
    """

    names: tuple[NodeName, ...]
    rows: Mapping[NodeName, int]
    columns: Mapping[str, int]
    free: Amounts
    verdicts: Mapping[Constraints, Verdicts]

    @property
    def node_count(self) -> int:
        """Number of nodes that exist."""
        return len(self.rows)


class Inventory:
    """Allocatable and used amounts by node, and for each kind of constraint the verdict of every node."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._names: list[NodeName] = []
        self._nodes: list[Node | None] = []
        self._rows: dict[NodeName, int] = {}
        self._vacant: list[int] = []
        self._columns: dict[str, int] = {}
        self._allocatable: Amounts = np.zeros((_FIRST_ROWS, _FIRST_COLUMNS), dtype=np.int64)
        self._used: Amounts = np.zeros((_FIRST_ROWS, _FIRST_COLUMNS), dtype=np.int64)
        self._verdicts: dict[Constraints, Verdicts] = {}
        # Pods may be seen before their node: what they use is kept until it appears.
        self._early: dict[NodeName, dict[str, int]] = {}

    @property
    def node_count(self) -> int:
        """Number of nodes that exist."""
        return len(self._rows)

    def node(self, name: NodeName) -> Node | None:
        """Return a node, or None."""
        row = self._rows.get(name)
        return None if row is None else self._nodes[row]

    def nodes(self) -> Iterable[Node]:
        """Return the nodes that exist."""
        return (node for node in self._nodes if node is not None)

    def put_node(self, node: Node) -> None:
        """Add or replace a node."""
        name = NodeName(node.metadata.name)
        row = self._rows.get(name)
        if row is None:
            row = self._new_row(name)
        self._nodes[row] = node
        for resource in node.allocatable:
            self._column(resource)
        self._allocatable[row, :] = 0
        for resource, amount in node.allocatable.items():
            self._allocatable[row, self._columns[resource]] = min(amount, MAX_AMOUNT)
        for constraints, verdicts in self._verdicts.items():
            verdicts[row] = verdict(node, constraints=constraints)

    def remove_node(self, name: NodeName) -> None:
        """Remove a node; what pods use on it is kept, in case that it comes back under them."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        in_use = {resource: int(self._used[row, column]) for resource, column in self._columns.items()}
        self._early[name] = {resource: amount for resource, amount in in_use.items() if amount}
        self._nodes[row] = None
        self._allocatable[row, :] = 0
        self._used[row, :] = 0
        self._vacant.append(row)
        for verdicts in self._verdicts.values():
            verdicts[row] = Verdict.ABSENT

    def charge(self, name: NodeName, *, requests: Resources) -> None:
        """Count amounts as used on a node."""
        self._add(name, requests=requests, sign=1)

    def release(self, name: NodeName, *, requests: Resources) -> None:
        """Count amounts as free again."""
        self._add(name, requests=requests, sign=-1)

    def free_on(self, name: NodeName) -> dict[str, int]:
        """Return what is free on a node, by resource; empty where there is no such node."""
        row = self._rows.get(name)
        if row is None:
            return {}
        free = self._allocatable[row] - self._used[row]
        return {resource: int(free[column]) for resource, column in self._columns.items()}

    def total_free(self) -> dict[str, int]:
        """Return what is free on all nodes together; an over-committed node counts as nothing, not as a debt."""
        free = np.maximum(self._allocatable - self._used, 0).sum(axis=0)
        return {resource: int(free[column]) for resource, column in self._columns.items()}

    def copy(self) -> "Inventory":
        """Return an inventory that can be changed without changing this one."""
        twin = Inventory()
        twin._names, twin._nodes = list(self._names), list(self._nodes)
        twin._rows, twin._vacant, twin._columns = dict(self._rows), list(self._vacant), dict(self._columns)
        twin._allocatable, twin._used = self._allocatable.copy(), self._used.copy()
        twin._verdicts = {constraints: verdicts.copy() for constraints, verdicts in self._verdicts.items()}
        twin._early = {name: dict(amounts) for name, amounts in self._early.items()}
        return twin

    def snapshot(self, constraints: Iterable[Constraints]) -> Snapshot:
        """Return the present state, judged for the given constraints."""
        size = len(self._names)
        width = max(len(self._columns), 1)
        return Snapshot(
            names=tuple(self._names),
            rows=dict(self._rows),
            columns=dict(self._columns),
            free=self._allocatable[:size, :width] - self._used[:size, :width],
            verdicts={one: self._judged(one)[:size].copy() for one in set(constraints)},
        )

    def _add(self, name: NodeName, *, requests: Resources, sign: int) -> None:
        row = self._rows.get(name)
        if row is None:
            early = self._early.setdefault(name, {})
            for resource, amount in requests.items():
                early[resource] = early.get(resource, 0) + sign * min(amount, MAX_AMOUNT)
            if not any(early.values()):
                del self._early[name]
            return
        for resource, amount in requests.items():
            column = self._column(resource)
            self._used[row, column] += sign * min(amount, MAX_AMOUNT)

    def _judged(self, constraints: Constraints) -> Verdicts:
        verdicts = self._verdicts.pop(constraints, None)
        if verdicts is None:
            verdicts = np.full(self._allocatable.shape[0], Verdict.ABSENT, dtype=np.int8)
            for row, node in enumerate(self._nodes):
                if node is not None:
                    verdicts[row] = verdict(node, constraints=constraints)
            if len(self._verdicts) >= MAX_CACHED_CONSTRAINTS:
                del self._verdicts[next(iter(self._verdicts))]
        self._verdicts[constraints] = verdicts
        return verdicts

    def _new_row(self, name: NodeName) -> int:
        if self._vacant:
            row = self._vacant.pop()
            self._names[row] = name
        else:
            row = len(self._names)
            self._names.append(name)
            self._nodes.append(None)
            if row >= self._allocatable.shape[0]:
                self._grow_rows()
        self._rows[name] = row
        for resource, amount in self._early.pop(name, {}).items():
            # The column first: it may replace the array that is written to.
            column = self._column(resource)
            self._used[row, column] = amount
        return row

    def _grow_rows(self) -> None:
        extra = self._allocatable.shape[0]
        self._allocatable = np.pad(self._allocatable, ((0, extra), (0, 0)))
        self._used = np.pad(self._used, ((0, extra), (0, 0)))
        self._verdicts = {
            constraints: np.pad(verdicts, (0, extra), constant_values=np.int8(Verdict.ABSENT))
            for constraints, verdicts in self._verdicts.items()
        }

    def _column(self, resource: str) -> int:
        column = self._columns.get(resource)
        if column is None:
            column = len(self._columns)
            self._columns[resource] = column
            if column >= self._allocatable.shape[1]:
                extra = self._allocatable.shape[1]
                self._allocatable = np.pad(self._allocatable, ((0, 0), (0, extra)))
                self._used = np.pad(self._used, ((0, 0), (0, extra)))
        return column
