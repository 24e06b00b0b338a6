"""The bus or the API server goes away in the middle: services say so, lose nothing, and go on by themselves."""

import pytest

from services.core.objects import GangId
from services.sandbox.faults import Action, Answer, Match
from tests.builders import pod_group_manifest
from tests.e2e.api import Api
from tests.e2e.gangs import binding_counts, bound, committed, gang_id, member, submit
from tests.e2e.rest import watched
from tests.e2e.system import System
from tests.e2e.waiting import eventually, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SIZE = 16


async def _says(system: System, *services: str, word: str) -> None:
    """Wait until each service is not ready and names what it misses."""
    for service in services:

        async def is_told(name: str = service) -> bool:
            is_ready, text = await system.readyz(name)
            return not is_ready and any(line.startswith("NOT") and word in line for line in text.splitlines())

        await eventually(is_told, what=f"{service} says that {word} is missing")


async def _is_ready_again(system: System) -> None:
    for service in system.services.processes:

        async def is_ready(name: str = service) -> bool:
            return (await system.readyz(name))[0]

        await eventually(is_ready, what=f"{service} is ready again")


async def _is_placed(system: System, *gangs: GangId) -> None:
    for gang in gangs:
        await committed(system, gang, timeout_s=60)
    await system.quiet(timeout_s=60)
    for gang in gangs:
        assert len(bound(system.apiserver, gang)) == SIZE


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
async def test_nats_goes_and_comes_back(system: System, api: Api, *, is_killed: bool) -> None:
    """With the bus gone between two gangs, both are placed once it is back, and no decision is lost."""
    before = gang_id(api, "before")
    await submit(api, "before", size=SIZE)
    await committed(system, before)
    seen = len(system.recorder.seen)

    await (system.nats.kill() if is_killed else system.nats.stop())
    await _says(system, "watcher", "placer", "binder", word="nats")
    await submit(api, "during", size=SIZE)
    await system.nats.start()
    await _is_ready_again(system)
    await _is_placed(system, before, gang_id(api, "during"))
    assert len(system.recorder.seen) > seen
    assert set(binding_counts(system.apiserver, api.namespace).values()) == {1}


async def test_nats_goes_in_the_middle_of_a_burst(system: System, api: Api) -> None:
    """Bindings that are under way when the bus goes are finished, and the commit is said when it is back."""
    held = system.apiserver.faults.add(
        Match(method="POST", path=f"/{api.namespace}/pods/g-[0-9]+/binding$"),
        Action(hold=True, when="after"),
        nth=4,
        times=3,
    )
    gang = gang_id(api, "g")
    await submit(api, "g", size=SIZE)
    await until(lambda: held.held_count, what="the burst has begun")
    await system.nats.stop()
    held.release()
    await until(lambda: len(bound(system.apiserver, gang)) == SIZE, what="the members are bound without the bus")
    await system.nats.start()
    await _is_placed(system, gang)
    assert [len(endings) for endings in system.recorder.endings().values()].count(0) == 0
    assert set(binding_counts(system.apiserver, api.namespace).values()) == {1}


async def test_the_api_server_vanishes_and_comes_back(system: System, api: Api) -> None:
    """What is submitted while we cannot see it is placed once we can."""
    await system.apiserver.vanish()
    await _says(system, "watcher", word="watch")
    await _says(system, "binder", word="kubernetes")
    assert (await system.readyz("placer"))[0], "the placer needs no API server"
    writer = system.apiserver.cluster.writer
    for manifest in (
        pod_group_manifest("g", min_count=SIZE, namespace=api.namespace),
        *(member(api, "g", index) for index in range(SIZE)),
    ):
        kind = system.apiserver.store.kind(
            "podgroups" if manifest["kind"] == "PodGroup" else "pods",
            group="scheduling.k8s.io" if manifest["kind"] == "PodGroup" else "",
        )
        writer.create(kind, manifest, namespace=api.namespace)
    await system.apiserver.listen()
    await _is_ready_again(system)
    await _is_placed(system, gang_id(api, "g"))


async def test_the_api_server_vanishes_in_the_middle_of_a_burst(system: System, api: Api) -> None:
    """Answers that were lost are asked for again: every member is bound once, and one ending is said."""
    held = system.apiserver.faults.add(
        Match(method="POST", path=f"/{api.namespace}/pods/g-[0-9]+/binding$"),
        Action(hold=True, when="after"),
        nth=4,
        times=5,
    )
    gang = gang_id(api, "g")
    async with watched(system) as watch:
        watch.needed[gang] = SIZE
        await submit(api, "g", size=SIZE)
        await until(lambda: held.held_count, what="the burst has begun")
        await system.apiserver.vanish()
        held.release()
        await _says(system, "binder", word="kubernetes")
        await system.apiserver.listen()
        await _is_placed(system, gang)
    assert set(binding_counts(system.apiserver, api.namespace).values()) == {1}


async def test_an_api_server_that_refuses_everything_is_waited_for(system: System, api: Api) -> None:
    """A server that answers 503 is as good as none, and no reason to give up."""
    refusal = system.apiserver.faults.add(
        Match(), Action(answer=Answer(code=503, reason="ServiceUnavailable", message="etcd is away")), times=None
    )
    system.apiserver.watches.break_open()
    await _says(system, "watcher", word="watch")
    system.apiserver.faults.remove(refusal.id)
    await _is_ready_again(system)
    gang = gang_id(api, "g")
    await submit(api, "g", size=SIZE)
    await _is_placed(system, gang)
