"""A sandbox, a NATS server and a reader of the stream for each test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from services.contracts.streams import CLUSTER_STREAM
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.sandbox.app import RunningSandbox, running
from services.sandbox.cluster import ClusterSettings
from tests.integration.watcher.harness import Scene, StreamReader
from tests.nats_server import nats_server

__all__ = ["nats_server"]


@pytest.fixture
async def sandbox() -> AsyncIterator[RunningSandbox]:
    """A small cluster in which nothing moves on its own."""
    async with running(ClusterSettings(nodes=3, has_controllers=False)) as cluster:
        yield cluster


@pytest.fixture
async def scene(nats_server: EmbeddedNats, sandbox: RunningSandbox) -> AsyncIterator[Scene]:
    """Both ends, before a watcher runs between them."""
    async with Bus(url=nats_server.url, name="test", readiness=Readiness()) as bus:
        await bus.ensure_streams([CLUSTER_STREAM])
        reader = StreamReader()
        following = asyncio.create_task(reader.follow(bus))
        yield Scene(sandbox=sandbox, bus=bus, reader=reader)
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
