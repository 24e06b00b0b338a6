"""Services as local processes: which ports they take."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

from services.cli.processes import ANY_PORT, LocalProcess
from services.runtime.addresses import is_free_port
from services.runtime.embedded_nats import EmbeddedNats

pytest_plugins = ("tests.nats_server",)


@contextlib.contextmanager
def taken() -> Iterator[int]:
    """A port on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@contextlib.asynccontextmanager
async def running(
    folder: Path, *, nats_url: str, ports: Mapping[str, int] | None = None
) -> AsyncIterator[LocalProcess]:
    """A service that answers."""
    environment = {"PHALANX_NATS_URL": nats_url, "PHALANX_HTTP_ADDRESS": ANY_PORT}
    process = LocalProcess(name="autoscaler", folder=folder, environment=environment, preferred_ports=ports or {})
    process.start()
    try:
        await process.wait_ready()
        yield process
    finally:
        await process.stop()


async def test_preferred_port(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """It is taken where it is free; where it is not, the service starts all the same."""
    with taken() as port:
        async with running(tmp_path / "1", nats_url=nats_server.url, ports={"http": port}) as process:
            assert process.http_url != f"http://127.0.0.1:{port}"
    assert is_free_port(port)
    async with running(tmp_path / "2", nats_url=nats_server.url, ports={"http": port}) as process:
        assert process.http_url == f"http://127.0.0.1:{port}"


async def test_port_is_kept_over_a_restart(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """What was pasted into another shell or a scrape configuration stays right, whoever waited for the service."""
    async with running(tmp_path, nats_url=nats_server.url) as process:
        address = process.http_url
        for _ in range(2):
            process.kill()
            process.start()
        await process.wait_ready()
        assert process.http_url == address


async def test_port_that_somebody_else_took_meanwhile(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """The service takes another one and is there again."""
    async with running(tmp_path, nats_url=nats_server.url) as process:
        address = process.http_url
        process.kill()
        port = int(address.rpartition(":")[2])
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", port)
        async with server:
            process.start()
            await process.wait_ready()
        assert process.http_url != address
