"""Fixtures of the end-to-end tests on the sandbox: one system per module, a namespace of its own per test.

A module says with `SETTINGS` and `ENVIRONMENT` how its cluster and services are set up.
"""

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.runtime.kube import KubeError
from services.sandbox.cluster import ClusterSettings
from tests.builders import namespace_manifest
from tests.e2e.api import NOT_FOUND, Api, Manifest
from tests.e2e.system import System, running_system
from tests.e2e.waiting import eventually

NODES = ClusterSettings(nodes=8, gpus_per_node=8)
"""64 GPUs, as eight nodes of eight."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """Everything that runs. The ends of the logs are printed, for the tests that fail."""
    async with running_system(
        tmp_path_factory.mktemp("system"),
        settings=getattr(request.module, "SETTINGS", NODES),
        environment=getattr(request.module, "ENVIRONMENT", {}),
    ) as running:
        yield running
        for name, process in running.services.processes.items():
            sys.stdout.write(f"--- {name}\n{process.tail()}\n")


@pytest_asyncio.fixture(loop_scope="module")
async def api(system: System, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """The Kubernetes API with a fresh namespace, which is emptied at the end."""
    namespace = "".join(char if char.isalnum() else "-" for char in request.node.name.lower()).strip("-")[:60]
    api = system.api(namespace.strip("-"))
    await api.create(namespace_manifest(api.namespace))
    yield api
    await emptied(api)


async def emptied(api: Api) -> None:
    """Delete what runs in a namespace, so that the next test has all nodes."""

    async def is_empty() -> bool:
        left = 0
        for kind in ("Job", "Pod", "PodGroup"):
            for item in await _listed(api, kind):
                left += 1
                await api.delete(kind, item["metadata"]["name"], grace_s=0)
        return not left

    await eventually(is_empty, what=f"namespace {api.namespace} is empty")


async def _listed(api: Api, kind: str) -> list[Manifest]:
    """The objects of a kind, none where it is not served."""
    try:
        return await api.list(kind)
    except KubeError as error:
        if error.status == NOT_FOUND:
            return []
        raise
