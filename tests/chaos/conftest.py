"""Fixtures: one control plane per module, with everything but binders."""

import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.chaos.gangs import publish_devices, refuse_some
from tests.chaos.stage import Stage, staged
from tests.kubernetes.fixtures import require_binaries


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """What runs while binders die; the API server refuses bindings of some names."""
    require_binaries()
    async with staged(tmp_path_factory.mktemp("chaos")) as running:
        await refuse_some(running)
        await publish_devices(running)
        yield running
        # pytest shows it for tests that fail; where nothing is captured, tables are to be seen and not logs.
        if request.config.getoption("capture") != "no":
            sys.stdout.write(running.tails())
        running.check()
