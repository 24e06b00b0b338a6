"""Clusters whose scheduling API is older, or switched off as Kubernetes ships it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.core.objects import GangId
from tests.builders import namespace_manifest, pod_manifest
from tests.e2e.api import Api
from tests.e2e.gangs import member, submit_group, submit_pods
from tests.e2e.kubernetes.gangs import committed
from tests.e2e.kubernetes.system import System, running_system
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import ClusterConfig
from tests.kubernetes.fixtures import require_binaries

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="function")]

ALPHA_ONLY = ClusterConfig(runtime_config={"scheduling.k8s.io/v1alpha3": True})
AS_SHIPPED = ClusterConfig(feature_gates={"GenericWorkload": False}, runtime_config={})
SIZE = 8


@pytest_asyncio.fixture(loop_scope="function")
async def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """A control plane of the test's own kind."""
    require_binaries()
    async with running_system(tmp_path_factory.mktemp("kubernetes"), config=request.param) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="function")
async def api(system: System) -> Api:
    """A namespace in it."""
    api = system.api("team-a")
    await api.create(namespace_manifest(api.namespace))
    return api


@pytest.mark.parametrize("system", [ALPHA_ONLY], indirect=True, ids=["v1alpha3"])
async def test_groups_of_v1alpha3_are_placed_and_told(system: System, api: Api) -> None:
    """Where only v1alpha3 is served, gangs are followed, bound, and their groups told in that version."""
    assert system.group_version == "v1alpha3"
    await system.says("watcher", "watch:podgroup", "synced", is_ready=True)
    gang = await submit_group(api, "g", min_count=SIZE, version=system.group_version)
    await submit_pods(api, [member(api, "g", index) for index in range(SIZE)])
    await committed(system, gang)
    pods = await api.list("Pod")
    assert len([pod for pod in pods if pod["spec"].get("nodeName")]) == SIZE
    path = f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{api.namespace}/podgroups/g"

    async def is_told() -> bool:
        group = (await system.client.request_ok("GET", path)).json()
        stated = {one["type"]: one["status"] for one in (group.get("status") or {}).get("conditions") or ()}
        return stated.get("PodGroupInitiallyScheduled") == "True"

    await eventually(is_told, what="the group says that it is scheduled")


@pytest.mark.parametrize("system", [AS_SHIPPED], indirect=True, ids=["as-shipped"])
async def test_without_the_api_pods_are_placed_one_by_one(system: System, api: Api) -> None:
    """The watcher is ready and says what is absent; a pod of ours is a gang of one, also if it named a group."""
    assert not system.group_version
    for kind in ("podgroup", "workload"):
        await system.says("watcher", f"watch:{kind}", "absent", is_ready=True)
    names = [f"lone-{index}" for index in range(SIZE)]
    await submit_pods(api, [pod_manifest(name, namespace=api.namespace) for name in names])
    # The server drops the field silently: what is left is a pod without a group.
    await submit_pods(api, [member(api, "g", 0)])
    for name in (*names, "g-0"):
        await committed(system, GangId(f"pod/{api.namespace}/{name}"))
    assert all(pod["spec"].get("nodeName") for pod in await api.list("Pod"))
    await system.at_rest()
