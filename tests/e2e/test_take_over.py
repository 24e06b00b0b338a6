"""Two placers and two binders: where the leader goes, the standby carries on, and nothing happens twice."""

import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from services.cli.processes import LocalProcess
from services.core.decisions import Committed, Proposed
from services.core.objects import GangId
from services.runtime.election import Terms
from services.sandbox.faults import Action, Fault, Match
from tests.builders import namespace_manifest
from tests.e2e.api import Api
from tests.e2e.conftest import NODES
from tests.e2e.gangs import binding_counts, bound, committed, gang_id, oversubscribed, submit
from tests.e2e.rest import watched
from tests.e2e.system import System, running_system
from tests.e2e.waiting import eventually, until

SIZE = 32
HELD = 4
"""Bindings that are stored and not answered, so that the leader goes in the middle of the burst."""
SERVICES = ("placer", "binder")
KILLED_GOAL_S, ASKED_GOAL_S = 10.0, 2.0
TERMS = Terms()


@asynccontextmanager
async def doubled(folder: Path) -> AsyncIterator[tuple[System, dict[str, LocalProcess], Api]]:
    """A system whose placer and binder lead, and a standby of each, by the service's name."""
    environment = {"PHALANX_LEADER_ELECTION": "true"}
    async with running_system(folder, settings=NODES, environment=environment) as system, AsyncExitStack() as stack:
        standbys: dict[str, LocalProcess] = {}
        for service in SERVICES:
            first = system.services.processes[service]
            await leads(first)
            standbys[service] = LocalProcess(
                name=f"{service}-standby",
                module=f"services.{service}",
                folder=folder,
                environment=dict(first.environment) | {"PHALANX_INSTANCE": f"{service}-standby"},
            )
            standbys[service].start()
            stack.push_async_callback(standbys[service].stop)
        for standby in standbys.values():
            await standby.wait_ready()
            assert not await is_leading(standby)
        api = system.api("team-a")
        await api.create(namespace_manifest(api.namespace))
        yield system, standbys, api
        for process in (*system.services.processes.values(), *standbys.values()):
            sys.stdout.write(f"--- {process.name}\n{process.tail()}\n")


async def is_leading(process: LocalProcess) -> bool:
    """What the metric says."""
    async with aiohttp.ClientSession() as session, session.get(f"{process.http_url}/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
    return any(sample.value == 1 for one in families for sample in one.samples if sample.name == "phalanx_leader")


async def leads(process: LocalProcess) -> None:
    """Wait until a process leads."""

    async def probe() -> bool:
        return await is_leading(process)

    await eventually(probe, what=f"{process.name} leads")


def hold_bindings(system: System) -> Fault:
    """Let some bindings of the first gang be stored without an answer."""
    return system.apiserver.faults.add(
        Match(method="POST", path="/team-a/pods/first-[0-9]+/binding$"),
        Action(hold=True, when="after"),
        nth=10,
        times=HELD,
    )


def judge(system: System, api: Api, *gangs: GangId) -> None:
    """Everything is bound once, and each transaction has ended once."""
    for gang in gangs:
        assert len(bound(system.apiserver, gang)) == SIZE
        events = [type(one.event) for one in system.recorder.of(gang)]
        assert events.count(Committed) == 1, events
        assert events.count(Proposed) == 1, events
    assert set(binding_counts(system.apiserver, api.namespace).values()) == {1}
    assert all(len(found) == 1 for found in system.recorder.endings().values())
    assert not oversubscribed(system.apiserver)


def epochs(system: System, gang: GangId, kind: type) -> list[int]:
    """Epochs of a gang's decisions of one kind."""
    return [one.decision.epoch for one in system.recorder.of(gang) if isinstance(one.event, kind)]


@pytest.mark.parametrize("service", SERVICES)
async def test_a_killed_leader_is_followed_by_its_standby(service: str, tmp_path: Path) -> None:
    """Killed in the middle of a burst: the open gang and a new one are bound, within the time of a fail-over."""
    async with doubled(tmp_path) as (system, standbys, api):
        held = hold_bindings(system)
        first, second = gang_id(api, "first"), gang_id(api, "second")
        async with watched(system) as watch:
            watch.needed.update({first: SIZE, second: SIZE})
            await submit(api, "first", size=SIZE)
            await until(lambda: held.held_count, what="the burst of bindings has begun")
            system.services.processes[service].kill()
            killed = time.monotonic()
            held.release()
            await submit(api, "second", size=SIZE)
            await committed(system, first)
            await committed(system, second)
            took_s = time.monotonic() - killed
            await leads(standbys[service])
        sys.stdout.write(f"{service}: killed, followed after {took_s:.2f} s (goal {KILLED_GOAL_S:g} s)\n")
        judge(system, api, first, second)
        proposed, ended = epochs(system, second, Proposed), epochs(system, second, Committed)
        before = epochs(system, first, Proposed)
        assert (proposed > before) == (service == "placer")
        assert ended > [0]


@pytest.mark.parametrize("service", SERVICES)
async def test_a_leader_that_is_asked_to_end_hands_over(service: str, tmp_path: Path) -> None:
    """It comes to definite answers and releases its key: the standby need not wait until that expires."""
    async with doubled(tmp_path) as (system, standbys, api):
        held = hold_bindings(system)
        first, second = gang_id(api, "first"), gang_id(api, "second")
        async with watched(system) as watch:
            watch.needed.update({first: SIZE, second: SIZE})
            await submit(api, "first", size=SIZE)
            await until(lambda: held.held_count, what="the burst of bindings has begun")
            pid = system.services.processes[service].pid
            assert pid is not None
            os.kill(pid, signal.SIGTERM)
            asked = time.monotonic()
            held.release()
            await leads(standbys[service])
            took_s = time.monotonic() - asked
            await submit(api, "second", size=SIZE)
            await committed(system, first)
            await committed(system, second)
        sys.stdout.write(f"{service}: asked to end, followed after {took_s:.2f} s (goal {ASKED_GOAL_S:g} s)\n")
        judge(system, api, first, second)
        # Sooner than the key could have expired: it was released.
        assert took_s < TERMS.ttl_s - TERMS.renew_every_s


async def test_a_paused_binder_writes_nothing_when_it_goes_on(tmp_path: Path) -> None:
    """Paused in the middle of a burst until another has finished it: each pod is bound once, and one end is written."""
    async with doubled(tmp_path) as (system, standbys, api):
        held = hold_bindings(system)
        first, second = gang_id(api, "first"), gang_id(api, "second")
        await submit(api, "first", size=SIZE)
        await until(lambda: held.held_count, what="the burst of bindings has begun")
        paused = system.services.processes["binder"]
        paused.pause(is_paused=True)
        held.release()
        await committed(system, first)
        await leads(standbys["binder"])
        paused.pause(is_paused=False)

        async def has_stood_down() -> bool:
            return not await is_leading(paused)

        await eventually(has_stood_down, what="the paused binder stands by")
        await submit(api, "second", size=SIZE)
        await committed(system, second)
        judge(system, api, first, second)
