"""Fake kubelets on a real control plane: pods run, Jobs complete, deletions come through."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from services.sandbox.controllers.kubelets import RUN_SECONDS
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.connection import Connection, RequestError, Target, connected
from tests.kubernetes.nodes import FakeKubelets, NodesConfig, running_nodes

pytestmark = pytest.mark.kubernetes

_NAMESPACE = "fake-nodes"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_JOBS = f"/apis/batch/v1/namespaces/{_NAMESPACE}/jobs"
_DEADLINE_S = 30.0


@pytest.fixture
def target(kubernetes: Cluster) -> Target:
    """The shared control plane."""
    return Target.from_kubeconfig(kubernetes.kubeconfig)


@pytest.fixture
async def connection(target: Target) -> AsyncIterator[Connection]:
    """A connection to it, and the namespace of these tests."""
    async with connected(target) as connection:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        try:
            await connection.request("POST", "/api/v1/namespaces", body=namespace)
        except RequestError as error:
            assert error.reason == "AlreadyExists"  # noqa: PT017
        yield connection


def _pod(name: str, *, node: str, gpus: int = 1) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "none", "containers": [container], "nodeName": node},
    }


async def _reached(connection: Connection, path: str, is_reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(_DEADLINE_S):
        while True:
            found: dict[str, Any] = await connection.request("GET", path)
            if is_reached(found):
                return found
            await asyncio.sleep(0.02)


async def _gone(connection: Connection, path: str) -> None:
    async with asyncio.timeout(_DEADLINE_S):
        while True:
            try:
                await connection.request("GET", path)
            except RequestError as error:
                assert error.code == 404  # noqa: PT017
                return
            await asyncio.sleep(0.02)


async def test_nodes_are_ready_and_untainted(connection: Connection, target: Target) -> None:
    """The nodes carry their GPUs, are Ready without taint, and go when the block ends."""
    async with running_nodes(target, NodesConfig(count=3, gpus_per_node=4, prefix="ready")) as nodes:
        for name in nodes.names:
            node = await connection.request("GET", f"/api/v1/nodes/{name}")
            assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"
            assert "taints" not in node["spec"]
    for name in nodes.names:
        with pytest.raises(RequestError, match="404"):
            await connection.request("GET", f"/api/v1/nodes/{name}")


async def test_a_bound_pod_runs_and_its_deletion_comes_through(connection: Connection, target: Target) -> None:
    """A pod becomes Running and Ready, and a graceful deletion ends."""
    async with running_nodes(target, NodesConfig(count=1, prefix="runs")) as nodes:
        await connection.request("POST", _PODS, body=_pod("runs", node=nodes.names[0]))
        pod = await _reached(connection, f"{_PODS}/runs", lambda each: each["status"]["phase"] == "Running")
        ready = next(each for each in pod["status"]["conditions"] if each["type"] == "Ready")
        assert ready["status"] == "True"
        await connection.request("DELETE", f"{_PODS}/runs")
        await _reached(connection, _PODS, lambda each: not each["items"])


async def test_a_full_node_refuses(connection: Connection, target: Target) -> None:
    """The kubelet fails a pod that its node has no GPU for."""
    async with running_nodes(target, NodesConfig(count=1, gpus_per_node=2, prefix="full")) as nodes:
        for name in ("first", "second"):
            await connection.request("POST", _PODS, body=_pod(name, node=nodes.names[0], gpus=2))
        await _reached(connection, f"{_PODS}/first", lambda each: each["status"]["phase"] == "Running")
        pod = await _reached(connection, f"{_PODS}/second", lambda each: each["status"]["phase"] == "Failed")
        assert pod["status"]["reason"] == "OutOfnvidia.com/gpu"
        for name in ("first", "second"):
            await connection.request("DELETE", f"{_PODS}/{name}")
        await _reached(connection, _PODS, lambda each: not each["items"])


async def test_a_job_completes(connection: Connection, target: Target) -> None:
    """Pods of a Job run for their time and succeed, and the Job is complete."""
    async with running_nodes(target, NodesConfig(count=2, prefix="job")) as nodes:
        template = {
            "metadata": {"annotations": {RUN_SECONDS: "0.1"}},
            "spec": _pod("", node=nodes.names[0])["spec"] | {"restartPolicy": "Never"},
        }
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j"},
            "spec": {"parallelism": 4, "completions": 4, "template": template},
        }
        await connection.request("POST", _JOBS, body=job)
        done = await _reached(connection, f"{_JOBS}/j", lambda each: each["status"].get("succeeded") == 4)
        assert not done["status"].get("failed")


class _SlowAnswers(Connection):
    """Answers to status writes are held back until `release` is set.

    `has_written` tells that one is held, `has_told` that the event of a deletion was taken.
    """

    def __init__(self, connection: Connection) -> None:
        """Send what is asked over another connection."""
        self._connection = connection
        self.has_written, self.has_told, self.release = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def request(self, verb: str, path: str, **fields: Any) -> Any:  # type: ignore[override] # retries by the other
        """As the other connection, but later."""
        answer = await self._connection.request(verb, path, **fields)
        if verb == "PATCH" and path.endswith("/late/status"):
            self.has_written.set()
            await self.release.wait()
        return answer

    async def follow(self, path: str, *, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """Events are not held back."""
        async for event in self._connection.follow(path, query=query):
            yield event
            if "deletionTimestamp" in event["object"]["metadata"]:
                self.has_told.set()


async def test_a_deletion_is_not_lost_behind_a_late_answer(connection: Connection) -> None:
    """The answer to a status write that comes after the event of a deletion is older, and does not hide it."""
    slow = _SlowAnswers(connection)
    kubelets = FakeKubelets(slow, NodesConfig(count=1, prefix="late"))
    await kubelets.register()
    playing = asyncio.create_task(kubelets.run())
    try:
        await connection.request("POST", _PODS, body=_pod("late", node="late-001"))
        async with asyncio.timeout(_DEADLINE_S):
            await slow.has_written.wait()
        path = f"{_PODS}/late"
        await connection.request("DELETE", path)
        async with asyncio.timeout(_DEADLINE_S):
            await slow.has_told.wait()
        slow.release.set()
        await _gone(connection, path)
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await kubelets.unregister()
