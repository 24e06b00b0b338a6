"""Gangs that claim devices: bound whole with them, or waiting whole until a taint is lifted and devices come free."""

import pytest

from services.core.decisions import Waiting
from services.core.objects import GangId
from services.core.reasons import ReasonCode
from tests.e2e.api import Api, Manifest
from tests.e2e.gangs import bound, committed, member, submit_group, submit_pods
from tests.e2e.system import System
from tests.e2e.waiting import eventually, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRIVER = "gpu.example.com"
RESOURCE = "resource.k8s.io/v1"
EACH = 4
"""Devices of each of two nodes, of which one is tainted."""


def named(kind: str, name: str, spec: Manifest) -> Manifest:
    """Return a device object."""
    return {"apiVersion": RESOURCE, "kind": kind, "metadata": {"name": name}, "spec": spec}


async def publish(api: Api, nodes: list[str]) -> None:
    """Create a class, a template for one device, slices of the nodes, and a rule that taints one device."""
    expression = f'device.driver == "{DRIVER}"'
    await api.create(named("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": expression}}]}))
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    await api.create(named("ResourceClaimTemplate", "one", {"spec": {"devices": {"requests": requests}}}))
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{index}"} for index in range(EACH)]
        spec: Manifest = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        await api.create(named("ResourceSlice", f"{node}-gpu", spec))
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    selector = {"driver": DRIVER, "pool": nodes[0], "device": "gpu-0"}
    await api.create(named("DeviceTaintRule", "broken", {"deviceSelector": selector, "taint": taint}))


def claiming(api: Api, group: str, index: int) -> Manifest:
    """Return a member with a claim of its own."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    return member(api, group, index, gpus=0, resourceClaims=claims)


async def devices_in_use(api: Api) -> list[str]:
    """Return the devices of all allocations, as pool/device; fails where one is in two."""
    found = [
        f"{one['pool']}/{one['device']}"
        for claim in await api.list("ResourceClaim", everywhere=True)
        for one in ((claim.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
    ]
    assert len(found) == len(set(found)), f"a device is in two allocations: {sorted(found)}"
    return sorted(found)


async def test_a_gang_gets_its_devices_or_waits_for_them(system: System, api: Api) -> None:
    """Seven of eight devices serve a gang of seven; one of eight is placed when taint and first gang are gone."""
    nodes = sorted(node["metadata"]["name"] for node in await api.list("Node"))[:2]
    await publish(api, nodes)
    seven, eight = 2 * EACH - 1, 2 * EACH
    first = await submit_group(api, "first", min_count=seven)
    await submit_pods(api, [claiming(api, "first", index) for index in range(seven)])
    await committed(system, first)
    where = bound(system.apiserver, first)
    used = await devices_in_use(api)
    assert len(where) == len(used) == seven
    assert f"{nodes[0]}/gpu-0" not in used
    assert sorted(one.partition("/")[0] for one in used) == sorted(where.values())

    second = await submit_group(api, "second", min_count=eight)
    await submit_pods(api, [claiming(api, "second", index) for index in range(eight)])
    # While its pods come, it may be told that some are missing.
    await until(lambda: _lacks_devices(system, second), what="the second gang waits for devices")
    assert bound(system.apiserver, second) == {}

    for index in range(seven):
        await api.delete("Pod", f"first-{index}", grace_s=0)
    await eventually(lambda: _is_free(api), what="the claims of the first gang are gone")
    assert bound(system.apiserver, second) == {}
    await api.delete("DeviceTaintRule", "broken")
    await committed(system, second)
    assert len(bound(system.apiserver, second)) == len(await devices_in_use(api)) == eight


def _lacks_devices(system: System, gang: GangId) -> bool:
    answer = system.recorder.last(gang)
    return isinstance(answer, Waiting) and ReasonCode.DEVICES_INSUFFICIENT in {one.code for one in answer.reasons}


async def _is_free(api: Api) -> bool:
    return not await devices_in_use(api)
