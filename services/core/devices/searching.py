"""Back-tracking over the devices of a field: one device after the other, claim by claim, until all have theirs.

Exact within a bound of steps. What makes it short: devices that are alike are tried once, claims that are alike take
devices in order, and a state of the field in which the rest of the claims found nothing is not entered again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from services.core.devices.fields import Field, bits

MAX_STEPS = 20_000
"""Devices tried in one search; more is giving up."""
MAX_DEVICES = 32
"""In one claim (AllocationResultsMaxSize)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way to serve a request: a wish by number, how many devices, and the constraints that hold for them."""

    wish: int
    count: int | None
    constraints: tuple[int, ...] = ()
    is_admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One claim: choices by request, the first that can be had; constraints as number of the attribute, and kind.

    The kind is true for values that are all distinct.
    """

    requests: tuple[tuple[Choice, ...], ...]
    constraints: tuple[tuple[int, bool], ...] = ()


Picks = tuple[tuple[int, tuple[int, ...]], ...]
"""For each request of a claim: which choice, and the devices by position."""


class GaveUp(Exception):
    """The bound of steps was reached: a solution may exist."""


def search(field: Field, tasks: Sequence[Task], *, max_steps: int = MAX_STEPS) -> tuple[Picks, ...] | None:
    """Return devices for every claim, None where there are none. Equal input gives equal answers. Raises GaveUp."""
    if field.is_hidden or _falls_short(field, tasks):
        return None
    return _Search(field, tasks, max_steps=max_steps).run()


def _falls_short(field: Field, tasks: Sequence[Task]) -> bool:
    """Tell by counting that there are too few devices for those requests that can only be served by some of them."""
    wanted: dict[int, int] = {}
    for task in tasks:
        for choices in task.requests:
            if len(choices) == 1 and choices[0].count is not None and not choices[0].is_admin:
                mask = field.usable[choices[0].wish]
                wanted[mask] = wanted.get(mask, 0) + choices[0].count
    exclusive = {mask: count for mask, count in wanted.items() if not mask & field.shareable}
    return any(
        sum(count for other, count in exclusive.items() if other & ~mask == 0) > mask.bit_count() for mask in exclusive
    )


class _Search:
    """One search. What is tried is written down in place and taken back."""

    def __init__(self, field: Field, tasks: Sequence[Task], *, max_steps: int) -> None:
        self._field = field
        self._tasks = tasks
        self._steps_left = max_steps
        self._used = 0
        self._charged = field.charged
        self._left = list(field.left)
        self._capacity = list(field.capacity)
        self._shares = [dict(row) for row in field.shares]
        self._alike = _alike(field)
        self._picks: list[list[tuple[int, tuple[int, ...]]]] = []
        self._payers: list[bool] = []
        self._failed: set[object] = set()

    def run(self) -> tuple[Picks, ...] | None:
        """Go from claim to claim, and back where one finds nothing; without recursion, because claims are many."""
        ways = [self._ways(0)] if self._tasks else []
        while len(ways) <= len(self._tasks) and ways:
            if next(ways[-1], None) is None:
                ways.pop()
                self._fail(len(ways))
                continue
            if len(ways) == len(self._tasks):
                return tuple(tuple(picks) for picks in self._picks)
            ways.append(self._ways(len(ways)))
        return () if not self._tasks else None

    def _ways(self, number: int) -> Iterator[bool]:
        """Yield once for each way to serve a claim; what is taken is taken back before the next."""
        if self._state(number) in self._failed:
            return
        self._picks.append([])
        claim = _Claim(self._tasks[number])
        yield from self._request(claim, 0, least=self._least(number))
        self._picks.pop()

    def _state(self, number: int) -> object:
        return (number, self._used, self._charged, tuple(self._left), tuple(self._capacity), self._least(number))

    def _fail(self, number: int) -> None:
        """Remember that the claims from this one on find nothing in the present state."""
        self._failed.add(self._state(number))

    def _least(self, number: int) -> tuple[int, int]:
        """Return where a claim begins that is like the one before it: not before that one's first device."""
        if number == 0 or self._tasks[number] != self._tasks[number - 1] or not self._tasks[number].requests:
            return (0, 0)
        choice, devices = self._picks[number - 1][0]
        return choice, devices[0]

    def _request(self, claim: "_Claim", index: int, *, least: tuple[int, int] = (0, 0)) -> Iterator[bool]:
        requests = claim.task.requests
        if index == len(requests):
            yield True
            return
        for number in range(least[0], len(requests[index])):
            choice = requests[index][number]
            begin = least[1] if number == least[0] else 0
            for devices in self._choice(claim, choice, begin=begin):
                self._picks[-1].append((number, devices))
                yield from self._request(claim, index + 1)
                self._picks[-1].pop()

    def _choice(self, claim: "_Claim", choice: Choice, *, begin: int) -> Iterator[tuple[int, ...]]:
        """Yield the sets of devices that serve a choice, while they are taken."""
        whole = self._field.whole[choice.wish]
        if choice.count is None:
            count = whole.bit_count() if whole > 0 else 0
            if 0 < count <= MAX_DEVICES - claim.size and (begin == 0 or not whole & ((1 << begin) - 1)):
                yield from self._all(claim, choice, tuple(bits(whole)), taken=0)
        elif choice.count <= MAX_DEVICES - claim.size:
            yield from self._some(claim, choice, begin=begin, taken=())

    def _all(
        self, claim: "_Claim", choice: Choice, devices: tuple[int, ...], *, taken: int
    ) -> Iterator[tuple[int, ...]]:
        if taken == len(devices):
            yield devices
            return
        if self._take(claim, choice, devices[taken]):
            yield from self._all(claim, choice, devices, taken=taken + 1)
            self._give(claim, choice, devices[taken])

    def _some(
        self, claim: "_Claim", choice: Choice, *, begin: int, taken: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        if len(taken) == choice.count:
            yield taken
            return
        candidates = self._field.usable[choice.wish] >> begin << begin
        if not choice.is_admin:
            candidates &= ~self._used
        tried: set[object] = set()
        for device in bits(candidates & ~claim.mine):
            kind = self._kind(device)
            if kind in tried:
                continue
            if self._take(claim, choice, device):
                yield from self._some(claim, choice, begin=device + 1, taken=(*taken, device))
                self._give(claim, choice, device)
            tried.add(kind)

    def _kind(self, device: int) -> object:
        """Return what makes devices alike now."""
        alike = self._alike[device]
        if not self._field.shareable >> device & 1:
            return alike
        first = self._shares_at(device)
        return alike, self._charged >> device & 1, tuple(self._capacity[number] for number in first)

    def _shares_at(self, device: int) -> tuple[int, ...]:
        return tuple(number for row in self._shares for number, _ in row.get(device, ()))

    def _take(self, claim: "_Claim", choice: Choice, device: int) -> bool:
        """Take a device for a claim, or say that it cannot be had."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise GaveUp
        taken = claim.mine if choice.is_admin else claim.mine | self._used
        if taken >> device & 1:
            return False
        values = [self._field.values[claim.task.constraints[one][0]][device] for one in choice.constraints]
        if not all(claim.allows(one, value) for one, value in zip(choice.constraints, values, strict=True)):
            return False
        if not choice.is_admin and not self._charge(choice, device):
            return False
        for one, value in zip(choice.constraints, values, strict=True):
            claim.values[one].append(value)
        claim.size += 1
        if not self._field.shareable >> device & 1:
            claim.mine |= 1 << device
        return True

    def _charge(self, choice: Choice, device: int) -> bool:
        field, bit = self._field, 1 << device
        is_shareable = bool(field.shareable & bit)
        pays = not is_shareable or not self._charged & bit
        if pays and any(self._left[number] < amount for number, amount in _summed(field.counters[device])):
            return False
        if is_shareable:
            share = self._shares[choice.wish][device]
            if any(self._capacity[number] < amount for number, amount in share):
                return False
            for number, amount in share:
                self._capacity[number] -= amount
        else:
            self._used |= bit
        if pays:
            for number, amount in field.counters[device]:
                self._left[number] -= amount
        self._payers.append(pays)
        if is_shareable:
            self._charged |= bit
        return True

    def _give(self, claim: "_Claim", choice: Choice, device: int) -> None:
        """Take back what was taken last."""
        field, bit = self._field, 1 << device
        claim.size -= 1
        claim.mine &= ~bit
        for one in choice.constraints:
            claim.values[one].pop()
        if choice.is_admin:
            return
        paid = self._payers.pop()
        if paid:
            for number, amount in field.counters[device]:
                self._left[number] += amount
        if not field.shareable & bit:
            self._used &= ~bit
            return
        if paid:
            self._charged &= ~bit
        for number, amount in self._shares[choice.wish][device]:
            self._capacity[number] += amount


def _summed(uses: tuple[tuple[int, int], ...]) -> Iterator[tuple[int, int]]:
    """Yield what a device consumes by counter: it may name one twice."""
    totals: dict[int, int] = {}
    for number, amount in uses:
        totals[number] = totals.get(number, 0) + amount
    yield from totals.items()


class _Claim:
    """What one claim has so far. `mine` are devices that it must not get twice."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.size = 0
        self.mine = 0
        self.values: list[list[int]] = [[] for _ in task.constraints]

    def allows(self, constraint: int, value: int) -> bool:
        """Tell whether a device with this value may be added; one without a value may not."""
        if not value:
            return False
        seen = self.values[constraint]
        is_distinct = self.task.constraints[constraint][1]
        return value not in seen if is_distinct else not seen or seen[0] == value


def _alike(field: Field) -> tuple[int, ...]:
    """Return a number for each device, equal for devices between which nothing can tell."""
    numbers: dict[object, int] = {}
    shares = [dict(row) for row in field.shares]
    found = []
    for device in range(field.size):
        wishes = tuple(mask >> device & 1 for mask in field.usable)
        values = tuple(column[device] for column in field.values)
        amounts = tuple(tuple(amount for _, amount in row.get(device, ())) for row in shares)
        key = (wishes, values, field.counters[device], field.shareable >> device & 1, amounts)
        found.append(numbers.setdefault(key, len(numbers)))
    return tuple(found)
