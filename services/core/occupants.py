"""The pods that hold a place on a node, as far as the rules of other pods look at them.

Bound and promised pods alike, until they have finished. What they ask for is counted in `services.core.inventory`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from services.core.constraints import PodTerm
from services.core.objects import NodeName, Pod, Uid

Terms = tuple[PodTerm, ...]
"""Required anti-affinity of a pod."""

K = TypeVar("K")


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupant:
    """A pod and the node on which it holds a place."""

    pod: Pod
    node: NodeName


class Occupants:
    """Occupants by namespace and by priority, and those apart that have rules which concern others."""

    def __init__(self) -> None:
        """Start without any."""
        self._all: dict[Uid, Occupant] = {}
        self._by_namespace: dict[str, dict[Uid, Occupant]] = {}
        self._with_rules: dict[Uid, Occupant] = {}
        self._apart: dict[Terms, dict[Uid, Occupant]] = {}
        self._by_priority: dict[int, dict[Uid, Occupant]] = {}

    def put(self, pod: Pod, *, on: NodeName) -> None:
        """Add a pod, or replace what was known of it."""
        self.remove(pod.metadata.uid)
        one = Occupant(pod=pod, node=on)
        uid = pod.metadata.uid
        self._all[uid] = one
        self._by_namespace.setdefault(pod.metadata.namespace, {})[uid] = one
        if pod.node:
            # Of a pod that is only promised a node nothing can be evicted.
            self._by_priority.setdefault(pod.priority, {})[uid] = one
        rules = pod.rules
        if rules.anti_affinity or rules.host_ports or rules.disks or rules.claims:
            self._with_rules[uid] = one
        if rules.anti_affinity:
            self._apart.setdefault(rules.anti_affinity, {})[uid] = one

    def remove(self, uid: Uid) -> Occupant | None:
        """Take a pod out, and return what was known of it."""
        one = self._all.pop(uid, None)
        if one is None:
            return None
        self._with_rules.pop(uid, None)
        _take_out(self._by_namespace, one.pod.metadata.namespace, uid)
        if one.pod.node:
            _take_out(self._by_priority, one.pod.priority, uid)
        if one.pod.rules.anti_affinity:
            _take_out(self._apart, one.pod.rules.anti_affinity, uid)
        return one

    def get(self, uid: Uid) -> Occupant | None:
        """Return a pod's place, or None."""
        return self._all.get(uid)

    def namespaces(self) -> Iterable[str]:
        """Return the namespaces that have occupants."""
        return self._by_namespace.keys()

    def in_namespace(self, namespace: str) -> Iterator[Occupant]:
        """Return the occupants of one namespace."""
        return iter(self._by_namespace.get(namespace, {}).values())

    def below(self, priority: int) -> Iterator[Occupant]:
        """Return the occupants of lower priority that are bound to their node."""
        for known, pods in self._by_priority.items():
            if known < priority:
                yield from pods.values()

    def priorities_below(self, priority: int) -> tuple[int, ...]:
        """Return the priorities of occupants that are lower, the lowest first."""
        return tuple(sorted(known for known in self._by_priority if known < priority))

    def uids_below(self, priority: int) -> frozenset[Uid]:
        """Return the uids of the occupants of lower priority."""
        return frozenset().union(*(pods.keys() for known, pods in self._by_priority.items() if known < priority))

    def with_rules(self) -> Iterator[Occupant]:
        """Return those with anti-affinity, host ports, disks or claims."""
        return iter(self._with_rules.values())

    def apart(self) -> Iterator[tuple[Terms, Mapping[Uid, Occupant]]]:
        """Return who has to be apart from others, by the terms that say so: mostly few for many pods."""
        return iter(self._apart.items())

    def copy(self) -> "Occupants":
        """Return occupants that can be changed without changing these."""
        twin = Occupants()
        twin._all, twin._with_rules = dict(self._all), dict(self._with_rules)
        twin._by_namespace = {name: dict(pods) for name, pods in self._by_namespace.items()}
        twin._apart = {terms: dict(pods) for terms, pods in self._apart.items()}
        twin._by_priority = {priority: dict(pods) for priority, pods in self._by_priority.items()}
        return twin


def _take_out(pages: dict[K, dict[Uid, Occupant]], page: K, uid: Uid) -> None:
    """Take a pod off a page, and the page out where it was the last."""
    del pages[page][uid]
    if not pages[page]:
        del pages[page]
