"""Node taints in the sandbox: conditions and cordons become taints, NoExecute taints evict."""

import pytest

from services.sandbox import table
from services.sandbox.controllers.taints import stay_s
from services.sandbox.objects import Obj, is_deleting, spec
from tests.unit.sandbox.world import World, pod, world

_EXECUTE = {"key": "maintenance", "effect": "NoExecute"}


def _taints(here: World, name: str = "node-001") -> set[tuple[str, str]]:
    node = here.get(table.NODE, name, namespace="")
    assert node is not None
    return {(taint["key"].rpartition("/")[2], taint["effect"]) for taint in spec(node).get("taints") or ()}


def _set_ready(here: World, state: str) -> None:
    stored = here.cluster.writer.require(table.NODE, namespace="", name="node-001")
    changed = stored.full("v1")
    changed["status"]["conditions"] = [{"type": "Ready", "status": state}]
    here.cluster.writer.update(stored, changed, subresource="status")


async def test_new_node_loses_its_taint_when_it_is_ready() -> None:
    """Admission taints a new node; the node controller takes the taint away from one that is Ready."""
    async with world() as here:
        made = here.cluster.writer.create(table.NODE, here.cluster.node("late", zone="zone-1", gpus=0, labels=None)).obj
        await here.settle()
        after = _taints(here, "late")
    assert spec(made)["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert after == set()


async def test_conditions_and_cordon_become_taints() -> None:
    """Not ready, unreachable and cordoned nodes say so, and only while they are."""
    async with world() as here:
        _set_ready(here, "False")
        await here.settle()
        assert _taints(here) == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
        _set_ready(here, "Unknown")
        await here.settle()
        assert _taints(here) == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
        _set_ready(here, "True")
        stored = here.cluster.writer.require(table.NODE, namespace="", name="node-001")
        cordoned = {**stored.full("v1"), "spec": {"unschedulable": True}}
        here.cluster.writer.update(stored, cordoned)
        await here.settle()
        assert _taints(here) == {("unschedulable", "NoSchedule")}


async def test_pods_of_a_node_that_is_not_ready_leave_in_time() -> None:
    """Default tolerations keep a pod for five minutes, and for ever if the node recovers before that."""
    async with world() as here:
        here.create(table.POD, pod())
        here.bind(here.pods())
        await here.settle()
        _set_ready(here, "False")
        await here.run_for(299)
        _set_ready(here, "True")
        await here.run_for(400)
        assert here.phases() == ["Running"]
        _set_ready(here, "False")
        await here.run_for(301)
        assert here.pods() == []


async def test_dead_kubelet_confirms_nothing() -> None:
    """A pod evicted from a node whose kubelet has died stays terminating until it is forced."""
    async with world() as here:
        here.create(table.POD, pod())
        here.bind(here.pods())
        await here.settle()
        stored = here.cluster.writer.require(table.NODE, namespace="", name="node-001")
        dead = stored.full("v1")
        dead["metadata"]["annotations"] = {"sandbox.phalanx.dev/kubelet": "stopped"}
        dead["spec"] = {"taints": [_EXECUTE]}
        here.cluster.writer.update(stored, dead)
        await here.run_for(100)
        assert is_deleting(here.found(table.POD, "p"))
        here.delete(table.POD, "p", grace_s=0)
        assert here.get(table.POD, "p") is None


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([{"operator": "Exists"}], None),
        ([{"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}], 60.0),
        ([{"key": "maintenance", "operator": "Equal", "value": "x"}], 0.0),
        ([{"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"}], 0.0),
    ],
)
def test_how_long_a_pod_may_stay(tolerations: list[Obj], expected: float | None) -> None:
    """A pod stays as long as its tolerations of the NoExecute taint say."""
    assert stay_s({"spec": {"tolerations": tolerations}}, [_EXECUTE]) == expected
