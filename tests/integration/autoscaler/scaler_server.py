"""An external scaler in this process, as people write them for KEDA; it knows nothing of the autoscaler."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc
from grpc import aio

from services.contracts.pb.externalscaler.v1 import external_scaler_pb2 as pb

SERVICE = "externalscaler.ExternalScaler"

Context = aio.ServicerContext[Any, Any]


@dataclass(slots=True, kw_only=True)
class Scaler:
    """What it says. `metrics` are its metrics with their numbers, several for one name where there are several."""

    metrics: list[tuple[str, float]] = field(default_factory=lambda: [("depth", 0.0)])
    is_active: bool = False
    has_push: bool = True
    counts_whole: bool = False
    failure: grpc.StatusCode | None = None
    asked: list[pb.ScaledObjectRef] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0

    def push(self, *, is_active: bool) -> None:
        """Tell whoever listens."""
        self.is_active = is_active
        self.changed.set()
        self.changed = asyncio.Event()

    async def active(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:
        """Answer IsActive."""
        self.asked.append(request)
        if self.failure is not None:
            await context.abort(self.failure, "on purpose")
        return pb.IsActiveResponse(result=self.is_active)

    async def specs(self, request: pb.ScaledObjectRef, _context: Context) -> pb.GetMetricSpecResponse:
        """Answer GetMetricSpec."""
        self.asked.append(request)
        names = dict.fromkeys(name for name, _ in self.metrics)
        return pb.GetMetricSpecResponse(
            metric_specs=[pb.MetricSpec(metric_name=name, target_size=10) for name in names]
        )

    async def values(self, request: pb.GetMetricsRequest, _context: Context) -> pb.GetMetricsResponse:
        """Answer GetMetrics."""
        found = [(name, value) for name, value in self.metrics if name == request.metric_name]
        return pb.GetMetricsResponse(metric_values=[self._value(name, value) for name, value in found])

    async def follow(self, _request: pb.ScaledObjectRef, context: Context) -> AsyncIterator[pb.IsActiveResponse]:
        """Answer StreamIsActive: whether there is work now, and whenever that changes."""
        if not self.has_push:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no push")
        self.streams += 1
        while True:
            changed = self.changed
            yield pb.IsActiveResponse(result=self.is_active)
            await changed.wait()

    def _value(self, name: str, value: float) -> pb.MetricValue:
        if self.counts_whole:
            return pb.MetricValue(metric_name=name, metric_value=int(value))
        return pb.MetricValue(metric_name=name, metric_value_float=value)


@contextlib.asynccontextmanager
async def serving(scaler: Scaler, *, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
    """Serve it, and yield the address."""
    server = aio.server()
    handlers = {
        "IsActive": _unary(scaler.active, request=pb.ScaledObjectRef),
        "GetMetricSpec": _unary(scaler.specs, request=pb.ScaledObjectRef),
        "GetMetrics": _unary(scaler.values, request=pb.GetMetricsRequest),
        "StreamIsActive": grpc.unary_stream_rpc_method_handler(
            scaler.follow,
            request_deserializer=pb.ScaledObjectRef.FromString,
            response_serializer=pb.IsActiveResponse.SerializeToString,
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(grace=0)


def _unary(
    behaviour: object, *, request: type[pb.ScaledObjectRef | pb.GetMetricsRequest]
) -> "grpc.RpcMethodHandler[Any, Any]":
    return grpc.unary_unary_rpc_method_handler(
        behaviour,  # type: ignore[arg-type]  # as above
        request_deserializer=request.FromString,
        response_serializer=lambda answer: answer.SerializeToString(),
    )
