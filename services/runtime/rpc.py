"""A gRPC server with what every one of ours has: health, reflection, size limits, traces and honest errors.

A handler that raises is a fault of ours. The caller gets INTERNAL and an id, the log gets the traceback under the same
id, so that nothing about the inside leaves the process and the report of a user can still be found.
"""

import asyncio
import contextlib
import functools
import inspect
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as grpc_health
from grpc_reflection.v1alpha import reflection
from opentelemetry import context as trace_context

from services.runtime import log, telemetry
from services.runtime.addresses import announce_port
from services.runtime.health import Readiness
from services.runtime.rpc_access import Refused, RpcAccess

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
_HEALTH_SERVICE = "grpc.health.v1.Health"
_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # Otherwise two processes can share a port by mistake and each gets half of the calls.
    ("grpc.so_reuseport", 0),
    # Who opens a connection and says nothing, or vanishes without a word, does not hold it for long.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.max_metadata_size", 16 * 1024),
)

_log = log.get("rpc")

# Text, because grpc's classes are generic in the stubs only.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Call: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@asynccontextmanager
async def serve(
    address: str,
    register: Callable[[grpc.aio.Server], Sequence[str]],
    readiness: Readiness,
    *,
    access: RpcAccess | None = None,
    grace_s: float = 1.0,
) -> AsyncIterator[int]:
    """Serve what `register` adds (it returns the full service names); yields the bound port, announced as `grpc`.

    Without `access` there are no certificates and no rights, which is allowed on the loopback interface alone:
    SettingsError says so.

    grpc.health.v1 says SERVING while readiness holds, for the server and for each service.
    At the end, calls in flight get `grace_s`; streams that never end are cut then.
    """
    access = access or RpcAccess()
    access.check_address(address)
    server = grpc.aio.server(
        interceptors=[_Boundary(access)],
        options=_OPTIONS,
        # Beyond what is refused with a sentence and counted, the library refuses without either.
        maximum_concurrent_rpcs=2 * access.max_calls,
    )
    names = tuple(register(server))
    health = grpc_health.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    reflection.enable_server_reflection((*names, _HEALTH_SERVICE, reflection.SERVICE_NAME), server)
    port = _bind(server, address=address, credentials=None if access.tls is None else access.tls.server_credentials())
    async with _mirrored(readiness, health=health, names=("", *names)):
        await server.start()
        announce_port("grpc", port=port)
        try:
            yield port
        finally:
            await health.enter_graceful_shutdown()
            await server.stop(grace_s)


def _bind(server: grpc.aio.Server, *, address: str, credentials: grpc.ServerCredentials | None) -> int:
    try:
        if credentials is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise OSError(f"cannot listen for gRPC on {address}: {error}") from error


@asynccontextmanager
async def _mirrored(
    readiness: Readiness, *, health: grpc_health.HealthServicer, names: Sequence[str]
) -> AsyncIterator[None]:
    """Keep the gRPC health states equal to readiness."""
    changed = asyncio.Event()

    async def publish() -> None:
        states = health_pb2.HealthCheckResponse
        for name in names:
            await health.set(name, states.SERVING if readiness.is_ready else states.NOT_SERVING)

    async def follow() -> None:
        while True:
            await changed.wait()
            changed.clear()
            await publish()

    await publish()
    unsubscribe = readiness.subscribe(changed.set)
    following = asyncio.create_task(follow(), name="grpc health mirror")
    try:
        yield
    finally:
        unsubscribe()
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


class _Boundary(grpc.aio.ServerInterceptor):
    """Lets in whom the access allows, continues the caller's trace and turns exceptions into INTERNAL with an id."""

    def __init__(self, access: RpcAccess) -> None:
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable["_Handler | None"]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> "_Handler | None":
        """Wrap the handler in the kind that it is."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        call = functools.partial(_guarded, method=handler_call_details.method, access=self._access)
        parts = {
            "request_deserializer": handler.request_deserializer,
            "response_serializer": handler.response_serializer,
        }
        # Exactly one of the four is set; the last needs no test.
        if handler.unary_unary:
            return grpc.unary_unary_rpc_method_handler(call(handler.unary_unary), **parts)
        if handler.stream_unary:
            return grpc.stream_unary_rpc_method_handler(call(handler.stream_unary), **parts)
        if handler.unary_stream:
            return grpc.unary_stream_rpc_method_handler(call(handler.unary_stream), **parts)
        assert handler.stream_stream is not None
        return grpc.stream_stream_rpc_method_handler(call(handler.stream_stream), **parts)


def _guarded(behavior: Callable[..., Any], *, method: str, access: RpcAccess) -> Callable[..., Any]:
    """The handler with trace and error boundary; asynchronous functions and generators alike."""
    if inspect.isasyncgenfunction(behavior):

        async def stream(request: object, context: _Call) -> AsyncIterator[object]:
            async with _boundary(context, method=method, access=access):
                async for item in behavior(request, context):
                    yield item

        return stream

    async def single(request: object, context: _Call) -> object:
        async with _boundary(context, method=method, access=access):
            return await behavior(request, context)

    return single


@asynccontextmanager
async def _boundary(context: _Call, *, method: str, access: RpcAccess) -> AsyncIterator[None]:
    # Every call runs in a task of its own, so the attached context ends with it.
    if (caller := telemetry.extract(_text_metadata(context))) is not None:
        trace_context.attach(caller)
    try:
        with access.admitted(context, method=method):
            yield
    except grpc.aio.AbortError:
        raise  # the handler's own, deliberate answer
    except Refused as refusal:
        await context.abort(refusal.code, refusal.message)
    except Exception:  # noqa: BLE001 - the boundary of the process
        error_id = secrets.token_hex(6)
        _log.exception("rpc.failed", method=method, error_id=error_id)
        await context.abort(
            grpc.StatusCode.INTERNAL, f"internal error {error_id}: the log of this service has the details"
        )


def _text_metadata(context: _Call) -> Mapping[str, str]:
    return {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
