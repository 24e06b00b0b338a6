"""Pools: the slices of one driver under one name, of the highest generation, and what of their devices is left.

A pool is used only when it is whole: as many slices as it says, no device twice, no counter that does not exist.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.core.devices.reading_claims import TaintRule
from services.core.devices.taints import rules_for, taints_of
from services.core.devices.values import (
    Attribute,
    AttributeName,
    Device,
    DeviceSlice,
    DeviceTaint,
    NodeRule,
    PoolId,
    Use,
)

Counters = Mapping[tuple[str, str], int]
"""Amounts by counter set and counter."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """All slices of the highest generation that have devices, by name, and where each begins among all devices.

    `problem` says why the pool is not used; `is_incomplete` that its driver is still publishing. `rules` are all node
    rules in it. `node` is the one node of all its devices, empty where there are several.
    """

    id: PoolId
    slices: tuple[DeviceSlice, ...] = ()
    offsets: tuple[int, ...] = ()
    devices: tuple[Device, ...] = ()
    counters: Counters = field(default_factory=dict)
    rules: tuple[NodeRule, ...] = ()
    node: str = ""
    problem: str = ""
    is_incomplete: bool = False
    binds: bool = False
    #: Bits of devices that consume counters, and of those that can be shared.
    counting: int = 0
    shareable: int = 0
    is_tainted: bool = False
    numbered: dict[AttributeName, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def numbers(self, attribute: AttributeName) -> tuple[int, ...]:
        """Return an attribute of all devices as numbers in the order in which values appear, 0 where there is none."""
        known = self.numbered.get(attribute)
        if known is None:
            numbers: dict[Attribute | None, int] = {None: 0}
            column = self.values(attribute)
            known = self.numbered[attribute] = tuple(numbers.setdefault(value, len(numbers)) for value in column)
        return known

    def values(self, attribute: AttributeName) -> tuple[Attribute | None, ...]:
        """Return an attribute of all devices."""
        if len(self.slices) == 1:
            return self.slices[0].columns.get(attribute) or (None,) * len(self.devices)
        return tuple(value for one in self.slices for value in one.columns.get(attribute) or (None,) * len(one.devices))


def build_pool(identity: PoolId, slices: Iterable[DeviceSlice]) -> Pool:
    """Return the pool that slices make up; those of older generations do not count."""
    known = tuple(slices)
    newest = max(one.generation for one in known)
    current = sorted((one for one in known if one.generation == newest), key=lambda one: one.name)
    with_devices = tuple(one for one in current if not one.counter_sets)
    rules = tuple(dict.fromkeys(rule for one in current for rule in _rules(one)))
    names = {rule.name for rule in rules}
    node = names.pop() if len(names) == 1 and all(rule.name for rule in rules) else ""
    is_incomplete = any(len(current) != one.slice_count for one in current)
    problem = next((one.problem for one in current if one.problem), "")
    if is_incomplete:
        problem = f"it has {len(current)} of {current[0].slice_count} slices of generation {newest}"
    if problem:
        return Pool(id=identity, rules=rules, node=node, problem=problem, is_incomplete=is_incomplete)
    counters, problem = _counters(current)
    devices = tuple(device for one in with_devices for device in one.devices)
    problem = problem or _problem(devices, counters)
    if problem:
        return Pool(id=identity, rules=rules, node=node, problem=problem)
    return Pool(
        id=identity,
        slices=with_devices,
        offsets=_offsets(with_devices),
        devices=devices,
        counters=counters,
        rules=rules,
        node=node,
        binds=any(device.binding_conditions for device in devices),
        is_tainted=any(device.taints for device in devices),
        counting=sum(1 << position for position, device in enumerate(devices) if device.counters),
        shareable=sum(1 << position for position, device in enumerate(devices) if device.is_shareable),
    )


def _rules(one: DeviceSlice) -> Iterable[NodeRule]:
    """Return where a slice can be used. One of counters alone says nothing about where devices are."""
    return () if one.counter_sets else {device.node: None for device in one.devices} or (one.node,)


def _offsets(slices: tuple[DeviceSlice, ...]) -> tuple[int, ...]:
    offsets, begin = [], 0
    for one in slices:
        offsets.append(begin)
        begin += len(one.devices)
    return tuple(offsets)


def _counters(slices: Iterable[DeviceSlice]) -> tuple[Counters, str]:
    found: dict[tuple[str, str], int] = {}
    seen: set[str] = set()
    for one in slices:
        twice = seen & one.counter_sets.keys()
        if twice:
            return {}, f"counter set {min(twice)} is declared twice"
        seen |= one.counter_sets.keys()
        for name, counters in one.counter_sets.items():
            found |= {(name, counter): amount for counter, amount in counters.items()}
    return found, ""


def _problem(devices: tuple[Device, ...], counters: Counters) -> str:
    names: set[str] = set()
    for device in devices:
        if device.name in names:
            return f"device {device.name} is listed twice"
        names.add(device.name)
        for name, counter, _ in device.counters:
            if (name, counter) not in counters:
                return f"device {device.name} consumes counter {counter} of set {name}, which does not exist"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What allocations and promises take of a pool: devices that are taken whole, and shares of others by capacity."""

    taken: frozenset[str] = frozenset()
    shared: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolState:
    """A pool and what is left of it. `free` are bits of devices nobody has whole; `taints` only those that keep off.

    `memo` remembers answers about this state; it is no part of the value.
    """

    pool: Pool
    free: int
    left: Counters
    shares: Mapping[int, Mapping[str, int]]
    taints: Mapping[int, tuple[DeviceTaint, ...]]
    tainted: int = 0
    memo: dict[object, object] = field(default_factory=dict, repr=False)


def state_of(pool: Pool, *, usage: Usage, rules: Iterable[TaintRule]) -> PoolState:
    """Return a pool with what is taken of it, and with the taints that keep claims off its devices."""
    free = 0
    left = dict(pool.counters)
    shares: dict[int, Mapping[str, int]] = {}
    taints: dict[int, tuple[DeviceTaint, ...]] = {}
    laid_over = rules_for(pool.id, rules)
    if usage is NO_USAGE and not laid_over and not pool.is_tainted:
        return PoolState(pool=pool, free=(1 << len(pool.devices)) - 1, left=left, shares=shares, taints=taints)
    for position, device in enumerate(pool.devices):
        is_shared = device.name in usage.shared
        if device.name not in usage.taken:
            free |= 1 << position
        if is_shared:
            shares[position] = usage.shared[device.name]
        if is_shared or device.name in usage.taken:
            for name, counter, amount in device.counters:
                left[name, counter] -= amount
        if device.taints or laid_over:
            found = taints_of(device.name, own=device.taints, rules=laid_over)
            if found:
                taints[position] = found
    tainted = sum(1 << position for position in taints)
    return PoolState(pool=pool, free=free, left=left, shares=shares, taints=taints, tainted=tainted)


def charged(state: PoolState, uses: Iterable[Use]) -> PoolState:
    """Return a pool's state with more of it taken."""
    names = {device.name: position for position, device in enumerate(state.pool.devices)}
    free, left = state.free, dict(state.left)
    shares = {position: dict(amounts) for position, amounts in state.shares.items()}
    for use in uses:
        position = names.get(use.device[2])
        if use.is_admin or position is None:
            continue
        if position not in shares and state.free >> position & 1:
            for name, counter, amount in state.pool.devices[position].counters:
                left[name, counter] -= amount
        if use.consumed is None:
            free &= ~(1 << position)
            continue
        amounts = shares.setdefault(position, {})
        for name, amount in use.consumed:
            amounts[name] = amounts.get(name, 0) + amount
    return PoolState(pool=state.pool, free=free, left=left, shares=shares, taints=state.taints, tainted=state.tainted)
