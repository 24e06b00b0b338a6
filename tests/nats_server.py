"""Fixtures with a real NATS server: `nats_server`, one of the test's own that it may stop, kill and start again."""

from collections.abc import AsyncIterator

import pytest

from services.runtime.embedded_nats import EmbeddedNats


@pytest.fixture
async def nats_server() -> AsyncIterator[EmbeddedNats]:
    """A running server with an empty store on a free port."""
    async with EmbeddedNats() as server:
        yield server
