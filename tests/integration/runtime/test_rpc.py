"""The gRPC server: health, reflection, limits, traces and the error boundary, over a real channel."""

import asyncio
import io
import logging
import re
from collections.abc import AsyncIterator, Iterator, Sequence

import grpc
import grpc.aio
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from services.runtime import log, rpc, telemetry
from services.runtime.health import Readiness

SERVICE = "phalanx.test.v1.Echo"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def echo(request: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
    """Answers with the request, the trace that it runs in, a refusal or a crash."""
    if request == b"trace":
        return telemetry.inject().get("traceparent", "").encode()
    if request == b"refuse":
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "gang is gone")
    if request == b"crash":
        raise RuntimeError("inner secret detail")
    return request


async def count(request: bytes, _context: "grpc.aio.ServicerContext[bytes, bytes]") -> AsyncIterator[bytes]:
    """Streams three answers, or one and then a crash."""
    yield b"1"
    if request == b"crash":
        raise RuntimeError("inner secret detail")
    yield b"2"
    yield telemetry.inject().get("traceparent", "").encode()


def register(server: grpc.aio.Server) -> Sequence[str]:
    """Adds a service of plain bytes, so that no generated code is needed."""
    handlers: dict[str, grpc.RpcMethodHandler] = {  # type: ignore[type-arg] # generic in the stubs only
        "One": grpc.unary_unary_rpc_method_handler(echo),
        "Many": grpc.unary_stream_rpc_method_handler(count),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    return (SERVICE,)


@pytest.fixture
def readiness() -> Readiness:
    """Readiness that nothing has been told yet."""
    return Readiness()


@pytest.fixture
async def channel(readiness: Readiness) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server on a free port."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    async with (
        rpc.serve("127.0.0.1:0", register, readiness) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as opened,
    ):
        yield opened


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged during the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    log.setup(service="placer", instance="p", stream=stream)
    yield stream
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


async def call(channel: grpc.aio.Channel, request: bytes, *, traceparent: str = "") -> bytes:
    """One call of the unary method."""
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{SERVICE}/One")
    return await method(request, metadata=grpc.aio.Metadata(("traceparent", traceparent)), timeout=10)


async def many(channel: grpc.aio.Channel, request: bytes, *, received: list[bytes], traceparent: str = "") -> None:
    """One call of the streaming method; what arrives before an error is in `received`."""
    method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(f"/{SERVICE}/Many")
    stream = method(request, metadata=grpc.aio.Metadata(("traceparent", traceparent)), timeout=10)
    async for item in stream:
        received.append(item)  # noqa: PERF401 - kept one by one, since the stream may fail


async def test_health_follows_readiness(channel: grpc.aio.Channel, readiness: Readiness) -> None:
    """The health service, asked and watched, says what readiness says, for the server and for the service."""
    stub = health_pb2_grpc.HealthStub(channel)
    assert (await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)).status == NOT_SERVING
    watching = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=10)
    assert (await watching.read()).status == NOT_SERVING

    readiness.set("nats", ready=True)
    assert (await watching.read()).status == SERVING
    assert (await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)).status == SERVING

    readiness.set("nats", ready=False)
    assert (await watching.read()).status == NOT_SERVING
    watching.cancel()


async def test_services_can_be_discovered(channel: grpc.aio.Channel) -> None:
    """Reflection lists our service beside health, so that grpcurl works without our files."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    asked = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=10)
    names = [[service.name for service in reply.list_services_response.service] async for reply in asked]

    assert names == [["grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection", SERVICE]]


async def test_messages_up_to_the_limit_pass(channel: grpc.aio.Channel) -> None:
    """Large placements fit, a larger message is refused by the server and not by a crash."""
    large = bytes(rpc.MAX_MESSAGE_BYTES - 16)
    assert await call(channel, large) == large

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(channel, bytes(rpc.MAX_MESSAGE_BYTES + 16))
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_the_callers_trace_goes_on(channel: grpc.aio.Channel) -> None:
    """A traceparent in the metadata is current in unary and streaming handlers, and in none of the later calls."""
    received: list[bytes] = []

    assert await call(channel, b"trace", traceparent=TRACEPARENT) == TRACEPARENT.encode()
    await many(channel, b"", received=received, traceparent=TRACEPARENT)
    assert received == [b"1", b"2", TRACEPARENT.encode()]
    assert await call(channel, b"trace") == b""


async def test_a_crash_is_internal_with_an_id_that_the_log_has(channel: grpc.aio.Channel, written: io.StringIO) -> None:
    """The caller learns an id and nothing else; the log has the traceback under that id."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(channel, b"crash")

    assert caught.value.code() == grpc.StatusCode.INTERNAL
    details = caught.value.details() or ""
    assert "secret" not in details
    found = re.search(r"internal error (\w+)", details)
    assert found is not None
    assert f'"error_id":"{found[1]}"' in written.getvalue()
    assert "inner secret detail" in written.getvalue()


async def test_a_crash_in_a_stream_ends_it(channel: grpc.aio.Channel, written: io.StringIO) -> None:
    """What was sent stays sent, then the same boundary applies."""
    received: list[bytes] = []

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await many(channel, b"crash", received=received)

    assert received == [b"1"]
    assert caught.value.code() == grpc.StatusCode.INTERNAL
    assert "rpc.failed" in written.getvalue()


async def test_a_deliberate_refusal_passes_unchanged(channel: grpc.aio.Channel, written: io.StringIO) -> None:
    """An abort of the handler is its answer, not a fault."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(channel, b"refuse")

    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "gang is gone")
    assert written.getvalue() == ""


async def test_a_taken_port_is_an_error(readiness: Readiness) -> None:
    """Two servers never share a port silently."""
    async with rpc.serve("127.0.0.1:0", register, readiness) as port:
        with pytest.raises(OSError, match=str(port)):
            async with rpc.serve(f"127.0.0.1:{port}", register, readiness):
                pass


async def test_stopping_tells_watchers_first(readiness: Readiness) -> None:
    """A client that watches health hears NOT_SERVING before the server is gone."""
    readiness.set("nats", ready=True)
    async with asyncio.timeout(10):
        async with rpc.serve("127.0.0.1:0", register, readiness) as port:
            channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
            watching = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert (await watching.read()).status == SERVING
        assert (await watching.read()).status == NOT_SERVING
        watching.cancel()
        await channel.close()
