"""What is judged of every node once and kept: verdicts, preferences, and the domains of topology labels.

Each judgement is an array with an entry for each row of the inventory. A node that changes is judged anew, alone, for
every judgement that is kept; the one that was asked for longest ago is dropped where there are too many.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from services.core.constraints import Toleration
from services.core.node_rules import Constraints, Preferences, Verdict, is_selected, likes, tolerates_taints, verdict
from services.core.objects import Node

Verdicts = NDArray[np.int8]
Likes = NDArray[np.int64]
"""A row per node: weights of the preferred terms that hold, and soft taints that are not tolerated."""
Codes = NDArray[np.int64]
"""Number of each node's domain; NO_DOMAIN where the node lacks the label, or is gone."""
Flags = NDArray[np.bool_]

NO_DOMAIN = -1
MAX_KEPT = 256
"""Judgements of one kind that are kept."""

MAX_STRAY_DOMAINS = 1024
"""Values of a label that no node has any more, beside as many as there are nodes, before they are forgotten."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
S = TypeVar("S", bound=np.generic)


@dataclass(slots=True, kw_only=True)
class Domains:
    """The values of one node label, numbered in the order in which they were met. Numbers are never used again."""

    codes: Codes
    numbers: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many values have a number."""
        return len(self.numbers)

    def names(self) -> tuple[str, ...]:
        """Return the values by number."""
        return tuple(self.numbers)

    def code_of(self, value: str | None) -> int:
        """Return the number of a value, a new one where it has none."""
        return NO_DOMAIN if value is None else self.numbers.setdefault(value, len(self.numbers))


class Judgements:
    """All judgements that are kept."""

    def __init__(self) -> None:
        """Start without any."""
        self._nodes: list[Node | None] = []
        self._verdicts: dict[Constraints, Verdicts] = {}
        self._likes: dict[Preferences, Likes] = {}
        self._selected: dict[Constraints, Flags] = {}
        self._tolerated: dict[tuple[Toleration, ...], Flags] = {}
        self._domains: dict[str, Domains] = {}

    def put(self, row: int, node: Node | None) -> None:
        """Judge a row anew: its node has changed, or is gone."""
        while row >= len(self._nodes):
            self._append()
        self._nodes[row] = node
        for constraints, verdicts in self._verdicts.items():
            verdicts[row] = _verdict(node, constraints)
        for preferences, liked in self._likes.items():
            liked[row] = _likes(node, preferences)
        for constraints, selected in self._selected.items():
            selected[row] = _selected(node, constraints)
        for tolerations, tolerated in self._tolerated.items():
            tolerated[row] = _tolerated(node, tolerations)
        for key, domains in list(self._domains.items()):
            domains.codes[row] = domains.code_of(_label(node, key))
            if domains.count > 2 * len(self._nodes) + MAX_STRAY_DOMAINS:
                # Values of nodes that are long gone: numbered anew when the label is asked for again.
                del self._domains[key]

    def verdicts(self, constraints: Constraints) -> Verdicts:
        """Return the verdict of every row. Belongs to the judgements: copy it before it is changed."""
        return _kept(
            self._verdicts,
            constraints,
            lambda: np.array([_verdict(node, constraints) for node in self._nodes], dtype=np.int8),
        )

    def likes(self, preferences: Preferences) -> Likes:
        """Return what is liked and disliked of every row."""
        return _kept(
            self._likes,
            preferences,
            lambda: np.array([_likes(node, preferences) for node in self._nodes], dtype=np.int64).reshape(-1, 2),
        )

    def selected(self, constraints: Constraints) -> Flags:
        """Return whether node selector and required affinity hold, for every row."""
        return _kept(
            self._selected,
            constraints,
            lambda: np.array([_selected(node, constraints) for node in self._nodes], dtype=np.bool_),
        )

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Flags:
        """Return whether the taints are tolerated, for every row."""
        return _kept(
            self._tolerated,
            tolerations,
            lambda: np.array([_tolerated(node, tolerations) for node in self._nodes], dtype=np.bool_),
        )

    def domains(self, key: str) -> Domains:
        """Return the domains of a node label."""
        found = self._domains.pop(key, None)
        if found is None:
            found = Domains(codes=np.full(len(self._nodes), NO_DOMAIN, dtype=np.int64))
            for row, node in enumerate(self._nodes):
                found.codes[row] = found.code_of(_label(node, key))
            _drop_oldest(self._domains)
        self._domains[key] = found
        return found

    def has_soft_taints(self) -> bool:
        """Tell whether any node has a taint that only makes it less liked."""
        return bool(self.likes(Preferences())[:, 1].any())

    def copy(self) -> "Judgements":
        """Return judgements that can be changed without changing these."""
        twin = Judgements()
        twin._nodes = list(self._nodes)
        twin._verdicts = {key: array.copy() for key, array in self._verdicts.items()}
        twin._likes = {key: array.copy() for key, array in self._likes.items()}
        twin._selected = {key: array.copy() for key, array in self._selected.items()}
        twin._tolerated = {key: array.copy() for key, array in self._tolerated.items()}
        twin._domains = {
            key: Domains(codes=one.codes.copy(), numbers=dict(one.numbers)) for key, one in self._domains.items()
        }
        return twin

    def _append(self) -> None:
        self._nodes.append(None)
        size = len(self._nodes)
        _lengthen(self._verdicts, size)
        _lengthen(self._likes, size)
        _lengthen(self._selected, size)
        _lengthen(self._tolerated, size)
        for domains in self._domains.values():
            if len(domains.codes) < size:
                domains.codes = np.pad(domains.codes, (0, size), constant_values=NO_DOMAIN)


def _kept(kept: dict[K, NDArray[S]], key: K, judged: Callable[[], NDArray[S]]) -> NDArray[S]:
    """Return what is kept under a key, judged now where nothing is, as the one that was asked for last."""
    array = kept.pop(key, None)
    if array is None:
        array = judged()
        _drop_oldest(kept)
    kept[key] = array
    return array


def _lengthen(kept: dict[K, NDArray[S]], size: int) -> None:
    """Make room for a row in each array: twice what is needed, as rows come one by one."""
    for key, array in kept.items():
        if len(array) < size:
            kept[key] = np.pad(array, [(0, size)] + [(0, 0)] * (array.ndim - 1))


def _drop_oldest(kept: dict[K, V]) -> None:
    if len(kept) >= MAX_KEPT:
        del kept[next(iter(kept))]


def _verdict(node: Node | None, constraints: Constraints) -> Verdict:
    return Verdict.ABSENT if node is None else verdict(node, constraints=constraints)


def _likes(node: Node | None, preferences: Preferences) -> tuple[int, int]:
    return (0, 0) if node is None else likes(node, preferences)


def _selected(node: Node | None, constraints: Constraints) -> bool:
    return node is not None and is_selected(node, constraints=constraints)


def _tolerated(node: Node | None, tolerations: tuple[Toleration, ...]) -> bool:
    return node is not None and tolerates_taints(node, tolerations=tolerations)


def _label(node: Node | None, key: str) -> str | None:
    return None if node is None else node.metadata.labels.get(key)
