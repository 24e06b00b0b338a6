"""The Kubernetes client against a real kube-apiserver: what the scripted server only claims."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from services.runtime.kube import KubeClient, KubeError
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries

pytestmark = pytest.mark.kubernetes
NAMESPACE = "client"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An API server alone, with a user who may do nothing."""
    require_binaries()
    with Cluster(ClusterConfig(controller_manager=False, users={"nobody": ()})) as running:
        yield running


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """The administrator's client, with a namespace to work in."""
    async with await KubeClient.open(cluster.kubeconfig) as opened:
        reply = await opened.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
        assert reply.status in {201, 409}
        yield opened
        await opened.request_ok("DELETE", PODS, query={"gracePeriodSeconds": "0"})


def pod(name: str) -> dict[str, Any]:
    """A pod for our scheduler."""
    spec = {"schedulerName": "phalanx", "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name}, "spec": spec}


async def test_lists_and_watches_join_without_a_gap(client: KubeClient) -> None:
    """Pages are of one version, and a watch from it shows exactly what came afterwards, bindings included."""
    for index in range(5):
        await client.request_ok("POST", PODS, body=pod(f"p{index}"))
    pages = [page async for page in client.list_pages(PODS, limit=2)]
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert len({page.resource_version for page in pages}) == 1

    binding = {"metadata": {"name": "p0"}, "target": {"kind": "Node", "name": "n1"}}
    await client.request_ok("POST", f"{PODS}/p0/binding", body=binding)
    await client.request_ok("DELETE", f"{PODS}/p1")
    seen = []
    async with contextlib.aclosing(
        client.watch(PODS, resource_version=pages[0].resource_version, timeout_s=20)
    ) as events:
        async for event in events:
            seen.append((event.type, event.object["metadata"]["name"], event.object["spec"].get("nodeName")))
            if event.type == "DELETED":
                break

    # A deletion is two changes in the storage: the deletion timestamp, then the removal.
    assert seen == [("MODIFIED", "p0", "n1"), ("MODIFIED", "p1", None), ("DELETED", "p1", None)]
    with pytest.raises(KubeError, match="already assigned") as caught:
        await client.request_ok("POST", f"{PODS}/p0/binding", body=binding)
    assert (caught.value.status, caught.value.reason, caught.value.resource) == (409, "Conflict", "pods/binding")


async def test_a_watch_ends_when_its_time_is_up(client: KubeClient) -> None:
    """The server ends an idle watch after the time asked for; the iterator just ends, bookmarks aside."""
    (page,) = [page async for page in client.list_pages(PODS)]
    events = [event async for event in client.watch(PODS, resource_version=page.resource_version, timeout_s=1)]

    assert {event.type for event in events} <= {"BOOKMARK"}


async def test_discovery_matches_the_server(client: KubeClient) -> None:
    """Served and unserved groups, resources and subresources are told apart."""
    assert "v1" in await client.served_versions("")
    assert "v1" in await client.served_versions("resource.k8s.io")
    assert await client.served_versions("kueue.x-k8s.io") == ()
    assert {"pods", "pods/binding"} <= await client.resources("", "v1")
    assert await client.resources("scheduling.k8s.io", "v99") == frozenset()


async def test_a_user_without_rights_learns_which_are_missing(cluster: Cluster) -> None:
    """The error names verb and resource in the words of a Role."""
    async with await KubeClient.open(cluster.kubeconfig_of("nobody")) as nobody:
        with pytest.raises(KubeError, match="grant verb 'create' on resource 'pods/binding'"):
            await nobody.request_ok("POST", f"{PODS}/p/binding", body={"target": {"name": "n"}})
