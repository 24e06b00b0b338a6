"""The binder is killed before, after and in the middle of each of its effects: no gang is left in part.

A first run counts the calls of both ports: writes to the Kubernetes API, and writes to the bus. Then each call is
struck on the real API server, and the same instance or a standby goes on. The judge (`checker`) knows nothing of the
binder.
"""

import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.chaos import extent
from tests.chaos.gangs import REPAIR, SCENARIOS, UNDO, Scenario
from tests.chaos.orders import STRIKES, Fault, Order
from tests.chaos.points import NOT_REACHED, Outcome, Point, Successor, Theatre, table
from tests.chaos.stage import Stage, cleared

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

CLAIM_CALLS = frozenset({"journal claims", "mark claim", "allocate", "clear claim", "journal binding"})
"""Calls that only members with claims have, and what follows them."""

STANDBY_SHARE = 3
"""Of that many points one is also taken over by a standby, where not all are played: each waits for a key to expire."""

FIRST_DEATHS = {
    REPAIR.name: (
        Order(call="bind 3", fault=Fault.DIE_AFTER),
        Order(call="publish repairing 1", fault=Fault.DIE_AFTER),
    ),
    UNDO.name: (Order(call="bind 3", fault=Fault.DIE_AFTER), Order(call="delete 2", fault=Fault.DIE_AFTER)),
}
"""Where the first binder dies, by scenario, when its successor is to die too."""


@asynccontextmanager
async def opened(stage: Stage, successor: Successor, *, is_journal_late: bool = False) -> AsyncIterator[Theatre]:
    """A theatre whose binders end with the block."""
    theatre = Theatre(stage=stage, successor=successor, is_journal_late=is_journal_late)
    try:
        yield theatre
    finally:
        await theatre.close()


def chosen(calls: dict[str, list[str]], successor: Successor, *, seed: int) -> list[Point]:
    """Return the points to play: all, or each call with one fault, and some with a standby, rotated by the seed."""
    found: list[Point] = []
    for scenario in SCENARIOS:
        for number, call in enumerate(_of_interest(scenario, calls[scenario.name], successor)):
            faults: tuple[Fault, ...] = STRIKES
            turn = number + seed
            if successor is Successor.RESTARTED and not extent.is_all():
                faults = (STRIKES[turn % len(STRIKES)],)
            elif not extent.is_all():
                faults = () if turn % STANDBY_SHARE else (STRIKES[turn // STANDBY_SHARE % len(STRIKES)],)
            found += [Point(scenario=scenario, call=call, fault=one, successor=successor) for one in faults]
    return found


def _of_interest(scenario: Scenario, calls: list[str], successor: Successor) -> list[str]:
    """Return the calls of a scenario to play: of one with claims, unless all are played, those that the others lack."""
    if not scenario.has_claims or extent.is_all():
        return calls
    is_restarted = successor is Successor.RESTARTED
    return [one for one in calls if is_restarted and one.rpartition(" ")[0] in CLAIM_CALLS]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("successor", list(Successor), ids=lambda one: one.value)
async def test_whole_or_nothing_wherever_it_dies(stage: Stage, successor: Successor) -> None:
    """Every call of both ports, struck by every fault."""
    seed = extent.seed()
    async with opened(stage, successor) as theatre:
        bystanders = await theatre.settle_bystanders()
        before = stage.checker.versions(bystanders.namespace)
        calls = {scenario.name: await theatre.calls(scenario) for scenario in SCENARIOS}
        outcomes = [await theatre.play(point) for point in chosen(calls, successor, seed=seed)]
        assert stage.checker.versions(bystanders.namespace) == before, "a gang that nobody asked for was touched"
        await cleared(bystanders)
    judge(outcomes, title=f"killed at every step, seed {seed}")


@pytest.mark.timeout(3600)
async def test_whole_or_nothing_where_the_successor_dies_too(stage: Stage) -> None:
    """Killed in the middle, and then every call of the successor is struck: it has calls that nobody else makes."""
    seed = extent.seed()
    outcomes: list[Outcome] = []
    async with opened(stage, Successor.RESTARTED) as theatre:
        for scenario in (REPAIR, UNDO):
            given = FIRST_DEATHS[scenario.name]
            for first in given if extent.is_all() else (given[seed % len(given)],):
                for number, call in enumerate(await theatre.calls(scenario, first=first)):
                    for fault in STRIKES if extent.is_all() else (STRIKES[(number + seed) % len(STRIKES)],):
                        point = Point(
                            scenario=scenario, call=call, fault=fault, successor=Successor.RESTARTED, first=first
                        )
                        outcomes.append(await theatre.play(point))
    judge(outcomes, title=f"the successor is killed too, seed {seed}")


def judge(outcomes: Sequence[Outcome], *, title: str) -> None:
    """Show all, with the history of those that are wrong; there must be none."""
    extent.show(table(outcomes, title=title))
    wrong = [one for one in outcomes if one.problems]
    for one in wrong:
        extent.show("\n".join([f"{one.point}", *one.problems, *one.history]))
    assert not wrong, f"{title}: {len(wrong)} of {len(outcomes)} points: {wrong[0].point}: {wrong[0].problems}"
    missed = [one for one in outcomes if one.ending == NOT_REACHED]
    assert len(missed) * 4 < len(outcomes), f"{len(missed)} of {len(outcomes)} points were not reached"


@pytest.mark.timeout(600)
async def test_a_binding_that_lands_late_changes_nothing(stage: Stage) -> None:
    """Killed with a binding on its way, which the proxy holds until the successor has taken the gang back."""
    async with opened(stage, Successor.RESTARTED) as theatre:
        outcomes = [await theatre.play_late(UNDO, number=number) for number in range(1, UNDO.size + 1)]
    extent.show(table(outcomes, title="killed with a binding on its way"))
    assert [one.problems for one in outcomes if one.problems] == []


@pytest.mark.timeout(600)
async def test_a_journal_written_after_the_bindings_is_found_out(stage: Stage) -> None:
    """The rule that is tested above matters: broken, it leaves a gang in part, and the judge says so."""
    async with opened(stage, Successor.RESTARTED, is_journal_late=True) as theatre:
        for number in itertools.count(1):
            outcome = await theatre.play_late(UNDO, number=number)
            if any("at rest" in problem for problem in outcome.problems):
                extent.show(table([outcome], title="the same with the journal written too late, as it must not be"))
                return
            assert number < UNDO.size, "no held binding showed that the journal is late"
