"""What somebody with bad intentions sends to a gRPC port: each is refused, and the next honest call is answered."""

import asyncio
import contextlib
import io
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry

from services.runtime import log, rpc
from services.runtime.health import Readiness
from services.runtime.tls import channel_credentials, client_context, read_folder
from tests.e2e.waiting import until
from tests.integration.tls import CALLER, SERVER, Side, access, side
from tests.pki import Pair, TestAuthority

HEALTH = "grpc.health.v1.Health"
CHECK = health_pb2.HealthCheckRequest()
PATIENCE_S = 60.0
OTHER = CALLER.replace("trainer", "other")
STRANGER = CALLER.replace("team-a", "team-b")
MOST, MOST_OF_ONE = 60, 40
STREAMS = 10_000

Code = grpc.StatusCode


class Target:
    """A server of the placer's kind, its port, its counters, and whom it believes."""

    def __init__(self, folder: Path, *, authority: TestAuthority, server: Side, registry: CollectorRegistry) -> None:
        self.folder, self.authority, self.server, self.registry = folder, authority, server, registry
        self.port = 0
        self._pairs = 0

    @contextlib.asynccontextmanager
    async def calling(
        self, pair: Pair, *, options: tuple[tuple[str, int], ...] = ()
    ) -> AsyncIterator[grpc.aio.Channel]:
        """A channel that shows this certificate."""
        self._pairs += 1
        folder = pair.write(self.folder / f"caller-{self._pairs}", trusted=self.authority.certificate)
        credentials = channel_credentials(read_folder(folder))
        async with grpc.aio.secure_channel(f"127.0.0.1:{self.port}", credentials, options=options) as channel:
            yield channel

    def refused(self, reason: str) -> float:
        """How many calls were refused for that."""
        return self.registry.get_sample_value("phalanx_rpc_refused_total", {"reason": reason}) or 0.0

    @property
    def active(self) -> float:
        """How many calls are being answered."""
        return self.registry.get_sample_value("phalanx_rpc_active") or 0.0

    async def is_well(self) -> None:
        """An honest caller gets an answer."""
        async with self.calling(self.authority.issue(uri=CALLER)) as channel:
            await check(channel)


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged during the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    log.setup(service="placer", instance="p", stream=stream)
    yield stream
    root.handlers, root.level = handlers, level


@pytest.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    """A server that lets the caller ask for its health, and nobody else."""
    authority, registry = TestAuthority(), CollectorRegistry()
    server = side(tmp_path / "server", authority.issue(uri=SERVER), trusted=authority.certificate)
    gate = access(
        server,
        calls={CALLER: [f"{HEALTH}/*"], OTHER: [f"{HEALTH}/Check"]},
        registry=registry,
        max_calls=MOST,
        max_calls_of_one=MOST_OF_ONE,
    )
    made = Target(tmp_path, authority=authority, server=server, registry=registry)
    async with rpc.serve("127.0.0.1:0", lambda _server: (), Readiness(), access=gate) as port:
        made.port = port
        yield made
        await made.is_well()


async def check(channel: grpc.aio.Channel) -> None:
    """One call."""
    await health_pb2_grpc.HealthStub(channel).Check(CHECK, timeout=PATIENCE_S)


async def code_of(channel: grpc.aio.Channel) -> grpc.StatusCode:
    """How a call ends."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await check(channel)
    return caught.value.code()


@pytest.mark.parametrize("whom", ["another authority", "expired"])
async def test_certificates_that_are_not_believed(target: Target, whom: str) -> None:
    """The handshake fails: no handler is reached, and nothing of the server is learnt."""
    pair = (
        TestAuthority("stranger").issue(uri=CALLER)
        if whom == "another authority"
        else target.authority.issue(uri=CALLER, is_expired=True)
    )
    async with target.calling(pair) as channel:
        assert await code_of(channel) is Code.UNAVAILABLE


async def test_no_certificate_and_no_tls(target: Target) -> None:
    """Neither is spoken with."""
    address = f"127.0.0.1:{target.port}"
    nobody = grpc.ssl_channel_credentials(root_certificates=target.authority.certificate)
    async with grpc.aio.secure_channel(address, nobody) as channel:
        assert await code_of(channel) is Code.UNAVAILABLE
    async with grpc.aio.insecure_channel(address) as channel:
        assert await code_of(channel) is Code.UNAVAILABLE


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({"uri": STRANGER}, id="another namespace's account"),
        pytest.param({"uri": STRANGER, "dns_names": ("phalanx-placer",)}, id="a name beside its URI"),
        pytest.param({}, id="nobody at all"),
    ],
)
async def test_a_caller_without_the_right(target: Target, written: io.StringIO, names: dict[str, str]) -> None:
    """Believed, and refused all the same: each time counted, and logged once, without what was sent."""
    async with target.calling(target.authority.issue(**names)) as channel:  # type: ignore[arg-type]
        for _ in range(20):
            assert await code_of(channel) is Code.PERMISSION_DENIED
    assert target.refused("not_allowed") == 20
    assert written.getvalue().count("rpc.refused") == 1
    assert "PRIVATE" not in written.getvalue()


async def test_a_message_that_is_too_large(target: Target) -> None:
    """It is not even read to its end."""
    large = health_pb2.HealthCheckRequest(service="x" * (rpc.MAX_MESSAGE_BYTES + 1))
    options = (("grpc.max_send_message_length", -1),)
    async with target.calling(target.authority.issue(uri=CALLER), options=options) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health_pb2_grpc.HealthStub(channel).Check(large, timeout=PATIENCE_S)
        assert caught.value.code() is Code.RESOURCE_EXHAUSTED


async def test_a_message_that_is_none(target: Target) -> None:
    """Bytes that are no protobuf end the call and nothing else."""
    async with target.calling(target.authority.issue(uri=CALLER)) as channel:
        call = channel.unary_unary(f"/{HEALTH}/Check", request_serializer=bytes, response_deserializer=bytes)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(b"\xff\xff\xff\xff", timeout=PATIENCE_S)
        assert caught.value.code() in {Code.INTERNAL, Code.UNKNOWN, Code.INVALID_ARGUMENT}


@pytest.mark.parametrize(
    "frames",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP/1"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 4096, id="frames of nonsense"),
        pytest.param(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", id="a frame of 16 MiB"
        ),
    ],
)
async def test_frames_that_are_malformed(target: Target, frames: bytes) -> None:
    """The connection is closed, by somebody with a good certificate too."""
    folder = target.authority.issue(uri=CALLER).write(target.folder / "raw", trusted=target.authority.certificate)
    context = client_context(read_folder(folder))
    context.set_alpn_protocols(["h2"])
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", target.port, ssl=context, server_hostname="127.0.0.1"
        )
        writer.write(frames)
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.drain()
            while await reader.read(65536):
                pass
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


async def test_connections_that_say_nothing(target: Target) -> None:
    """Hundreds of them keep nobody else out."""
    silent = [socket.create_connection(("127.0.0.1", target.port)) for _ in range(300)]
    try:
        await target.is_well()
    finally:
        for one in silent:
            one.close()


@pytest.mark.timeout(400)
async def test_ten_thousand_streams_at_once(target: Target, written: io.StringIO) -> None:
    """One caller gets its share and no more; each further stream is refused and counted, and others are answered."""
    ended: list[grpc.StatusCode] = []
    pairs = target.authority.issue(uri=CALLER)
    async with target.calling(pairs, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        calls = [stub.Watch(CHECK) for _ in range(STREAMS)]

        async def listen(call: "grpc.aio.UnaryStreamCall[object, object]") -> None:
            ended.append(await call.code())

        listening = [asyncio.create_task(listen(call)) for call in calls]
        await until(lambda: len(ended) + target.active == STREAMS, what="all but its share are refused", timeout_s=300)
        # Some are turned away by the library, before we see them.
        assert Code.RESOURCE_EXHAUSTED in ended
        assert Code.OK not in ended
        assert 0 < target.active <= MOST_OF_ONE
        async with target.calling(target.authority.issue(uri=OTHER)) as other:
            await check(other)
        for call in calls:
            call.cancel()
        await asyncio.gather(*listening)
    assert target.refused("too_many_of_one") > 0
    assert written.getvalue().count("rpc.refused") <= 2
    await until(lambda: target.active == 0, what="all are gone")


async def test_a_reader_that_reads_nothing(target: Target) -> None:
    """Streams whose client does not read wait for it alone: others are answered meanwhile."""
    async with target.calling(target.authority.issue(uri=CALLER)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        slow = [stub.Watch(CHECK) for _ in range(MOST_OF_ONE - 1)]
        await until(lambda: target.active == MOST_OF_ONE - 1, what="all streams are open")
        await target.is_well()
        for call in slow:
            call.cancel()
