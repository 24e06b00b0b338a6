"""One crash point: a gang whose binder is struck at one of its calls, and what the judge says when it is over."""

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rich.table import Table

from services.core.objects import GangId
from tests import device_checker
from tests.chaos.gangs import BYSTANDERS, HOPELESS, LIMIT_S, Scenario, endings, rested, submit
from tests.chaos.nursery import Binder
from tests.chaos.orders import Fault, Order
from tests.chaos.proxy import Ask, Fate, Hold
from tests.chaos.stage import Stage, cleared
from tests.e2e.api import Api
from tests.e2e.waiting import eventually, until

REPORTS = ("event", "group status", "pod status")
"""Calls that only show something. Reports that come together are shown as one, so their number varies."""

REPORT_S = 2.0
"""How long a report is waited for, after the transaction has ended."""

DEVICES_S = 5.0
"""How long the claim controller may take to free what pods that are gone had."""

NOT_REACHED = "not reached"
_numbers = itertools.count(1)


class Successor(StrEnum):
    """Who goes on after a death."""

    RESTARTED = "restarted"
    """The same instance, started again; there is one binder, and no election."""
    STANDBY = "standby"
    """A second one that is running, and is elected."""


_OF_UNDO = frozenset({"announce", "delete"})
"""Calls that are made once for each member that was bound, and one member of each gang is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where to strike, how, and who goes on."""

    scenario: Scenario
    call: str
    fault: Fault
    successor: Successor
    first: Order | None = None
    """A death before: the call is then one of the successor's."""

    @property
    def step(self) -> str:
        """Text for the table."""
        return f"{self.first.call}, then {self.call}" if self.first else self.call

    @property
    def is_optional(self) -> bool:
        """True for a call that need not be made: how much is left to a successor depends on what still landed.

        Where pods have claims, their controller writes into pods meanwhile, and what met a conflict is tried again. As
        is a call of an undo that a kubelet was faster than: there are more such calls than members then.
        """
        kind, _, number = self.call.rpartition(" ")
        is_repeated = kind in _OF_UNDO and int(number) >= self.scenario.size
        return self.first is not None or self.scenario.has_claims or is_repeated or kind.startswith(REPORTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a point. `ending` is the end of its transaction, or that the call was not made."""

    point: Point
    ending: str
    problems: tuple[str, ...] = ()
    history: tuple[str, ...] = ()

    @property
    def cell(self) -> str:
        """Text for the table."""
        return "; ".join(self.problems) or self.ending


@dataclass(slots=True, kw_only=True)
class Theatre:
    """Plays points one after the other, and keeps the binders that they need."""

    stage: Stage
    successor: Successor
    is_journal_late: bool = False
    _binders: list[Binder] = field(default_factory=list)

    async def open(self) -> None:
        """Have the binders that there should be, each ready."""
        self._binders = [one for one in self._binders if not one.died.is_set()]
        wanted = 2 if self.successor is Successor.STANDBY else 1
        while len(self._binders) < wanted:
            is_elected = self.successor is Successor.STANDBY
            binder = await self.stage.bear(is_elected=is_elected, is_journal_late=self.is_journal_late)
            self._binders.append(binder)
        for binder in self._binders:
            await binder.ready()

    async def close(self) -> None:
        """End them."""
        for binder in self._binders:
            await binder.kill()

    async def settle_bystanders(self) -> Api:
        """Run a gang that nothing here is about, beside all others; returns its namespace."""
        await self.open()
        api, gang = await self._begun(BYSTANDERS)
        await rested(self.stage, gang)

        async def are_running() -> bool:
            pods = await api.list("Pod")
            seen = self.stage.checker.versions(api.namespace)
            return len(pods) == BYSTANDERS.size and all(
                pod["status"]["phase"] == "Running"
                and seen.get(pod["metadata"]["uid"]) == int(pod["metadata"]["resourceVersion"])
                for pod in pods
            )

        await eventually(are_running, what="the bystanders run")
        return api

    async def calls(self, scenario: Scenario, *, first: Order | None = None) -> list[str]:
        """Play a scenario without a fault, and return its calls; after a first death those of the successor.

        Raises AssertionError where anything is wrong.
        """
        await self.open()
        api, gang = await self._begun(scenario, orders=(first,) if first else ())
        if first is not None:
            await self._died(gang)
        await rested(self.stage, gang)
        found = await self._all_calls(api)
        assert [type(one) for one in endings(self.stage, gang)] == [scenario.ending]
        assert await self.stage.checker.problems(api.namespace) == []
        assert await _devices_at_rest(api) == []
        await cleared(api)
        return found

    async def play(self, point: Point) -> Outcome:
        """Play a point."""
        await self.open()
        order = Order(call=point.call, fault=point.fault)
        api, gang = await self._begun(point.scenario, orders=(point.first, order) if point.first else (order,))
        if point.first is not None:
            await self._died(gang)
        await self._struck(point, api=api, gang=gang)
        has_died = any(one.died.is_set() for one in self._binders)
        if has_died:
            await self.open()
        await rested(self.stage, gang)
        if self.stage.orders.take(api.namespace):
            problems = () if point.is_optional else ("the call was never made",)
            outcome = Outcome(point=point, ending=NOT_REACHED, problems=problems)
        elif has_died != (point.fault is not Fault.ANSWER_LOST):
            outcome = Outcome(point=point, ending=NOT_REACHED, problems=(f"a binder died: {has_died}",))
        else:
            outcome = await self._judged(point, api=api, gang=gang)
        await cleared(api)
        return outcome

    async def play_late(self, scenario: Scenario, *, number: int) -> Outcome:
        """Kill the binder while its binding of that number is held on its way, and let it land when all is over.

        Meanwhile the member that is refused disappears, so that the successor cannot bind the gang again. The answer
        to the late binding must be a refusal.
        """
        await self.open()
        point = Point(scenario=scenario, call=f"bind {number}", fault=Fault.LANDS_LATE, successor=self.successor)
        hold, seen = Hold(), itertools.count(1)

        def plan(ask: Ask) -> Fate | None:
            is_chosen = ask.is_binding and f"/{api.namespace}/" in ask.path and next(seen) == number
            return hold if is_chosen else None

        api = await self.stage.space(f"late-{next(_numbers)}")
        self.stage.proxy.plan = plan
        try:
            gang = await submit(self.stage, api, scenario)
            await asyncio.wait_for(hold.is_held.wait(), LIMIT_S)
            await self._others_bound(api, scenario)
            for binder in self._binders:
                await binder.kill()
            await api.delete("Pod", HOPELESS, grace_s=0)
            await self.open()
            await rested(self.stage, gang)
        finally:
            hold.let_go.set()
            self.stage.proxy.plan = lambda _ask: None
        await asyncio.wait_for(hold.is_answered.wait(), LIMIT_S)
        outcome = await self._judged(point, api=api, gang=gang)
        await cleared(api)
        return outcome

    async def _begun(self, scenario: Scenario, *, orders: Sequence[Order] = ()) -> tuple[Api, GangId]:
        namespace = f"{scenario.name}-{next(_numbers)}"
        api = await self.stage.space(namespace)
        self.stage.orders.give(namespace, *orders)
        return api, await submit(self.stage, api, scenario)

    async def _died(self, gang: GangId) -> None:
        """Wait until a binder has died, and have another."""
        what = f"a binder dies of {gang}"
        await until(lambda: any(one.died.is_set() for one in self._binders), what=what, timeout_s=LIMIT_S)
        await self.open()

    async def _struck(self, point: Point, *, api: Api, gang: GangId) -> None:
        """Wait until the strike has happened, or cannot happen any more."""
        orders = self.stage.orders

        def is_struck() -> bool:
            if point.fault is Fault.ANSWER_LOST:
                return orders.look(api.namespace) is None
            return any(one.died.is_set() for one in self._binders)

        def is_over() -> bool:
            return is_struck() or bool(endings(self.stage, gang))

        await until(is_over, what=f"{point.call} is struck, or {gang} has ended", timeout_s=LIMIT_S)
        if not is_struck():
            try:
                await until(is_struck, what="strike", timeout_s=REPORT_S)
            except AssertionError:
                return

    async def _others_bound(self, api: Api, scenario: Scenario) -> None:
        """Wait until every binding that is not held has been answered, as far as the API server shows it."""

        async def is_bound() -> bool:
            bound = [pod for pod in await api.list("Pod") if pod["spec"].get("nodeName")]
            return len(bound) >= scenario.size - 2

        await eventually(is_bound, what="the other members are bound")

    async def _all_calls(self, api: Api) -> list[str]:
        """Return the calls, once the last report has been shown."""
        calls: list[str] = []

        async def are_complete() -> bool:
            before = self.stage.orders.last_calls(api.namespace)
            await asyncio.sleep(REPORT_S / 4)
            calls[:] = self.stage.orders.last_calls(api.namespace)
            return calls == before and any(one.startswith("event") for one in calls)

        await eventually(are_complete, what="all reports are shown")
        return calls

    async def _judged(self, point: Point, *, api: Api, gang: GangId) -> Outcome:
        problems = await self.stage.checker.problems(api.namespace)
        problems += await _devices_at_rest(api)
        ends = endings(self.stage, gang)
        if len(ends) != 1:
            problems.append(f"{len(ends)} endings: {[type(one).__name__ for one in ends]}")
        history = self.stage.checker.history(api.namespace) if problems else []
        return Outcome(point=point, ending=type(ends[0]).__name__, problems=tuple(problems), history=tuple(history))


async def _devices_at_rest(api: Api) -> list[str]:
    """Return what is wrong with devices, once the claim controller has freed those of pods that are gone."""
    found: list[str] = []

    async def are_right() -> bool:
        claims, pods = await api.list("ResourceClaim", everywhere=True), await api.list("Pod", everywhere=True)
        found[:] = device_checker.problems(claims=claims, pods=pods)
        return not found

    with contextlib.suppress(AssertionError):
        await eventually(are_right, what="devices are right", timeout_s=DEVICES_S)
    return found


def table(outcomes: Iterable[Outcome], *, title: str) -> Table:
    """Return the table of steps, faults and outcomes."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    columns: Counter[str] = Counter()
    for one in outcomes:
        column = f"{one.point.fault.value}, {one.point.successor.value}"
        columns[column] += 1
        rows.setdefault((one.point.scenario.name, one.point.step), {})[column] = one.cell
    shown = Table(title=title, title_justify="left")
    for heading in ("scenario", "step", *columns):
        shown.add_column(heading, overflow="fold")
    for (scenario, call), cells in rows.items():
        shown.add_row(scenario, call, *(cells.get(column, "") for column in columns))
    return shown
