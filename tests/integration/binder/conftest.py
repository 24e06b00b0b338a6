"""Fixtures of the binder's integration tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.runtime.embedded_nats import EmbeddedNats
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.integration.binder.harness import Scene, staged
from tests.nats_server import nats_server

__all__ = ["nats_server", "scene"]


@pytest.fixture
async def scene(nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[Scene]:
    """A cluster of eight nodes with eight GPUs each, and an empty NATS server."""
    async with (
        running(ClusterSettings(nodes=8, run_s=600)) as sandbox,
        staged(sandbox, nats_url=nats_server.url, directory=tmp_path) as scene,
    ):
        yield scene
