"""A service is killed in the middle of a transaction: the end is the same, and nothing happens twice."""

import pytest

from services.core.decisions import Committed, Proposed
from services.sandbox.faults import Action, Match
from tests.e2e.api import Api
from tests.e2e.gangs import binding_counts, bound, committed, gang_id, submit
from tests.e2e.rest import watched
from tests.e2e.system import System
from tests.e2e.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 32
LOST = 4
"""Bindings that are stored and never answered, so that the kill falls into the middle of the burst."""


@pytest.mark.parametrize("service", ["watcher", "placer", "binder"])
async def test_a_kill_in_the_middle_changes_nothing_at_the_end(service: str, system: System, api: Api) -> None:
    """Killed between proposal and commit, each service takes up its work again; a second gang comes meanwhile."""
    process = system.services.processes[service]
    held = system.apiserver.faults.add(
        Match(method="POST", path=f"/{api.namespace}/pods/first-[0-9]+/binding$"),
        Action(hold=True, when="after"),
        nth=10,
        times=LOST,
    )
    async with watched(system) as watch:
        first, second = gang_id(api, "first"), gang_id(api, "second")
        watch.needed.update({first: SIZE, second: SIZE})
        await submit(api, "first", size=SIZE)
        await until(lambda: system.recorder.proposals(first), what="the first gang is proposed")
        await until(lambda: held.held_count, what="the burst of bindings has begun")
        process.kill()
        await submit(api, "second", size=SIZE)
        held.release()
        await system.services.restart(service)

        await committed(system, first)
        await committed(system, second)
        await system.quiet()
        for gang in (first, second):
            assert len(bound(system.apiserver, gang)) == SIZE
    counts = binding_counts(system.apiserver, api.namespace)
    assert len(counts) == 2 * SIZE
    assert set(counts.values()) == {1}
    ours = {one.decision.transaction for one in system.recorder.seen if one.decision.gang in {first, second}} - {""}
    endings = {transaction: found for transaction, found in system.recorder.endings().items() if transaction in ours}
    assert all(len(found) == 1 for found in endings.values()), endings
    assert [len(found) for gang in (first, second) if (found := _committed(system, gang))] == [1, 1]


def _committed(system: System, gang: str) -> list[Committed]:
    return [one.event for one in system.recorder.seen if one.decision.gang == gang and isinstance(one.event, Committed)]


async def test_a_killed_placer_promises_nothing_twice(system: System, api: Api) -> None:
    """While a gang's bindings hang, its promises outlive the placer: a gang that fits only without them waits."""
    held = system.apiserver.faults.add(
        Match(method="POST", path=f"/{api.namespace}/pods/first-[0-9]+/binding$"), Action(hold=True), times=None
    )
    first, second = gang_id(api, "first"), gang_id(api, "second")
    await submit(api, "first", size=SIZE)
    await until(lambda: held.held_count, what="bindings hang")
    system.services.processes["placer"].kill()
    await submit(api, "second", size=SIZE + 1)
    await system.services.restart("placer")
    await until(lambda: system.recorder.last(second), what="the new placer has an answer for the second gang")
    assert not system.recorder.proposals(second)
    held.release()
    await committed(system, first)
    await system.quiet()
    assert len(bound(system.apiserver, first)) == SIZE
    events = [type(one.event) for one in system.recorder.of(first)]
    # Its pods come one by one, so it may have been told before that some are missing.
    assert events[events.index(Proposed) :] == [Proposed, Committed]
