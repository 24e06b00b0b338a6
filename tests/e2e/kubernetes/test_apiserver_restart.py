"""The API server is killed in the middle and started again: nothing is lost, and nothing happens twice."""

import asyncio

import pytest

from services.core.decisions import Proposed
from services.core.names import CONDITION_INITIALLY_SCHEDULED
from tests.e2e.api import Api
from tests.e2e.gangs import gang_id
from tests.e2e.kubernetes.gangs import committed, decided, oversubscribed, placed, submit_job
from tests.e2e.kubernetes.system import GPUS, System
from tests.e2e.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

IS_DENIED = True
"""A fresh API server forbids everything until it has read the roles."""

SMALL = 8


async def test_the_api_server_dies_when_bindings_begin(system: System, api: Api) -> None:
    """Killed in the moment in which a gang of 64 is proposed: the services say so, and finish when it is back."""
    gang = await submit_job(system, api, "a", size=GPUS)
    await decided(system, gang, Proposed)
    system.cluster.kill_apiserver()
    await system.says("binder", "kubernetes api")
    await system.says("watcher", "watch:pod", "waiting for the API server")
    assert (await system.readyz("placer"))[0], "the placer needs no API server"
    await system.cluster.start_apiserver()
    await _is_finished(system, api, "a", size=GPUS)


async def test_the_api_server_dies_in_the_middle_of_the_burst(system: System, api: Api) -> None:
    """Killed when some members are bound, others are on their way and the rest is not sent: every one is bound once."""
    await submit_job(system, api, "b", size=GPUS)

    def bound() -> int:
        members = system.witness.of("Pod", namespace=api.namespace, group="b").values()
        return sum(bool(versions[-1].node) for versions in members)

    await until(lambda: bound() >= SMALL, what="the burst has begun")
    system.cluster.kill_apiserver()
    await system.says("binder", "kubernetes api")
    await system.cluster.start_apiserver()
    await _is_finished(system, api, "b", size=GPUS)


async def test_two_restarts_while_gangs_come_and_go(system: System, api: Api) -> None:
    """Gangs that are submitted between restarts are all placed."""
    names = [f"c{number}" for number in range(4)]
    for number, name in enumerate(names):
        await submit_job(system, api, name, size=SMALL)
        if number % 2:
            system.cluster.kill_apiserver()
            await system.cluster.start_apiserver()
    await asyncio.gather(*(_is_finished(system, api, name, size=SMALL) for name in names))


async def _is_finished(system: System, api: Api, name: str, *, size: int) -> None:
    """The gang is committed once, whole; nobody was bound twice; the services are ready; nothing is oversubscribed."""
    await committed(system, gang_id(api, name))
    await system.is_ready_again()
    await system.at_rest(timeout_s=60)
    # A Job controller that got no answer makes a second pod of the same index, and removes one of both later.
    assert {pod.rpartition("-")[0] for pod in await placed(api, name)} == {f"{name}-{index}" for index in range(size)}
    (history,) = system.witness.of("PodGroup", namespace=api.namespace, name=name).values()
    await until(
        lambda: history[-1].condition(CONDITION_INITIALLY_SCHEDULED).get("status") == "True",
        what="the group says that it is scheduled",
    )
    endings = [ends for ends in system.recorder.endings().values() if ends]
    assert all(len(ends) == 1 for ends in endings)
    # The log of a killed server may lack its last lines, but never has a binding twice.
    for counts in system.audit.bindings(api.namespace).values():
        assert set(counts.values()) == {1}
    assert await oversubscribed(api) == {}
    job = await api.get("Job", name)
    assert not job["status"].get("failed")
