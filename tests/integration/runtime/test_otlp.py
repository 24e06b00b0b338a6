"""Spans arrive at a collector over OTLP gRPC."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import grpc.aio
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider

from services.runtime import telemetry


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every export request that it gets."""

    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []

    async def Export(  # noqa: N802 - the name in the protocol
        self, request: trace_service_pb2.ExportTraceServiceRequest, _context: object
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Keep the request."""
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A collector and where it listens."""

    collector: Collector
    endpoint: str


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """A collector on a free port."""
    server = grpc.aio.server()
    collector = Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield Running(collector=collector, endpoint=f"http://127.0.0.1:{port}")
    await server.stop(None)


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
async def test_spans_reach_the_collector(running: Running, variable: str) -> None:
    """An endpoint variable alone turns export on; what is buffered is sent at shutdown with the service's name."""
    provider = telemetry.setup("binder", {variable: running.endpoint}, instance="binder-0")
    assert isinstance(provider, SdkTracerProvider)
    with provider.get_tracer("t").start_as_current_span(
        telemetry.SPAN_TRANSACTION, attributes={telemetry.ATTR_TRANSACTION: "t1"}
    ):
        pass
    await asyncio.to_thread(telemetry.shutdown, provider)

    (request,) = running.collector.requests
    (resource_spans,) = request.resource_spans
    resource = {item.key: item.value.string_value for item in resource_spans.resource.attributes}
    assert resource["service.name"] == "phalanx-binder"
    assert resource["service.instance.id"] == "binder-0"
    (span,) = resource_spans.scope_spans[0].spans
    assert span.name == "transaction"
    assert {item.key: item.value.string_value for item in span.attributes} == {"phalanx.transaction": "t1"}
