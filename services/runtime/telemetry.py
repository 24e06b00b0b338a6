"""Tracing: every name declared once, off unless asked for, propagated always.

A trace crosses processes in the W3C `traceparent` header of messages, gRPC metadata and API requests. With export off,
spans are non-recording ones that still carry an incoming context on, so a service without a collector does not cut
the traces of those that have one.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.trace import (
    Link,
    NoOpTracerProvider,
    TracerProvider,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from services.runtime.settings import SettingsError

SPAN_WATCH_EVENT = "watch.event"
SPAN_GANG_DECIDE = "gang.decide"
SPAN_TRANSACTION = "transaction"
SPAN_TRANSACTION_CHECK = "transaction.check"
SPAN_TRANSACTION_DRY_RUN = "transaction.dry_run"
SPAN_TRANSACTION_CLAIMS = "transaction.claims"
SPAN_TRANSACTION_EVICT = "transaction.evict"
SPAN_TRANSACTION_PREPARE = "transaction.prepare"
SPAN_TRANSACTION_FREE = "transaction.free"
SPAN_TRANSACTION_BIND = "transaction.bind"
SPAN_TRANSACTION_REPAIR = "transaction.repair"
SPAN_TRANSACTION_UNDO = "transaction.undo"
SPAN_BINDING = "binding"
SPAN_WAKE = "wake"
SPAN_WAKE_PHASE = "wake.phase"

ATTR_GANG = "phalanx.gang"
ATTR_TRANSACTION = "phalanx.transaction"
ATTR_REVISION = "phalanx.revision"
ATTR_NODE = "phalanx.node"
ATTR_POD = "phalanx.pod"
ATTR_NAMESPACE = "k8s.namespace.name"
ATTR_REASON = "phalanx.reason"
ATTR_EVENT = "phalanx.event"
ATTR_SUBJECT = "phalanx.subject"
ATTR_HPA = "phalanx.hpa"
ATTR_PHASE = "phalanx.phase"
ATTR_REPLICAS = "phalanx.replicas"
ATTR_OUTCOME = "phalanx.outcome"

TRACE_FILE_VARIABLE = "PHALANX_TRACE_FILE"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_FLUSH_TIMEOUT_MS = 3000

_propagator = TraceContextTextMapPropagator()


def setup(service_name: str, environ: Mapping[str, str], *, instance: str = "") -> TracerProvider:
    """The tracer provider that the environment asks for; costs nothing and records nothing when it asks for none.

    Sampler, headers, certificates and batch sizes are read by the SDK itself from the standard OTEL_* variables.
    """
    exporter = _otlp_exporter(environ)
    trace_file = environ.get(TRACE_FILE_VARIABLE)
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or (exporter is None and not trace_file):
        return NoOpTracerProvider()
    attributes = {"service.name": f"phalanx-{service_name}", "service.namespace": "phalanx"}
    if instance:
        attributes["service.instance.id"] = instance
    provider = SdkTracerProvider(resource=Resource.create(attributes), shutdown_on_exit=False)
    if exporter is not None:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    if trace_file:
        provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(Path(trace_file))))
    return provider


def shutdown(provider: TracerProvider) -> None:
    """Send what is still buffered, for a few seconds at most; blocks, so call it off the event loop."""
    if isinstance(provider, SdkTracerProvider):
        provider.force_flush(_FLUSH_TIMEOUT_MS)
        provider.shutdown()


def inject() -> dict[str, str]:
    """Headers that carry the current span to another process; empty when there is none."""
    headers: dict[str, str] = {}
    if get_current_span().get_span_context().is_valid:
        _propagator.inject(headers)
    return headers


def extract(headers: Mapping[str, str] | None) -> Context | None:
    """The context that headers carry, for `start_as_current_span(context=…)`; None without a valid traceparent."""
    if not headers:
        return None
    carrier = {key.lower(): value for key, value in headers.items()}
    context = _propagator.extract(carrier, context=Context())
    return context if get_current_span(context).get_span_context().is_valid else None


def link(headers: Mapping[str, str] | None) -> Link | None:
    """A link to the span that headers carry: for causes beside the one that is the parent."""
    context = extract(headers)
    return None if context is None else Link(get_current_span(context).get_span_context())


def _otlp_exporter(environ: Mapping[str, str]) -> SpanExporter | None:
    """The OTLP exporter, when a standard variable asks for one."""
    wanted = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    endpoint = next((environ[name] for name in _ENDPOINTS if environ.get(name)), None)
    if wanted == "none" or (not wanted and endpoint is None):
        return None
    problems = []
    if wanted not in {"", "otlp"}:
        problems.append(f"OTEL_TRACES_EXPORTER: given {wanted!r}, expected otlp or none")
    problems += [
        f"{name}: given {environ[name]!r}, expected grpc, the only protocol that is built in"
        for name in _PROTOCOLS
        if environ.get(name, "grpc").strip().lower() != "grpc"
    ]
    if problems:
        raise SettingsError(problems)
    # Imported late: loads gRPC and protobuf, which a process without tracing need not pay for.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=endpoint)


class FileSpanExporter(SpanExporter):
    """Appends finished spans to a file as JSON lines; several processes may share the file."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One write per line on O_APPEND, so that lines of different processes never mix.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.Lock()
        self._open = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one line per span."""
        with self._lock:
            if not self._open:
                return SpanExportResult.FAILURE
            for span in spans:
                os.write(self._descriptor, orjson.dumps(_span_line(span), default=repr) + b"\n")
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Close the file."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._descriptor)

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002 - nothing is buffered
        """Nothing is buffered here."""
        return True


def _span_line(span: ReadableSpan) -> dict[str, object]:
    context = span.get_span_context()
    assert context is not None
    return {
        "trace_id": format_trace_id(context.trace_id),
        "span_id": format_span_id(context.span_id),
        "parent_id": format_span_id(span.parent.span_id) if span.parent else None,
        "name": span.name,
        "service": span.resource.attributes.get("service.name"),
        "instance": span.resource.attributes.get("service.instance.id"),
        "start_ns": span.start_time,
        "end_ns": span.end_time,
        "status": span.status.status_code.name,
        "attributes": dict(span.attributes or {}),
        "links": [
            {
                "trace_id": format_trace_id(item.context.trace_id),
                "span_id": format_span_id(item.context.span_id),
            }
            for item in span.links
        ],
        "events": [
            {"name": item.name, "ts_ns": item.timestamp, "attributes": dict(item.attributes or {})}
            for item in span.events
        ],
    }
