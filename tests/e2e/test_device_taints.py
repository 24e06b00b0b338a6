"""Devices of running and of waiting gangs are tainted: nothing is bound with one, and what is evicted is repaired.

After each test a checker that reads only the API server says whether every device has one user.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio

from services.core.decisions import Proposed
from services.core.objects import GangId, Kind
from services.sandbox.cluster import ClusterSettings
from tests import device_checker
from tests.builders import job_manifest, pod_manifest
from tests.device_manifests import (
    DRIVER,
    claim_manifest,
    class_manifest,
    slice_manifest,
    taint_rule_manifest,
    template_manifest,
    with_claim,
    with_template,
)
from tests.e2e.api import Api, Manifest
from tests.e2e.gangs import bound, committed, submit_group, submit_pods
from tests.e2e.system import System
from tests.e2e.waiting import eventually, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = ClusterSettings(nodes=2, gpus_per_node=0, run_s=3600)
FIRST, SECOND = "node-001", "node-002"
FINALIZER = "resource.kubernetes.io/delete-protection"
FOR_EVER: Manifest = {"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"}


@pytest_asyncio.fixture(loop_scope="module")
async def devices(api: Api) -> AsyncIterator[Api]:
    """Four devices on the first node and one on the second; gone at the end, with every rule."""
    for manifest in (class_manifest(), slice_manifest(FIRST, count=4), slice_manifest(SECOND, count=1)):
        await api.create(manifest)
    yield api
    for kind in ("DeviceTaintRule", "ResourceSlice", "DeviceClass"):
        for item in await api.list(kind):
            await api.delete(kind, item["metadata"]["name"])


async def publish_more(api: Api, node: str, *, count: int) -> None:
    """Let the driver of a node publish its pool anew, with so many devices."""
    wanted = slice_manifest(node, count=count)
    wanted["spec"]["pool"]["generation"] = 2
    await api.patch("ResourceSlice", wanted["metadata"]["name"], {"spec": wanted["spec"]})


async def in_use(api: Api, name: str, *, device: str, is_extended: bool = False, **result: Any) -> None:
    """A pod of another scheduler that runs on the first node with a device, perhaps by an extended resource."""
    pod = pod_manifest(name, namespace=api.namespace, gpus=0, scheduler="other", nodeName=FIRST)
    made = await api.create(pod if is_extended else with_claim(pod, name))
    claim = claim_manifest(name, namespace=api.namespace)
    claim["metadata"]["finalizers"] = [FINALIZER]
    await api.create(claim)
    used = {"request": "gpu", "driver": DRIVER, "pool": FIRST, "device": device, **result}
    consumer = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [used]}}, "reservedFor": [consumer]}
    await api.patch("ResourceClaim", name, {"status": status}, subresource="status")
    if is_extended:
        mapping = {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "gpu"}
        recorded = {"resourceClaimName": name, "requestMappings": [mapping]}
        await api.patch("Pod", name, {"status": {"extendedResourceClaimStatus": recorded}}, subresource="status")


async def names_of(api: Api) -> set[str]:
    """Return the pods that are there and not being deleted."""
    return {one["metadata"]["name"] for one in await api.list("Pod") if "deletionTimestamp" not in one["metadata"]}


async def users(api: Api) -> Mapping[tuple[str, str], str]:
    """Return claim by pool and device."""
    found = {}
    for claim in await api.list("ResourceClaim"):
        for one in device_checker.results_of(claim):
            found[one["pool"], one["device"]] = claim["metadata"]["name"]
    return found


async def judged(api: Api) -> list[str]:
    """Return what is wrong with devices, over all namespaces."""
    return device_checker.problems(
        claims=await api.list("ResourceClaim", everywhere=True),
        pods=await api.list("Pod", everywhere=True),
        slices=await api.list("ResourceSlice"),
    )


async def test_a_device_that_is_tainted_after_the_decision_is_not_bound(system: System, devices: Api) -> None:
    """Case C33: the plan is made anew; of those that run, the tolerant one stays, also the extended one goes."""
    api = devices
    await in_use(api, "run-claim", device="gpu-0")
    await in_use(api, "run-tol", device="gpu-2", tolerations=[FOR_EVER])
    await in_use(api, "run-ext", device="gpu-3", is_extended=True)
    binder = system.services.processes["binder"]
    binder.kill()
    await submit_group(api, "m", min_count=2)
    for name in ("m-0", "m-1"):
        await api.create(claim_manifest(name, namespace=api.namespace))
    pods = [pod_manifest(name, namespace=api.namespace, group="m", gpus=0) for name in ("m-0", "m-1")]
    await submit_pods(api, [with_claim(pod, pod["metadata"]["name"]) for pod in pods])
    gang = GangId(f"podgroup/{api.namespace}/m")
    await until(lambda: proposals(system, gang), what="the gang is proposed")
    planned = {(one.pool, one.device) for claim in proposals(system, gang)[0].claims for one in claim.results}
    assert planned == {(FIRST, "gpu-1"), (SECOND, "gpu-0")}

    await publish_more(api, SECOND, count=2)
    await api.create(taint_rule_manifest("c33-broken", pool=FIRST))
    await until(lambda: is_followed(system, "c33-broken"), what="the rule is in the stream")
    binder.start()
    await committed(system, gang)
    assert bound(system.apiserver, gang) == {"m-0": SECOND, "m-1": SECOND}
    assert (FIRST, "gpu-1") not in await users(api)

    async def is_evicted() -> bool:
        return await names_of(api) == {"m-0", "m-1", "run-tol"} and (FIRST, "gpu-0") not in await users(api)

    await eventually(is_evicted, what="those that do not tolerate the taint are gone, and their devices free")
    assert await judged(api) == []


def proposals(system: System, gang: GangId) -> list[Proposed]:
    """Return what was proposed for a gang."""
    return [one.event for one in system.recorder.of(gang) if isinstance(one.event, Proposed)]


def is_followed(system: System, rule: str) -> bool:
    """Tell whether the cluster stream has a taint rule."""
    return any(
        one.kind is Kind.DEVICE_TAINT_RULE and one.metadata.name == rule for one in system.recorder.objects.values()
    )


async def test_a_gang_that_loses_a_device_is_repaired_with_a_spare_one(system: System, devices: Api) -> None:
    """The pod is evicted, its successor gets another device, and its siblings keep theirs."""
    api = devices
    await api.create(template_manifest(namespace=api.namespace))
    gang = await submit_group(api, "train", min_count=3)
    job = job_manifest(
        "train", count=3, group="train", namespace=api.namespace, pod_fields={"gpus": 0}, backoffLimit=1000
    )
    job["spec"]["template"] = with_template(job["spec"]["template"])
    await api.create(job)
    await committed(system, gang)
    before = await users(api)
    pool, device = next((pool, device) for pool, device in before if pool == FIRST)
    await api.create(taint_rule_manifest("one-broken", pool=pool, device=device))

    async def is_repaired() -> bool:
        now = await users(api)
        return len(bound(system.apiserver, gang)) == 3 and len(now) == 3 and (pool, device) not in now

    await eventually(is_repaired, what="the gang has three devices again")
    kept = {place: name for place, name in before.items() if place != (pool, device)}
    assert kept.items() <= (await users(api)).items()
    assert await judged(api) == []
