"""A real NATS server for each test."""

from collections.abc import AsyncIterator

import pytest

from services.runtime.embedded_nats import EmbeddedNats


@pytest.fixture
async def nats() -> AsyncIterator[EmbeddedNats]:
    """A running server that the test may stop and start."""
    async with EmbeddedNats() as server:
        yield server
