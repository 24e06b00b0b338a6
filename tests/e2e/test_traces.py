"""One placement is one trace through three services, as an OpenTelemetry collector receives it."""

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc.aio
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from services.runtime import telemetry
from tests.builders import namespace_manifest
from tests.e2e.conftest import NODES
from tests.e2e.gangs import committed, submit
from tests.e2e.system import System, running_system
from tests.e2e.waiting import until

SIZE = 4
SERVICES = {"phalanx-watcher", "phalanx-placer", "phalanx-binder"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A span and the service that made it."""

    service: str
    span: Span

    @property
    def attributes(self) -> Mapping[str, str]:
        """Its text attributes."""
        return {one.key: one.value.string_value for one in self.span.attributes}


@dataclass(slots=True)
class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps every span that it gets."""

    spans: list[Received] = field(default_factory=list)

    async def Export(  # noqa: N802 - the name in the protocol
        self, request: trace_service_pb2.ExportTraceServiceRequest, _context: object
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Keep the spans."""
        for resource in request.resource_spans:
            named = {one.key: one.value.string_value for one in resource.resource.attributes}
            self.spans += [
                Received(service=named["service.name"], span=span)
                for scope in resource.scope_spans
                for span in scope.spans
            ]
        return trace_service_pb2.ExportTraceServiceResponse()

    def named(self, name: str) -> list[Received]:
        """Return the spans of a name."""
        return [one for one in self.spans if one.span.name == name]

    def trace(self, trace_id: bytes) -> list[Received]:
        """Return the spans of a trace."""
        return [one for one in self.spans if one.span.trace_id == trace_id]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A system whose spans arrive at a collector."""

    system: System
    collector: Collector


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[Traced]:
    """Everything, with OTLP export to a collector in this process."""
    server, collector = grpc.aio.server(), Collector()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_BSP_SCHEDULE_DELAY": "100"}
    try:
        async with running_system(tmp_path, settings=NODES, environment=environment) as system:
            yield Traced(system=system, collector=collector)
    finally:
        await server.stop(None)


async def test_a_placement_is_one_trace_through_three_services(traced: Traced) -> None:
    """From the event that made it possible to each binding: one trace id, no orphan, the other events linked."""
    system, collector = traced.system, traced.collector
    api = system.api("traced")
    await api.create(namespace_manifest("traced"))
    gang = await submit(api, "g", size=SIZE)
    await committed(system, gang)

    def transactions() -> list[Received]:
        return [
            one for one in collector.named(telemetry.SPAN_TRANSACTION) if one.attributes[telemetry.ATTR_GANG] == gang
        ]

    await until(transactions, what="the span of the transaction arrived")
    (transaction,) = transactions()
    trace = transaction.span.trace_id
    await until(lambda: not _orphans(collector.trace(trace)), what="the parents of all spans arrived")
    spans = collector.trace(trace)
    assert {one.service for one in spans} == SERVICES
    (root,) = [one for one in spans if not one.span.parent_span_id]
    assert (root.service, root.span.name) == ("phalanx-watcher", telemetry.SPAN_WATCH_EVENT)
    (decided,) = [one for one in spans if one.span.name == telemetry.SPAN_GANG_DECIDE]
    assert decided.span.parent_span_id == root.span.span_id
    assert transaction.span.parent_span_id == decided.span.span_id
    bindings = [one for one in spans if one.span.name == telemetry.SPAN_BINDING]
    assert {one.attributes[telemetry.ATTR_POD] for one in bindings} == {f"g-{index}" for index in range(SIZE)}
    assert all(one.attributes[telemetry.ATTR_NODE] for one in bindings)
    await _are_linked(collector, root=root, decided=decided)


async def _are_linked(collector: Collector, *, root: Received, decided: Received) -> None:
    """Every member came by an event that the decision is a child of or links to."""
    linked = {link.span_id for link in decided.span.links}

    def found() -> list[Received]:
        return [one for one in collector.named(telemetry.SPAN_WATCH_EVENT) if one.span.span_id in linked]

    await until(lambda: len(found()) == len(linked), what="the linked events arrived")
    subjects = {one.attributes["phalanx.subject"].rpartition(".")[2] for one in (root, *found())}
    assert subjects >= {f"g-{index}" for index in range(SIZE)}


def _orphans(spans: Iterable[Received]) -> list[Received]:
    known = {one.span.span_id for one in spans}
    return [one for one in spans if one.span.parent_span_id and one.span.parent_span_id not in known]
