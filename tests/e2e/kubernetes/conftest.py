"""Fixtures: one control plane with all services per module, a namespace of its own per test.

A module says with `CLUSTER` and `ENVIRONMENT` how they are set up, and with `IS_DENIED` that it takes rights away.
"""

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.cli.processes import SERVICES
from tests.builders import namespace_manifest
from tests.e2e.api import Api
from tests.e2e.kubernetes.gangs import emptied
from tests.e2e.kubernetes.system import System, running_system
from tests.kubernetes.fixtures import require_binaries


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """Everything that runs. The ends of the logs, and the pods, are printed for the tests that fail."""
    require_binaries()
    module = request.module
    async with running_system(
        tmp_path_factory.mktemp("kubernetes"),
        config=getattr(module, "CLUSTER", None),
        environment=getattr(module, "ENVIRONMENT", {}),
    ) as running:
        yield running
        for name, process in running.services.processes.items():
            sys.stdout.write(f"--- {name}\n{process.tail()}\n")
        sys.stdout.write(f"--- controller manager\n{running.cluster.program('kube-controller-manager').log_tail()}\n")
        denied = [one for service in SERVICES for one in running.audit.of(service) if one.is_forbidden]
        if not getattr(module, "IS_DENIED", False):
            assert not denied, f"{len(denied)} requests of our services were forbidden, the first: {denied[0]}"


@pytest_asyncio.fixture(loop_scope="module")
async def api(system: System, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    """The Kubernetes API with a fresh namespace, which is emptied at the end."""
    namespace = "".join(char if char.isalnum() else "-" for char in request.node.name.lower())[:60]
    api = system.api(namespace.strip("-"))
    await api.create(namespace_manifest(api.namespace))
    yield api
    for pod in await api.list("Pod"):
        state = pod["metadata"].get("deletionTimestamp", "stays"), pod["status"]["phase"]
        sys.stdout.write(f"{pod['metadata']['name']} {pod['spec'].get('nodeName', 'unbound')} {' '.join(state)}\n")
    await emptied(api)
    await system.at_rest()
