"""A field of devices that some claims are placed on: everything a search reads, and nothing else.

It is made of pools and of what is asked. Two nodes with equal fields answer every question equally: names are left out,
and values of attributes are numbered as they first appear, so that a unique uuid or pcieRoot on every device makes no
difference. `FieldDraft` keeps, beside the field, which device stands where.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from services.core.devices.capacity import consumption
from services.core.devices.judging import Judge
from services.core.devices.pools import Pool, PoolState
from services.core.devices.taints import are_tolerated
from services.core.devices.values import Ask, AttributeName, Device, Verdict
from services.core.selectors import SelectorProblem

Share = tuple[tuple[int, int], ...]
"""What a request consumes of a shareable device: capacity by number, and amount."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Wish:
    """What is asked of a field: a request, and its selectors with those of its class. Made by `wish_for` alone."""

    ask: Ask
    selectors: tuple[str, ...]


@lru_cache(maxsize=65536)
def wish_for(ask: Ask, selectors: tuple[str, ...]) -> Wish:
    """Return the one wish of its kind, so that wishes compare and hash by identity."""
    return Wish(ask=ask, selectors=selectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """Devices by position. `usable` are bits by wish; `whole` those that a wish for all devices has to take.

    `whole` is -1 where all devices cannot be had; `is_hidden` that all are asked for of a pool that is not whole, so
    that nobody can tell which those are. `values` are numbers by attribute and device, 0 where a device has none.
    `counters` are what a device consumes of `left`. `shares` are by wish and shareable device what a share consumes of
    `capacity`; `charged` are devices whose counters earlier shares have paid for.
    """

    size: int
    usable: tuple[int, ...]
    whole: tuple[int, ...]
    values: tuple[tuple[int, ...], ...]
    counters: tuple[tuple[tuple[int, int], ...], ...]
    left: tuple[int, ...]
    shareable: int
    charged: int
    shares: tuple[tuple[tuple[int, Share], ...], ...]
    capacity: tuple[int, ...]
    is_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one wish means in one pool: bits of devices.

    `matching` are selected by class and request, `usable` could be had now. `failures` are devices about which a
    selector failed; `shares` what a share of each usable shareable device consumes.
    """

    matching: int
    usable: int
    failures: int = 0
    shares: Mapping[int, tuple[tuple[str, int], ...]] = field(default_factory=dict)


def asked_of(state: PoolState, wish: Wish, *, judge: Judge) -> Asked:
    """Return what a wish means in a pool. Remembered with the state of the pool."""
    known = state.memo.get(wish)
    if isinstance(known, Asked):
        return known
    found = _asked(state, wish, verdict=verdict_of(state.pool, wish.selectors, judge=judge))
    state.memo[wish] = found
    return found


def verdict_of(pool: Pool, selectors: Sequence[str], *, judge: Judge) -> Verdict:
    """Return what selectors say about all devices of a pool."""
    matches = failures = 0
    error = selector = ""
    for begin, one in zip(pool.offsets, pool.slices, strict=True):
        verdict = judge.verdict(one, selectors)
        if isinstance(verdict, SelectorProblem):
            return Verdict(error=verdict.message, selector=verdict.expression)
        matches |= verdict.matches << begin
        failures |= verdict.failures << begin
        if not error:
            error, selector = verdict.error, verdict.selector
    return Verdict(matches=matches, failures=failures, error=error, selector=selector)


def _asked(state: PoolState, wish: Wish, *, verdict: Verdict) -> Asked:
    ask, pool = wish.ask, state.pool
    matching = verdict.matches
    usable = matching if ask.is_admin else matching & state.free
    shares: dict[int, tuple[tuple[str, int], ...]] = {}
    # Devices without any of these are what most are; nothing about them has to be looked at one by one.
    special = matching if ask.capacity else matching & (pool.counting | pool.shareable | state.tainted)
    for position in bits(special):
        device = state.pool.devices[position]
        share = consumption(device.capacity, requested=ask.capacity) if device.capacity or ask.capacity else ()
        bit = 1 << position
        if share is None:
            # It could never serve the request, so it is none of "all" either.
            matching, usable = matching & ~bit, usable & ~bit
        elif not _is_usable(state, position, ask=ask, share=share):
            usable &= ~bit
        elif device.is_shareable and not ask.is_admin:
            shares[position] = share
    return Asked(matching=matching, usable=usable, failures=verdict.failures, shares=shares)


def _is_usable(state: PoolState, position: int, *, ask: Ask, share: tuple[tuple[str, int], ...]) -> bool:
    """Tell whether a device that matches could be had now, if nobody else wanted it."""
    taints = state.taints.get(position)
    if taints and not are_tolerated(taints, ask.tolerations):
        return False
    if ask.is_admin:
        return True
    if not state.free >> position & 1:
        return False
    device = state.pool.devices[position]
    used = state.shares.get(position)
    if device.counters and used is None and _lacks_counters(state, device):
        return False
    return not device.is_shareable or all(
        (used or {}).get(name, 0) + amount <= device.capacity[name].amount for name, amount in share
    )


def _lacks_counters(state: PoolState, device: Device) -> bool:
    """Tell whether counters do not suffice. In a pool where one is overdrawn already, none is left to anybody."""
    return min(state.left.values()) < 0 or any(state.left[name, key] < need for name, key, need in device.counters)


def plain_key(state: PoolState, *, wishes: Sequence[Wish], attributes: Sequence[AttributeName]) -> object:
    """Return what the field of a node with this one pool follows from, where that can be told without making it.

    That is so where nothing but selectors, attributes, and whether a device is taken counts; None elsewhere.
    """
    pool = state.pool
    if len(pool.slices) != 1 or pool.counting or pool.shareable or state.tainted:
        return None
    verdicts = pool.slices[0].verdicts
    masks: list[int] = []
    for wish in wishes:
        mask = -1 if wish.ask.is_admin else state.free
        for expression in wish.selectors:
            verdict = verdicts.get(expression)
            if verdict is None or wish.ask.capacity:
                return None
            mask &= verdict.matches
        masks.append(mask)
    is_whole = any(wish.ask.count is None for wish in wishes)
    return tuple(masks), tuple(map(pool.numbers, attributes)), state.free if is_whole else 0, len(pool.devices)


def bits(mask: int) -> Iterable[int]:
    """Yield the positions of the bits that are set, lowest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDraft:
    """A field, and which device stands at each position: the pool's state and the position in the pool."""

    field: Field
    origins: tuple[tuple[PoolState, int], ...]


def draft_field(
    states: Sequence[PoolState],
    *,
    wishes: Sequence[Wish],
    reach: Sequence[Sequence[int]],
    attributes: Sequence[AttributeName],
    judge: Judge,
) -> FieldDraft:
    """Return the field of some pools for some wishes.

    `reach` are, by wish and pool, the bits of devices that can be used where the wish is; devices that no wish can use
    are left out.
    """
    answers = [[asked_of(state, wish, judge=judge) for state in states] for wish in wishes]
    rows = tuple(zip(wishes, answers, reach, strict=True))
    origins: list[tuple[PoolState, int]] = []
    usable = [0] * len(wishes)
    whole = [_whole(wish, answer, reach=mine) for wish, answer, mine in rows]
    allowed = [[one.usable & mask for one, mask in zip(answer, mine, strict=True)] for _, answer, mine in rows]
    for number, state in enumerate(states):
        union = 0
        for row in allowed:
            union |= row[number]
        for position in bits(union):
            here = 1 << len(origins)
            origins.append((state, position))
            for index, row in enumerate(allowed):
                if row[number] >> position & 1:
                    usable[index] |= here
    drafted = _Details(origins, states=states)
    return FieldDraft(
        field=Field(
            size=len(origins),
            usable=tuple(usable),
            whole=tuple(mask if can and mask else -1 for mask, can in zip(usable, whole, strict=True)),
            values=tuple(_numbered(attribute, origins) for attribute in attributes),
            counters=tuple(drafted.counters()),
            left=drafted.left(),
            shareable=drafted.shareable,
            charged=drafted.charged,
            shares=tuple(drafted.shares_of(row) for row in answers),
            capacity=drafted.capacity(),
            is_hidden=any(_is_hidden(wish, reach=mine, states=states) for wish, _, mine in rows),
        ),
        origins=tuple(origins),
    )


def _whole(wish: Wish, answers: Sequence[Asked], *, reach: Sequence[int]) -> bool:
    """Tell whether all matching devices in reach can be had."""
    return wish.ask.count is not None or all(
        answer.matching & mask == answer.usable & mask for answer, mask in zip(answers, reach, strict=True)
    )


def _is_hidden(wish: Wish, *, reach: Sequence[int], states: Sequence[PoolState]) -> bool:
    return wish.ask.count is None and any(
        bool(state.pool.problem) and bool(mask) for state, mask in zip(states, reach, strict=True)
    )


def _numbered(attribute: AttributeName, origins: Sequence[tuple[PoolState, int]]) -> tuple[int, ...]:
    columns: dict[int, Sequence[object]] = {}
    numbers: dict[object, int] = {None: 0}
    found = []
    for state, position in origins:
        column = columns.get(id(state))
        if column is None:
            column = columns[id(state)] = state.pool.values(attribute)
        found.append(numbers.setdefault(column[position], len(numbers)))
    return tuple(found)


class _Details:
    """Counters and capacities of the devices of a field, numbered as they first appear."""

    def __init__(self, origins: Sequence[tuple[PoolState, int]], *, states: Sequence[PoolState]) -> None:
        """Look at each device once."""
        self._origins = origins
        self._counters: dict[tuple[int, str, str], int] = {}
        self._left: list[int] = []
        self._capacity: dict[tuple[int, str], int] = {}
        self._free: list[int] = []
        self._positions = {(id(state), position): index for index, (state, position) in enumerate(origins)}
        self._states = states
        self.shareable = self.charged = 0
        for index, (state, position) in enumerate(origins):
            device = state.pool.devices[position]
            if not device.is_shareable:
                continue
            self.shareable |= 1 << index
            used = state.shares.get(position)
            self.charged |= (used is not None) << index
            for name in sorted(device.capacity):
                self._capacity[index, name] = len(self._free)
                self._free.append(device.capacity[name].amount - (used or {}).get(name, 0))

    def counters(self) -> Iterable[tuple[tuple[int, int], ...]]:
        """Yield what each device consumes, by number of the counter."""
        for state, position in self._origins:
            uses = []
            for name, counter, amount in state.pool.devices[position].counters:
                key = (id(state), name, counter)
                if key not in self._counters:
                    self._counters[key] = len(self._left)
                    self._left.append(state.left[name, counter])
                uses.append((self._counters[key], amount))
            yield tuple(uses)

    def left(self) -> tuple[int, ...]:
        """Return what is left of each counter."""
        return tuple(self._left)

    def capacity(self) -> tuple[int, ...]:
        """Return what is left of each capacity of a shareable device."""
        return tuple(self._free)

    def shares_of(self, answers: Sequence[Asked]) -> tuple[tuple[int, Share], ...]:
        """Return what a wish's share of each shareable device consumes."""
        found = []
        for state, answer in zip(self._states, answers, strict=True):
            for position, share in answer.shares.items():
                index = self._positions.get((id(state), position))
                if index is not None:
                    found.append((index, tuple((self._capacity[index, name], amount) for name, amount in share)))
        return tuple(sorted(found))
