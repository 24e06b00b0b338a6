"""Kubelets in the sandbox: starting, refusing and stopping pods."""

from services.sandbox import table
from services.sandbox.controllers.orphans import QUARANTINE_S
from services.sandbox.objects import condition_status, is_deleting, status
from tests.unit.sandbox.world import pod, world


async def test_bound_pod_runs_and_is_ready() -> None:
    """A pod bound to an existing node runs at once; an unbound one does not."""
    async with world() as here:
        here.create(table.POD, pod("bound"))
        here.bind(here.pods())
        here.create(table.POD, pod("waiting"))
        await here.settle()
        bound, waiting = here.found(table.POD, "bound"), here.found(table.POD, "waiting")
    assert status(bound)["phase"] == "Running"
    assert condition_status(bound, "Ready") == "True"
    assert status(waiting)["phase"] == "Pending"


async def test_pod_on_unknown_node_waits_for_it() -> None:
    """A pod bound to a node that does not exist starts when the node comes."""
    async with world() as here:
        here.create(table.POD, pod())
        here.bind(here.pods(), node="late")
        await here.settle()
        assert here.phases() == ["Pending"]
        here.cluster.add_node("late")
        await here.settle()
        assert here.phases() == ["Running"]


async def test_pod_without_room_is_refused() -> None:
    """A kubelet refuses what its node has no room for, and takes it once others have finished."""
    async with world() as here:
        for name in ("first", "second"):
            here.create(table.POD, pod(name, gpus=8))
            here.bind(here.pods())
            await here.settle()
        refused = here.found(table.POD, "second")
        here.delete(table.POD, "first", grace_s=0)
        here.create(table.POD, pod("third", gpus=8))
        here.bind(here.active_pods())
        await here.settle()
        third = here.found(table.POD, "third")
    assert status(refused)["phase"] == "Failed"
    assert status(refused)["reason"] == "OutOfnvidia.com/gpu"
    assert "containerStatuses" not in status(refused)
    assert status(third)["phase"] == "Running"


async def test_rejection_by_annotation() -> None:
    """A pod can ask to be rejected, for tests of what schedulers do then."""
    async with world() as here:
        here.create(table.POD, pod(annotations={"sandbox.phalanx.dev/reject": "NodeAffinity"}))
        here.bind(here.pods())
        await here.settle()
        refused = here.found(table.POD, "p")
    assert (status(refused)["phase"], status(refused)["reason"]) == ("Failed", "NodeAffinity")


async def test_deletion_takes_as_long_as_containers_take_to_stop() -> None:
    """A deleted pod stays, terminating, until its containers have stopped; then it is gone."""
    async with world() as here:
        here.create(table.POD, pod(annotations={"sandbox.phalanx.dev/stop-seconds": "10"}))
        here.bind(here.pods())
        await here.settle()
        here.delete(table.POD, "p")
        await here.run_for(9)
        assert is_deleting(here.found(table.POD, "p"))
        await here.run_for(2)
        assert here.get(table.POD, "p") is None


async def test_deletion_takes_no_longer_than_the_grace_period() -> None:
    """Containers that do not stop are killed when the grace period ends."""
    async with world() as here:
        here.create(table.POD, pod(annotations={"sandbox.phalanx.dev/stop-seconds": "1000"}))
        here.bind(here.pods())
        await here.settle()
        here.delete(table.POD, "p", grace_s=5)
        await here.run_for(6)
        assert here.get(table.POD, "p") is None


async def test_start_can_take_time() -> None:
    """A pod stays Pending on its node for as long as it says that its start takes."""
    async with world() as here:
        here.create(table.POD, pod(annotations={"sandbox.phalanx.dev/start-seconds": "4"}))
        here.bind(here.pods())
        await here.run_for(3)
        assert here.phases() == ["Pending"]
        await here.run_for(2)
        assert here.phases() == ["Running"]


async def test_pods_of_a_lost_node_are_collected() -> None:
    """When a node object has been gone for a while, its pods fail and are removed; others stay."""
    async with world() as here:
        here.create(table.POD, pod("lost"))
        here.bind(here.pods(), node="node-001")
        here.create(table.POD, pod("kept"))
        here.bind(here.pods(), node="node-002")
        await here.settle()
        stored = here.cluster.writer.require(table.NODE, namespace="", name="node-001")
        here.cluster.remover.force(stored)
        await here.run_for(QUARANTINE_S - 1)
        assert here.get(table.POD, "lost") is not None
        await here.run_for(2)
        assert here.get(table.POD, "lost") is None
        assert here.get(table.POD, "kept") is not None
