"""`phalanx taint` on a real control plane: its eviction controller does what a dry run says, pod for pod."""

import asyncio
import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from services.cli.main import main
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import MERGE, Connection, Target, connected
from tests.kubernetes.fixtures import require_binaries

pytestmark = pytest.mark.kubernetes

DRIVER, POOL = "gpu.example.com", "n1"
PODS, CLAIMS = "/api/v1/namespaces/default/pods", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
Tolerations = list[dict[str, Any]]
TOLERATIONS: dict[str, Tolerations] = {
    "evicted": [],
    "evicted-later": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}],
    "tolerant": [{"operator": "Exists", "effect": "NoExecute"}],
    # Tolerates every effect, as it seems; evictions heed only what names theirs.
    "evicted-all-the-same": [{"operator": "Exists"}],
}
"""What each pod's claim tolerates."""
UNTOUCHED = "of-another-device"


async def _taint(cluster: Cluster, *arguments: str) -> Result:
    """Run the command on a thread, as a process of its own would."""
    command = ["taint", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    runner = CliRunner(env={"COLUMNS": "200", "PHALANX_CONFIG": None})
    return await asyncio.to_thread(runner.invoke, main, command)


async def _create_user(
    api: Connection, name: str, *, pool: str, device: str, tolerations: list[dict[str, Any]]
) -> None:
    """A pod on a node, and a claim that holds a device for it."""
    containers = [{"name": "c", "image": "example/train"}]
    spec = {"nodeName": "n1", "containers": containers, "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
    pod = await api.request(
        "POST", PODS, body={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    )
    exactly = {"deviceClassName": "gpu", "tolerations": tolerations}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    await api.request("POST", CLAIMS, body=claim)
    result = {"driver": DRIVER, "pool": pool, "device": device, "request": "gpu", "tolerations": tolerations}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
    }
    await api.request("PATCH", f"{CLAIMS}/{name}/status", body={"status": status}, content_type=MERGE)


async def _publish(api: Connection, *, pool: str, devices: list[str]) -> None:
    spec = {
        "driver": DRIVER,
        "nodeName": "n1",
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": one} for one in devices],
    }
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": pool}, "spec": spec}
    await api.request("POST", "/apis/resource.k8s.io/v1/resourceslices", body=body)


async def test_what_a_dry_run_says_is_what_the_controller_does() -> None:
    """Rules are refused or written as the server judges; exactly the pods that were named are deleted."""
    require_binaries()
    async with (
        Cluster(ClusterConfig()) as cluster,
        connected(Target.from_kubeconfig(cluster.kubeconfig)) as api,
    ):
        await api.request(
            "POST", "/api/v1/nodes", body={"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        )
        await _publish(api, pool=POOL, devices=list(TOLERATIONS))
        await _publish(api, pool="other", devices=["gpu"])
        for name, tolerations in TOLERATIONS.items():
            await _create_user(api, name, pool=POOL, device=name, tolerations=tolerations)
        await _create_user(api, UNTOUCHED, pool="other", device="gpu", tolerations=[])
        await _refused(cluster)
        given = ("add", DRIVER, "--pool", POOL, "--effect", "NoExecute")
        found = json.loads((await _taint(cluster, *given, "--dry-run", "-o", "json")).stdout)
        at_once = {one["name"] for one in found["podsDeleted"] if not one["afterSeconds"]}
        later = {one["name"] for one in found["podsDeleted"]} - at_once
        assert (at_once, later, found["podsTolerating"]) == ({"evicted", "evicted-all-the-same"}, {"evicted-later"}, 1)
        written = await _taint(cluster, *given, "--yes", "--name", "maintenance")
        assert written.exit_code == 0, written.output

        async def is_over() -> bool:
            return await _going(api) >= at_once

        await eventually(is_over, what="the pods are deleted", timeout_s=60)
        # The others' turn would have come: the controller judges a rule for all claims at once.
        assert await _going(api) == at_once
        listed = json.loads((await _taint(cluster, "list", "-o", "json")).stdout)
        assert [(one["name"], one["claims"]) for one in listed] == [("maintenance", len(TOLERATIONS))]
        assert (await _taint(cluster, "remove", "maintenance")).exit_code == 0


async def _refused(cluster: Cluster) -> None:
    """What the API server does not accept is not done, in its own words."""
    result = await _taint(cluster, "add", DRIVER, "--key", "not a key")
    assert result.exit_code == 1
    assert "spec.taint.key" in result.output


async def _going(api: Connection) -> set[str]:
    """Return the pods that are deleted, or are being."""
    pods = (await api.request("GET", PODS))["items"]
    here = {one["metadata"]["name"] for one in pods if "deletionTimestamp" not in one["metadata"]}
    return {*TOLERATIONS, UNTOUCHED} - here
