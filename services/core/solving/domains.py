"""Which domains are tried: whole ones, tightest first, for those who must be or would rather be together.

A demand keeps some classes to one domain of a node label. It comes from the gang's topology requests, from the levels
of the installation (which are preferred where nothing is asked for), and from affinity that members have to each other:
the first member would choose a domain for all, so domains are tried for all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.core.judgements import NO_DOMAIN, Codes
from services.core.policy import TopologyLevel
from services.core.solving.board import Board
from services.core.solving.bounds import capacity, most_together
from services.core.solving.compiling import feeders
from services.core.solving.rules import Counts, Flags
from services.core.topology import TopologyRequest

MAX_REGIONS = 128
"""Combinations of domains that are tried for one kind of demands."""
Shares = NDArray[np.float64]
_ROUNDING = 1e-9
_NODES = "nodes"
"""Stands for the label of domains that are single nodes; one for all, so that demands make room for each other."""
_NOWHERE = -2
"""Stands for no domain at all, where enough of the other members may do: no node is in it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Demand:
    """One domain for all of some classes. `pinned` are the domains of members that are placed already, if any."""

    groups: frozenset[int]
    label: str
    codes: Codes
    pinned: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Region:
    """For each class the nodes to which it is kept, None where it is not."""

    masks: tuple[Flags | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Choice:
    """A domain for a demand, and about which share of it the demand's members would take."""

    demand: Demand
    code: int
    share: float


def _shares_of_others(demand: Demand, chosen: Sequence[_Choice], *, count: int) -> Shares:
    """Return which share of each domain those take that were given theirs before, and are not members of the demand.

    Without it all subgroups of a gang would begin in the same domain, and the bound on regions end the search there.
    """
    shares = np.zeros(count, dtype=np.float64)
    for one in chosen:
        if one.code != _NOWHERE and one.demand.label == demand.label and one.demand.groups.isdisjoint(demand.groups):
            shares[one.code] += one.share
    return shares


@dataclass(slots=True, kw_only=True)
class Regions:
    """The combinations of domains that could hold the members, in the order in which they are tried.

    `is_cut` is true once combinations were left out because there were too many. Those that cannot hold as many as are
    wanted, whatever else happens, are not among them.
    """

    board: Board
    demands: Sequence[Demand]
    wanted: int
    is_cut: bool = False

    def __iter__(self) -> Iterator[Region]:
        """Yield each region."""
        everywhere: tuple[Flags | None, ...] = (None,) * len(self.board.classes)
        for count, region in enumerate(self._descend(everywhere, chosen=())):
            if count >= MAX_REGIONS:
                self.is_cut = True
                return
            yield region

    def _descend(self, masks: tuple[Flags | None, ...], *, chosen: tuple[_Choice, ...]) -> Iterator[Region]:
        if len(chosen) == len(self.demands):
            yield Region(masks=masks)
            return
        demand = self.demands[len(chosen)]
        for choice in self._candidates(demand, masks, chosen=chosen):
            inside = demand.codes == choice.code
            narrowed = tuple(
                (inside if mask is None else mask & inside) if group in demand.groups else mask
                for group, mask in enumerate(masks)
            )
            yield from self._descend(narrowed, chosen=(*chosen, choice))

    def _candidates(
        self, demand: Demand, masks: tuple[Flags | None, ...], *, chosen: tuple[_Choice, ...]
    ) -> list[_Choice]:
        """Return the domains that could hold as many as are wanted, tightest first.

        Those that others have not filled go before those that they have, and those that hold all before the rest.
        """
        board = self.board
        count = int(demand.codes.max(initial=-1)) + 1
        if not count:
            is_spared = sum(board.left) - sum(board.left[group] for group in demand.groups) >= self.wanted
            return [_Choice(demand=demand, code=_NOWHERE, share=0.0)] if is_spared else []
        held = np.zeros(count, dtype=np.int64)
        total = np.zeros(count, dtype=np.int64)
        share = np.zeros(count, dtype=np.float64)
        is_whole = np.ones(count, dtype=np.bool_)
        for group in sorted(demand.groups):
            room = self._by_domain(demand.codes, capacity(board, group, within=masks[group]), count)
            held += np.minimum(room, board.left[group])
            total += room
            share += board.left[group] / np.maximum(room, 1)
            is_whole &= room >= board.left[group]
        held = np.minimum(held, self._held_together(demand, masks, count=count))
        members = sum(board.left[group] for group in demand.groups)
        others = sum(board.left) - members
        possible = held + others >= self.wanted if members else np.ones(count, dtype=np.bool_)
        if members:
            possible &= held > 0
        if demand.pinned:
            is_pinned = np.zeros(count, dtype=np.bool_)
            is_pinned[list(demand.pinned)] = True
            possible &= is_pinned
        names = self._first_names(demand.codes, count)
        usable = np.flatnonzero(possible)
        is_full = (_shares_of_others(demand, chosen, count=count) + share)[usable] > 1 + _ROUNDING
        tightness = np.where(is_whole[usable], total[usable], -held[usable])
        order = np.lexsort((names[usable], tightness, ~is_whole[usable], is_full))
        found = [_Choice(demand=demand, code=int(code), share=float(share[code])) for code in usable[order]]
        if members and others >= self.wanted:
            found.append(_Choice(demand=demand, code=_NOWHERE, share=0.0))
        return found

    def _held_together(self, demand: Demand, masks: tuple[Flags | None, ...], *, count: int) -> Counts:
        """Return how many of the members each domain could hold by amounts, of several classes all together."""
        groups = [group for group in sorted(demand.groups) if self.board.left[group]]
        is_open = np.zeros(len(demand.codes), dtype=np.bool_)
        for group in groups:
            is_open |= capacity(self.board, group, within=masks[group]) > 0
        return most_together(self.board, groups, codes=np.where(is_open, demand.codes, NO_DOMAIN), count=count)

    @staticmethod
    def _by_domain(codes: Codes, room: Counts, count: int) -> Counts:
        inside = codes >= 0
        return np.bincount(codes[inside], weights=room[inside], minlength=count).astype(np.int64)

    def _first_names(self, codes: Codes, count: int) -> Counts:
        """Return the position of each domain's first node by name, so that ties do not depend on who was seen first."""
        names = np.full(count, len(codes), dtype=np.int64)
        inside = codes >= 0
        np.minimum.at(names, codes[inside], self.board.snapshot.ranks[inside])
        return names


def anchors(board: Board) -> tuple[Demand, ...]:
    """Return the demands that follow from affinity of members to each other, where no such pod is there yet.

    The classes that are meant come along, because they bring what the others have to be near to.
    """
    found: dict[str, set[int]] = {}
    codes: dict[str, Codes] = {}
    for group, one in enumerate(board.classes):
        near = board.rules[group].near
        if near is None or near.has_pods:
            continue
        together = {group, *feeders(board, group)}
        for term, counter in zip(one.rules.affinity, near.counters, strict=True):
            found.setdefault(term.topology_key, set()).update(together)
            codes[term.topology_key] = counter.codes
    return tuple(
        Demand(groups=frozenset(groups), label=label, codes=codes[label]) for label, groups in sorted(found.items())
    )


def bonds(board: Board) -> tuple[Demand, ...]:
    """Return the demands that hold in every placement, because classes all have to be near to each other.

    Wherever the first of their members goes, each further one is only admitted in the same domain of the labels that
    all of them name: an anchor is what is tried first, a bond is what a proof may rest on.
    """
    found: list[Demand] = []
    seen: set[frozenset[int]] = set()
    for group, rules in enumerate(board.rules):
        together = frozenset({group, *feeders(board, group)})
        if rules.near is None or together in seen:
            continue
        seen.add(together)
        nears = [board.rules[other].near for other in sorted(together)]
        is_bound = all(near is not None and not near.has_pods for near in nears)
        if not is_bound or any({other, *feeders(board, other)} != together for other in together):
            continue
        terms = [board.classes[other].rules.affinity for other in together]
        labels = set.intersection(*({term.topology_key for term in one} for one in terms))
        for term, counter in zip(board.classes[group].rules.affinity, rules.near.counters, strict=True):
            if term.topology_key in labels:
                found.append(Demand(groups=together, label=term.topology_key, codes=counter.codes))
    return tuple(found)


def ties(board: Board) -> tuple[Demand, ...]:
    """Return the demands that follow from claims which members share: their devices are on one node."""
    if board.devices is None:
        return ()
    nodes = np.arange(len(board.snapshot.names), dtype=np.int64)
    # A claim that one member uses alone ties it to nobody.
    shared = [groups for groups in board.devices.ties() if sum(board.classes[group].size for group in groups) > 1]
    return tuple(Demand(groups=groups, label=_NODES, codes=nodes) for groups in shared)


def wider_than(label: str, *, levels: Sequence[TopologyLevel]) -> tuple[str, ...]:
    """Return the labels to fall back to from a preferred level: wider ones, the nearest first."""
    labels = [level.node_label for level in levels]
    return tuple(reversed(labels[: labels.index(label)])) if label in labels else ()


def relaxations(requests: Sequence[TopologyRequest], *, levels: Sequence[TopologyLevel]) -> list[list[TopologyRequest]]:
    """Return the requests as they are tried: the preferred ones at their own level, then wider, at last not at all."""
    ladders = [
        (one.level_label, *wider_than(one.level_label, levels=levels), "")
        if not one.is_required
        else (one.level_label,)
        for one in requests
    ]
    depth = max((len(ladder) for ladder in ladders), default=1)
    steps: list[list[TopologyRequest]] = []
    for step in range(depth):
        chosen = [(one, ladder[min(step, len(ladder) - 1)]) for one, ladder in zip(requests, ladders, strict=True)]
        steps.append(
            [
                TopologyRequest(level_label=label, is_required=one.is_required, subgroup=one.subgroup)
                for one, label in chosen
                if label
            ]
        )
    return steps
