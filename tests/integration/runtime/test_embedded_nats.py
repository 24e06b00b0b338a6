"""The embedded NATS server: free port, store that outlives it, clear errors."""

from pathlib import Path

import pytest

from services.contracts.streams import SCALING_STREAM
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats, NatsServerFailed
from services.runtime.health import Readiness

SUBJECT = "phalanx.scaling.v1.team-a.workers.woken"


def bus(server: EmbeddedNats) -> Bus:
    """A client of the server."""
    return Bus(url=server.url, name="test", readiness=Readiness())


async def test_the_store_and_the_port_outlive_a_crash(tmp_path: Path) -> None:
    """A message that a synced stream acknowledged is there after a kill and a new start."""
    async with EmbeddedNats(store_dir=tmp_path / "store") as server:
        before = server.url
        async with bus(server) as client:
            await client.ensure_streams([SCALING_STREAM])
            await client.publish(SUBJECT, data=b"x", headers={})
        await server.kill()
        assert server.pid is None
        await server.start()
        assert server.url == before
        async with bus(server) as client:
            kept = await client.last(SCALING_STREAM.name, subject=SUBJECT)
            assert kept is not None
            assert kept.data == b"x"


async def test_two_servers_take_different_ports() -> None:
    """Nothing is fixed, so tests may run side by side."""
    async with EmbeddedNats() as one, EmbeddedNats() as other:
        assert one.port != other.port


async def test_a_port_in_use_is_a_clear_error() -> None:
    """The server's own words are in the message."""
    async with EmbeddedNats() as server:
        with pytest.raises(NatsServerFailed, match="address already in use"):
            async with EmbeddedNats(port=server.port):
                pass
