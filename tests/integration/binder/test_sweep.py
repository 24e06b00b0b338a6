"""The sweep on the sandbox and a real NATS server: what nothing explains is completed, or taken back whole."""

from typing import TYPE_CHECKING

import pytest

from services.contracts.streams import PLACEMENT_STREAM, TRANSACTIONS_STREAM
from services.core.decisions import Committed, Proposed, Repairing, RolledBack
from services.core.objects import GangId
from services.sandbox.faults import Action, Answer, Match
from tests.integration.binder.claims_stage import claims, device_gang, is_free, own_claims
from tests.integration.binder.harness import Binder, Scene
from tests.integration.binder.test_faults import ready

if TYPE_CHECKING:
    from services.core.objects import TransactionId

SWEEP_S = 0.2
BURST = 4
"""Members of the gang; two of them are bound when everything else is lost."""


async def lost_in_the_burst(scene: Scene, *, window: str = "30s") -> tuple[GangId, list[str]]:
    """A gang of a Job of which half is bound, a binder that died, and a NATS volume that is gone."""
    gang = scene.gang("train", size=BURST, min_count=None, **{"phalanx.dev/repair-window": window})
    scene.job("train", size=BURST)
    names = [pod["metadata"]["name"] for pod in await scene.members(BURST)]
    binder = await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/binding$"), Action(hold=True), nth=4, times=None)
    await scene.propose(gang, dict.fromkeys(names, "node-001"))
    await hold.wait_used()
    await scene.until(lambda: len(scene.bound()) == 2)
    await binder.kill()
    scene.sandbox.faults.clear()
    await lose(scene)
    return gang, names


async def lose(scene: Scene) -> None:
    """Delete what is not written anew by the watcher."""
    for stream in (PLACEMENT_STREAM, TRANSACTIONS_STREAM):
        await scene.bus._jetstream.delete_stream(stream.name)
    scene.decisions.clear()


async def swept(scene: Scene, binder: Binder, *, times: int) -> None:
    """Wait for so many comparisons that found nothing."""
    await scene.until(lambda: binder.count("phalanx_sweeps_total", result="clean") >= times)


async def test_half_a_gang_of_a_lost_volume_is_completed(scene: Scene) -> None:
    """The transaction is opened again under its own name, repaired, and ends once."""
    gang, names = await lost_in_the_burst(scene)
    bound = scene.bound()
    binder = await scene.start_binder(sweep_interval_s=SWEEP_S)
    reopened = await scene.decision(Proposed)
    assert reopened.is_reopened
    assert {one.pod: one.node for one in reopened.assignments} == bound
    repairing = await scene.decision(Repairing)
    assert {one.pod for one in repairing.bound} == set(bound)
    await scene.answer(repairing, gang=gang, nodes={name: "node-002" for name in names if name not in bound})
    committed = await scene.decision(Committed)
    assert {one.pod for one in committed.members} == set(names)
    assert set(scene.bound()) == set(names)
    assert len(scene.endings()) == 1
    assert binder.count("phalanx_sweep_reopened_transactions_total") == 1
    await swept(scene, binder, times=2)
    assert len([one for one in scene.decisions if isinstance(one.event, Proposed)]) == 2


async def test_half_a_gang_that_cannot_be_completed_is_taken_back_whole(scene: Scene) -> None:
    """Nobody answers within the window: this state is our doing, and is not kept."""
    gang, names = await lost_in_the_burst(scene, window="500ms")
    bound = set(scene.bound())
    binder = await scene.start_binder(sweep_interval_s=SWEEP_S)
    event = await scene.decision(RolledBack)
    assert {one.pod for one in event.undone} == bound
    await scene.members(BURST)
    assert scene.bound() == {}
    assert gang in {one.gang for one in scene.endings()}
    assert not bound & {pod["metadata"]["name"] for pod in await scene.members(BURST)}
    await swept(scene, binder, times=1)
    assert names


async def test_a_stream_lost_under_a_running_burst_heals_without_a_restart(scene: Scene) -> None:
    """The transaction is given up in the middle, found, and gone on with from its journal entry."""
    gang = scene.gang("train", size=BURST)
    scene.job("train", size=BURST)
    names = [pod["metadata"]["name"] for pod in await scene.members(BURST)]
    binder = await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(Match(method="POST", path="/binding$"), Action(hold=True), nth=4, times=None)
    transaction: TransactionId = await scene.propose(gang, dict.fromkeys(names, "node-001"))
    await hold.wait_used()
    await scene.until(lambda: len(scene.bound()) == 2)
    await scene.bus._jetstream.delete_stream(PLACEMENT_STREAM.name)
    scene.decisions.clear()
    reopened = await scene.decision(Proposed)
    assert reopened.is_reopened
    scene.sandbox.faults.clear()
    await scene.decision(Committed)
    assert set(scene.bound()) == set(names)
    assert len(scene.endings(transaction)) == 1
    assert binder.count("phalanx_transactions_taken_up_total", source="journal") == 1


@pytest.mark.parametrize("is_known", [True, False], ids=["by the stream", "by the group alone"])
async def test_a_committed_gang_is_the_placers_affair(scene: Scene, *, is_known: bool) -> None:
    """Whatever took its members since: the sweep leaves it alone, also where the stream is lost."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    binder = await ready(scene, await scene.start_binder(sweep_interval_s=SWEEP_S))
    await scene.propose(gang, dict.fromkeys(("train-0", "train-1"), "node-001"))
    await scene.decision(Committed)
    await scene.until(lambda: scene.conditions("train").get("PodGroupInitiallyScheduled", ("",))[0] == "True")
    if not is_known:
        await lose(scene)
    cluster = scene.sandbox.cluster
    lost = cluster.store.get(cluster.store.kind("pods"), namespace="team-a", name="train-0")
    assert lost is not None
    cluster.remover.force(lost)
    await scene.settled()
    before = binder.count("phalanx_sweeps_total", result="clean")
    await swept(scene, binder, times=int(before) + 3)
    assert not [one for one in scene.decisions if isinstance(one.event, Proposed) and one.event.is_reopened]
    assert list(scene.bound()) == ["train-1"]


async def test_a_sweep_that_gets_no_answer_is_repeated(scene: Scene) -> None:
    """The API server refuses the list for a while; what there is to find is found afterwards."""
    await lost_in_the_burst(scene)
    fault = scene.sandbox.faults.add(
        Match(method="GET", path="^/api/v1/pods$"),
        Action(answer=Answer(code=500, reason="InternalError", message="no")),
        times=None,
    )
    binder = await scene.start_binder(sweep_interval_s=SWEEP_S)
    await scene.until(lambda: binder.count("phalanx_sweeps_total", result="unanswered") >= 1)
    scene.sandbox.faults.remove(fault.id)
    assert (await scene.decision(Proposed)).is_reopened


async def test_claims_of_a_lost_volume_are_freed_while_nobody_uses_them(scene: Scene) -> None:
    """Killed between claims and bindings, and everything forgotten: the devices are free again."""
    gang, names = device_gang(scene, "train", size=3)
    binder = await ready(scene, await scene.start_binder())
    hold = scene.sandbox.faults.add(
        Match(method="POST", path="/binding$", lacks="dryRun"), Action(hold=True), times=None
    )
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes))
    await hold.wait_used()
    await binder.kill()
    scene.sandbox.faults.clear()
    await lose(scene)
    assert all(not is_free(one) for one in claims(scene))
    binder = await scene.start_binder(sweep_interval_s=SWEEP_S)
    await scene.until(lambda: all(is_free(one) for one in claims(scene)))
    assert binder.count("phalanx_claims_healed_total") == len(names)
    assert scene.bound() == {}


async def test_claims_of_pods_that_run_and_of_open_transactions_are_left(scene: Scene) -> None:
    """One gang runs and its transaction is forgotten; another one's devices are still being made ready."""
    ran, names = device_gang(scene, "ran", size=2)
    binder = await ready(scene, await scene.start_binder())
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(ran, nodes, claims=own_claims(scene, nodes))
    await scene.decision(Committed)
    await binder.kill()
    await lose(scene)
    waits, later = device_gang(scene, "waits", size=2)
    slow = own_claims(
        scene,
        dict.fromkeys(later, "node-002"),
        binding_conditions=("attached",),
        binding_failure_conditions=("failed",),
    )
    binder = await ready(scene, await scene.start_binder(sweep_interval_s=SWEEP_S))
    await scene.propose(waits, dict.fromkeys(later, "node-002"), transaction="t2", claims=slow)
    await scene.until(lambda: all(one.get("status", {}).get("allocation") for one in claims(scene)))
    before = [one["metadata"]["resourceVersion"] for one in claims(scene)]
    await swept(scene, binder, times=int(binder.count("phalanx_sweeps_total", result="clean")) + 2)
    assert [one["metadata"]["resourceVersion"] for one in claims(scene)] == before
    assert binder.count("phalanx_claims_healed_total") == 0
