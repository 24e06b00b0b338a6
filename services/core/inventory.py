"""What every node has, what of it is in use, and who uses it: the ground on which placements are solved.

The inventory is kept current event by event; a snapshot of it is a few array copies, whatever the number of pods. What
is judged of every node once (`services.core.judgements`) is kept, and renewed for the nodes that change.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from services.core.devices.books import DeviceBooks
from services.core.devices.inventory import Devices
from services.core.judgements import Judgements, Verdicts
from services.core.labels import NamespaceLabels
from services.core.node_rules import Constraints, constraints_of
from services.core.objects import Node, NodeName, Pod, Uid
from services.core.occupants import Occupant, Occupants, Terms
from services.core.preemptible import Preemptible
from services.core.quantities import MAX_AMOUNT, Resources
from services.core.sizes import Size, SizeMix
from services.core.storage import Storage

Amounts = NDArray[np.int64]

_MOST_USED = 2**62
"""What is in use beyond it is written down as this: it is more than any node has, and can still be added to."""
_FIRST_ROWS = 64
_FIRST_COLUMNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The cluster at one moment, for one decision.

    `free` has a row per node and a column per resource; it may be negative where a node is over-committed. Rows of
    nodes that are gone are Verdict.ABSENT for every constraint. `free` and `placed` belong to the snapshot: a solver
    writes into them, so that what follows in the same decision sees it. The rest is the inventory's own, which must not
    change meanwhile.
    """

    names: tuple[NodeName, ...]
    rows: Mapping[NodeName, int]
    columns: Mapping[str, int]
    free: Amounts
    ranks: NDArray[np.int64]
    """Position of each row's name in the order of names, so that ties do not depend on who was seen first."""
    verdicts: Mapping[Constraints, Verdicts]
    judgements: Judgements
    occupants: Occupants
    storage: Storage
    devices: Devices
    namespaces: NamespaceLabels
    mix: Mapping[Size, int]
    """The sizes seen lately, for which room should stay useful."""
    preemptible: Preemptible
    offered: Amounts
    """What each node has in all, with rows and columns as in `free`."""
    ignored: frozenset[Uid] = frozenset()
    """Occupants that count for nothing: those whose own places are in question."""
    placed: dict[Uid, Occupant] = field(default_factory=dict)

    @property
    def node_count(self) -> int:
        """Number of nodes that exist."""
        return len(self.rows)

    def offers(self, resource: str) -> NDArray[np.bool_]:
        """Return the nodes that have any of a resource, whoever uses it."""
        found: NDArray[np.bool_] = self.offered[:, self.columns[resource]] > 0
        return found

    def give_back(self, pod: Pod, *, node: NodeName) -> None:
        """Count as free again what a pod would have taken that is not placed after all."""
        for resource, amount in pod.requests.items():
            if resource in self.columns:
                self.free[self.rows[node], self.columns[resource]] += amount

    def everybody(self) -> Iterable[Occupant]:
        """Return all that hold a place and have rules that concern others: occupants, and whom this decision placed."""
        for one in self.occupants.with_rules():
            if one.pod.metadata.uid not in self.ignored:
                yield one
        yield from self.placed.values()

    def apart(self) -> Iterable[tuple[Terms, list[Occupant]]]:
        """Return all that have to be apart from others, by the terms that say so, whom this decision placed too."""
        found: dict[Terms, list[Occupant]] = {}
        for terms, pods in self.occupants.apart():
            found[terms] = [one for uid, one in pods.items() if uid not in self.ignored]
        for one in self.placed.values():
            if one.pod.rules.anti_affinity:
                found.setdefault(one.pod.rules.anti_affinity, []).append(one)
        return found.items()

    def in_namespace(self, namespace: str) -> Iterable[Occupant]:
        """Return all of a namespace that hold a place, with those that this decision placed."""
        for one in self.occupants.in_namespace(namespace):
            if one.pod.metadata.uid not in self.ignored:
                yield one
        for one in self.placed.values():
            if one.pod.metadata.namespace == namespace:
                yield one

    def occupied_namespaces(self) -> frozenset[str]:
        """Return the namespaces of all that hold a place."""
        return frozenset((*self.occupants.namespaces(), *(one.pod.metadata.namespace for one in self.placed.values())))

    def without_lower_than(self, priority: int) -> "tuple[Snapshot, int] | None":
        """Return the snapshot as it were without the pods of lower priority, and how many these are; None without any.

        Whom this decision placed stays. None also where their amounts cannot be added up.
        """
        lower = self.occupants.uids_below(priority) - self.ignored
        if not lower:
            return None
        size, width = self.free.shape
        freed = self.preemptible.below(
            priority, occupants=self.occupants, rows=self.rows, columns=self.columns, size=len(self.names)
        )
        if freed is None:
            return None
        roomier = replace(
            self, free=self.free + freed[:size, :width], ignored=self.ignored | lower, placed=dict(self.placed)
        )
        for uid in self.ignored:
            # Their room was free before.
            one = self.occupants.get(uid)
            row = None if one is None or one.pod.priority >= priority else self.rows.get(one.node)
            for resource, amount in one.pod.requests.items() if one is not None and row is not None else ():
                roomier.free[row, self.columns[resource]] -= min(amount, MAX_AMOUNT)
        return roomier, len(lower)

    def without(self, uids: frozenset[Uid]) -> "Snapshot":
        """Return the snapshot as it were without these occupants."""
        roomier = replace(self, free=self.free.copy(), ignored=self.ignored | uids, placed=dict(self.placed))
        for uid in uids - self.ignored:
            one = self.occupants.get(uid)
            row = None if one is None else self.rows.get(one.node)
            for resource, amount in one.pod.requests.items() if one is not None and row is not None else ():
                roomier.free[row, self.columns[resource]] += min(amount, MAX_AMOUNT)
        return roomier

    def verdicts_for(self, constraints: Constraints) -> Verdicts:
        """Return the verdict of every node, also for constraints for which the snapshot was not made."""
        known = self.verdicts.get(constraints)
        return self.judgements.verdicts(constraints)[: len(self.names)] if known is None else known


class _NodesByName(Mapping[NodeName, Node]):
    """The nodes of an inventory as they are, without a copy."""

    def __init__(self, inventory: "Inventory") -> None:
        self._inventory = inventory

    def __getitem__(self, name: NodeName) -> Node:
        node = self._inventory.node(name)
        if node is None:
            raise KeyError(name)
        return node

    def __iter__(self) -> Iterator[NodeName]:
        return (NodeName(node.metadata.name) for node in self._inventory.nodes())

    def __len__(self) -> int:
        return self._inventory.node_count


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
        self._judgements = Judgements()
        self._ranks: NDArray[np.int64] | None = None
        self.occupants = Occupants()
        self.storage = Storage()
        self.devices = DeviceBooks()
        self.mix = SizeMix()
        self.preemptible = Preemptible()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        # What pods use by node, exactly, whether it was seen yet or not: the array above holds it as far as 64 bits go.
        self._in_use: dict[NodeName, dict[str, int]] = {}

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
        self._judgements.put(row, node)

    def remove_node(self, name: NodeName) -> None:
        """Remove a node; what pods use on it is kept, in case that it comes back under them."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self._nodes[row] = None
        self._allocatable[row, :] = 0
        self._used[row, :] = 0
        self._vacant.append(row)
        self.preemptible.clear()
        self._judgements.put(row, None)
        self._ranks = None

    def place(self, pod: Pod, *, on: NodeName) -> None:
        """Let a pod hold a place: what it asks for is in use, and its rules and labels count."""
        self.leave(pod.metadata.uid)
        self.occupants.put(pod, on=on)
        self._add(on, requests=pod.requests, sign=1)
        self._follow(Occupant(pod=pod, node=on), sign=1)

    def leave(self, uid: Uid) -> Occupant | None:
        """Take a pod's place from it, and return what it was."""
        known = self.occupants.remove(uid)
        if known is not None:
            self._add(known.node, requests=known.pod.requests, sign=-1)
            self._follow(known, sign=-1)
        return known

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
        twin._judgements = self._judgements.copy()
        twin.occupants, twin.storage, twin.namespaces = (
            self.occupants.copy(),
            self.storage.copy(),
            dict(self.namespaces),
        )
        twin.devices = self.devices.copy()
        twin.mix = self.mix.copy()
        twin._in_use = {name: dict(amounts) for name, amounts in self._in_use.items()}
        return twin

    def snapshot(self, pods: Iterable[Pod] = (), *, without: frozenset[Uid] = frozenset()) -> Snapshot:
        """Return the present state, judged for the given pods; the places of those in `without` are free."""
        size = len(self._names)
        width = max(len(self._columns), 1)
        free = self._allocatable[:size, :width] - self._used[:size, :width]
        for uid in without:
            one = self.occupants.get(uid)
            row = None if one is None else self._rows.get(one.node)
            if one is not None and row is not None:
                for resource, amount in one.pod.requests.items():
                    free[row, self._columns[resource]] += min(amount, MAX_AMOUNT)
        demanded = {constraints_of(pod, storage=self.storage.of_pod(pod)) for pod in pods}
        return Snapshot(
            names=tuple(self._names),
            rows=dict(self._rows),
            columns=dict(self._columns),
            free=free,
            ranks=self._name_ranks(),
            verdicts={one: self._judgements.verdicts(one)[:size].copy() for one in demanded},
            judgements=self._judgements,
            occupants=self.occupants,
            storage=self.storage,
            devices=self.devices.snapshot(nodes=_NodesByName(self), without=without),
            namespaces=self.namespaces,
            mix=self.mix.coarse(),
            preemptible=self.preemptible,
            offered=self._allocatable[:size, :width],
            ignored=without,
        )

    def _name_ranks(self) -> NDArray[np.int64]:
        if self._ranks is None or len(self._ranks) != len(self._names):
            ranks = np.empty(len(self._names), dtype=np.int64)
            ranks[sorted(range(len(self._names)), key=self._names.__getitem__)] = np.arange(len(self._names))
            self._ranks = ranks
        return self._ranks

    def _add(self, name: NodeName, *, requests: Resources, sign: int) -> None:
        row, in_use = self._rows.get(name), self._in_use.setdefault(name, {})
        for resource, amount in requests.items():
            # A sum of what nobody has may not fit into the array, and must not come out as room there.
            total = in_use.get(resource, 0) + sign * min(amount, MAX_AMOUNT)
            in_use[resource] = total
            if row is not None:
                # The column first: it may replace the array that is written to.
                column = self._column(resource)
                self._used[row, column] = min(total, _MOST_USED)
            if not total:
                del in_use[resource]
        if not in_use:
            del self._in_use[name]

    def _follow(self, one: Occupant, *, sign: int) -> None:
        row = self._rows.get(one.node)
        if row is not None and one.pod.node:
            self.preemptible.add(
                row, requests=one.pod.requests, columns=self._columns, priority=one.pod.priority, sign=sign
            )

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
        self._ranks = None
        self.preemptible.clear()
        for resource, amount in self._in_use.get(name, {}).items():
            column = self._column(resource)
            self._used[row, column] = min(amount, _MOST_USED)
        return row

    def _grow_rows(self) -> None:
        extra = self._allocatable.shape[0]
        self._allocatable = np.pad(self._allocatable, ((0, extra), (0, 0)))
        self._used = np.pad(self._used, ((0, extra), (0, 0)))

    def _column(self, resource: str) -> int:
        column = self._columns.get(resource)
        if column is None:
            column = len(self._columns)
            self._columns[resource] = column
            self.preemptible.clear()
            if column >= self._allocatable.shape[1]:
                extra = self._allocatable.shape[1]
                self._allocatable = np.pad(self._allocatable, ((0, 0), (0, extra)))
                self._used = np.pad(self._used, ((0, 0), (0, extra)))
        return column
