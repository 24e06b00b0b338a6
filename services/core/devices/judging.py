"""What selectors say about the devices of slices: asked once for each shape, remembered with the slice.

A shape is the values of what an expression reads. Real drivers give each device a uuid of its own, so 40,000 devices
are some dozens of shapes for an expression that does not read it.
"""

from collections.abc import Iterable, Sequence

from services.core.devices.reading_slices import qualified
from services.core.devices.values import Attribute, AttributeName, Device, DeviceSlice, Verdict
from services.core.selector_reads import OWN_DOMAIN, PRESENCE
from services.core.selectors import Facts, Selector, SelectorProblem, compile_selector

_KEPT_SHAPES = 200_000
"""More are forgotten at once: they cost memory, and asking again is cheap."""

_Columns = tuple[tuple[Attribute | None, ...] | tuple[bool, ...], ...]
_Pairs = frozenset[tuple[str, str | None]] | None


class Judge:
    """Asks selectors. `problems` are those that cannot be used."""

    def __init__(self) -> None:
        """Nothing has been asked yet."""
        self._slices: dict[tuple[object, ...], Verdict] = {}
        self._devices: dict[tuple[object, ...], bool | str] = {}
        #: How many times the engine was asked.
        self.asked = 0
        #: Expressions that failed on some device.
        self.failing: set[str] = set()

    def verdict(self, devices: DeviceSlice, selectors: Sequence[str]) -> Verdict | SelectorProblem:
        """Return what all selectors together say: later ones are asked about what the earlier ones hold for."""
        matches, failures, error, failed = (1 << len(devices.devices)) - 1, 0, "", ""
        for expression in selectors:
            one = self._one(devices, expression)
            if isinstance(one, SelectorProblem):
                return one
            if one.failures & matches and not failures:
                error, failed = one.error, expression
            failures |= one.failures & matches
            matches &= one.matches
        return Verdict(matches=matches, failures=failures, error=error, selector=failed)

    def prepare(self, slices: Iterable[DeviceSlice], selectors: Iterable[str]) -> None:
        """Ask now, so that a decision finds the answers."""
        expressions = tuple(selectors)
        for devices in slices:
            for expression in expressions:
                self._one(devices, expression)

    def _one(self, devices: DeviceSlice, expression: str) -> Verdict | SelectorProblem:
        known = devices.verdicts.get(expression)
        if known is not None:
            return known
        selector = compile_selector(expression)
        if isinstance(selector, SelectorProblem):
            return selector
        verdict = self._by_shape(devices, selector)
        if verdict.failures:
            self.failing.add(expression)
        devices.verdicts[expression] = verdict
        return verdict

    def _by_shape(self, devices: DeviceSlice, selector: Selector) -> Verdict:
        names, columns = _read(devices, selector.reads.attributes)
        others = tuple(_other_shape(device, selector) for device in devices.devices)
        shape = (selector.expression, devices.pool[0], names, columns, others)
        known = self._slices.get(shape)
        if known is None:
            if len(self._slices) > _KEPT_SHAPES:
                self._slices.clear()
            known = self._slices[shape] = self._asked(devices, selector, names=names, columns=columns, others=others)
        return known

    def _asked(
        self,
        devices: DeviceSlice,
        selector: Selector,
        *,
        names: tuple[AttributeName, ...],
        columns: _Columns,
        others: tuple[object, ...],
    ) -> Verdict:
        matches = failures = 0
        error = ""
        for position, other in enumerate(others):
            values = tuple(column[position] for column in columns)
            key = (selector.expression, devices.pool[0], names, other, values)
            answer = self._devices.get(key)
            if answer is None:
                if len(self._devices) > _KEPT_SHAPES:
                    self._devices.clear()
                self.asked += 1
                answer = self._devices[key] = selector.judge(facts_of(devices, position))
            if isinstance(answer, str):
                failures |= 1 << position
                error = error or answer
            elif answer:
                matches |= 1 << position
        return Verdict(matches=matches, failures=failures, error=error)


def _read(devices: DeviceSlice, reads: _Pairs) -> tuple[tuple[AttributeName, ...], _Columns]:
    """Return the names of what is read, and the columns; a slice lacks those that none of its devices has."""
    if reads is None:
        names = tuple(sorted(devices.columns))
        return names, tuple(devices.columns[name] for name in names)
    found: dict[AttributeName, tuple[Attribute | None, ...] | tuple[bool, ...]] = {}
    for domain, name in reads:
        own = devices.pool[0] if domain == OWN_DOMAIN else domain
        within = {pair: column for pair, column in devices.columns.items() if pair[0] == own}
        if name is None:
            found |= within
        elif name == PRESENCE:
            found[own, PRESENCE] = tuple(any(row) for row in zip(*within.values(), strict=True))
        elif (own, name) in within:
            found[own, name] = within[own, name]
    names = tuple(sorted(name for name, column in found.items() if column))
    return names, tuple(found[name] for name in names)


def _other_shape(device: Device, selector: Selector) -> object:
    """Return what is read of a device besides attributes. Capacities are few, and alike in a pool."""
    reads = selector.reads.capacity
    if reads is not None and not reads:
        return device.is_shareable
    return device.is_shareable, tuple(sorted((name, one.amount) for name, one in device.capacity.items()))


def facts_of(devices: DeviceSlice, position: int) -> Facts:
    """Return what expressions may read of a device of a slice."""
    driver = devices.pool[0]
    device = devices.devices[position]
    return Facts(
        driver=driver,
        is_shareable=device.is_shareable,
        attributes={name: value for name, column in devices.columns.items() if (value := column[position]) is not None},
        capacity={qualified(name, driver=driver): one.amount for name, one in device.capacity.items()},
    )
