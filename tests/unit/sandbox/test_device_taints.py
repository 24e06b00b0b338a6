"""Devices tainted in use: the sandbox evicts as the device taint eviction controller of Kubernetes does."""

from typing import Any

import pytest

from services.sandbox import table
from services.sandbox.objects import Obj, metadata, status
from tests.builders import NAMESPACE
from tests.unit.sandbox.world import World, pod, world

DRIVER = "gpu.example.com"
REQUEST = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}


def _kind(here: World, plural: str) -> Any:
    return here.cluster.store.kind(plural, group=table.RESOURCE)


def running_pod(here: World, name: str, *, device: str, tolerations: list[Obj] | None = None) -> None:
    """A pod on a node with a claim on one device."""
    here.create(table.RESOURCE_CLAIM, {"metadata": {"name": name}, "spec": {"devices": {"requests": [REQUEST]}}})
    here.create(table.POD, pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}]))
    owner = here.found(table.POD, name)
    stored = here.cluster.writer.require(table.RESOURCE_CLAIM, namespace=NAMESPACE, name=name)
    protected = stored.full("v1")
    protected["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    stored = here.cluster.writer.update(stored, protected)
    changed = stored.full("v1")
    result: Obj = {"request": "gpu", "driver": DRIVER, "pool": "node-001", "device": device}
    result |= {"tolerations": tolerations} if tolerations else {}
    changed["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": metadata(owner)["uid"]}],
    }
    here.cluster.writer.update(stored, changed, subresource="status")
    here.bind([owner])


def taint(here: World, *, effect: str = "NoExecute", selector: Obj | None = None) -> None:
    """A rule against devices of the driver, or against what the selector says."""
    spec = {"taint": {"key": "broken", "effect": effect}} | ({} if selector is None else {"deviceSelector": selector})
    here.cluster.writer.create(_kind(here, "devicetaintrules"), {"metadata": {"name": "rule"}, "spec": spec})


async def test_exactly_the_pods_of_tainted_devices_go_and_their_claims_are_freed() -> None:
    """One device is tainted, and the pod on the other one stays."""
    async with world() as here:
        running_pod(here, "hit", device="gpu-0")
        running_pod(here, "spared", device="gpu-1")
        await here.settle()
        taint(here, selector={"driver": DRIVER, "device": "gpu-0"})
        await here.run_for(1)
        assert [metadata(one)["name"] for one in here.pods()] == ["spared"]
        freed = here.found(table.RESOURCE_CLAIM, "hit")
        assert not status(freed).get("allocation")


@pytest.mark.parametrize(
    ("effect", "selector"),
    [("NoSchedule", {}), ("None", {}), ("NoExecute", None), ("NoExecute", {"pool": "another"})],
    ids=["NoSchedule", "None", "no selector", "another pool"],
)
async def test_other_rules_evict_nobody(effect: str, selector: Obj | None) -> None:
    """A rule without a selector selects nothing."""
    async with world() as here:
        running_pod(here, "p", device="gpu-0")
        await here.settle()
        taint(here, effect=effect, selector=selector)
        await here.run_for(1)
        assert here.phases() == ["Running"]


async def test_what_the_allocation_tolerates_stays_for_so_long() -> None:
    """For ever without seconds; the copy in the allocation counts, and an empty effect tolerates no eviction."""
    async with world() as here:
        forever: Obj = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}
        running_pod(here, "for-ever", device="gpu-0", tolerations=[forever])
        running_pod(here, "a-minute", device="gpu-1", tolerations=[forever | {"tolerationSeconds": 60}])
        running_pod(here, "not-at-all", device="gpu-2", tolerations=[{"key": "broken", "operator": "Exists"}])
        await here.settle()
        taint(here, selector={})
        await here.run_for(2)
        assert [metadata(one)["name"] for one in here.pods()] == ["a-minute", "for-ever"]
        await here.run_for(61)
        assert [metadata(one)["name"] for one in here.pods()] == ["for-ever"]
