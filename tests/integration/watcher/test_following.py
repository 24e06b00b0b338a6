"""The watcher keeps the stream equal to the cluster, whatever happens to either."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.core.objects import Kind
from services.runtime.embedded_nats import EmbeddedNats
from tests.integration.watcher.harness import RunningWatcher, Scene, watcher


@pytest.fixture
async def running_watcher(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> AsyncIterator[RunningWatcher]:
    """A watcher that has caught up."""
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
        await scene.equal()
        yield running


async def test_what_exists_is_published(scene: Scene, running_watcher: RunningWatcher) -> None:
    """After the first list the stream equals the cluster and the watcher is ready."""
    assert len([1 for change in scene.reader.writes(Kind.NODE)]) == 3
    assert running_watcher.readiness.is_ready
