"""Traces: off by default and free, propagated even so, written to a file on request."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.trace import NoOpTracerProvider

from services.runtime import telemetry
from services.runtime.settings import SettingsError

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
INCOMING = {"traceparent": f"00-{TRACE_ID}-00f067aa0ba902b7-01"}


def read_spans(path: Path) -> list[dict[str, Any]]:
    """The spans in a trace file."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"},
        {"OTEL_SERVICE_NAME": "only-a-name"},
    ],
)
def test_tracing_is_off_unless_asked_for(environ: dict[str, str]) -> None:
    """Without an exporter, or with the SDK disabled, no span records anything."""
    provider = telemetry.setup("placer", environ)

    assert isinstance(provider, NoOpTracerProvider)
    with provider.get_tracer("t").start_as_current_span("s") as span:
        assert not span.is_recording()
        assert telemetry.inject() == {}
    telemetry.shutdown(provider)


def test_an_incoming_trace_passes_through_when_off() -> None:
    """A service without a collector hands on the context that it was given, through nested spans."""
    tracer = telemetry.setup("placer", {}).get_tracer("t")

    with (
        tracer.start_as_current_span("outer", context=telemetry.extract(INCOMING)),
        tracer.start_as_current_span("inner"),
    ):
        assert telemetry.inject() == INCOMING
    assert telemetry.inject() == {}


@pytest.mark.parametrize("headers", [None, {}, {"traceparent": "nonsense"}, {"traceparent": "00-0-0-00"}])
def test_no_valid_header_means_no_context(headers: dict[str, str] | None) -> None:
    """Missing and malformed headers start a new trace instead of failing."""
    assert telemetry.extract(headers) is None
    assert telemetry.link(headers) is None


def test_header_names_are_case_insensitive() -> None:
    """NATS and HTTP libraries spell header names differently."""
    found = telemetry.link({"Traceparent": INCOMING["traceparent"]})

    assert found is not None
    assert f"{found.context.trace_id:032x}" == TRACE_ID


def test_spans_are_written_to_a_file(tmp_path: Path) -> None:
    """The trace file alone is enough to rebuild the tree: ids, parents, links, attributes and times."""
    path = tmp_path / "deep" / "trace.jsonl"
    provider = telemetry.setup("binder", {telemetry.TRACE_FILE_VARIABLE: str(path)}, instance="binder-0")
    assert isinstance(provider, SdkTracerProvider)
    tracer = provider.get_tracer("t")
    cause = telemetry.link(INCOMING)
    assert cause is not None

    with tracer.start_as_current_span(telemetry.SPAN_TRANSACTION, attributes={telemetry.ATTR_GANG: "g"}):
        with tracer.start_as_current_span(telemetry.SPAN_BINDING, links=[cause]) as span:
            span.add_event("retried", {"attempt": 2})
        carried = telemetry.inject()
    telemetry.shutdown(provider)

    child, parent = read_spans(path)
    assert (child["name"], parent["name"]) == ("binding", "transaction")
    assert child["trace_id"] == parent["trace_id"]
    assert child["parent_id"] == parent["span_id"]
    assert parent["parent_id"] is None
    assert parent["attributes"] == {"phalanx.gang": "g"}
    assert (parent["service"], parent["instance"]) == ("phalanx-binder", "binder-0")
    assert child["links"][0]["trace_id"] == TRACE_ID
    assert child["events"][0]["name"] == "retried"
    assert parent["start_ns"] <= child["start_ns"] <= child["end_ns"] <= parent["end_ns"]
    assert carried["traceparent"].split("-")[1] == parent["trace_id"]


def test_two_processes_share_a_trace_file(tmp_path: Path) -> None:
    """A trace that crosses services is one trace in the file."""
    environ = {telemetry.TRACE_FILE_VARIABLE: str(tmp_path / "trace.jsonl")}
    watcher, placer = telemetry.setup("watcher", environ), telemetry.setup("placer", environ)

    with watcher.get_tracer("t").start_as_current_span(telemetry.SPAN_WATCH_EVENT):
        headers = telemetry.inject()
    with placer.get_tracer("t").start_as_current_span(telemetry.SPAN_GANG_DECIDE, context=telemetry.extract(headers)):
        pass
    for provider in (watcher, placer):
        telemetry.shutdown(provider)

    first, second = read_spans(tmp_path / "trace.jsonl")
    assert second["trace_id"] == first["trace_id"]
    assert second["parent_id"] == first["span_id"]
    assert (first["service"], second["service"]) == ("phalanx-watcher", "phalanx-placer")


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ),
    ],
)
def test_an_exporter_that_is_not_built_in_is_refused(environ: dict[str, str], named: str) -> None:
    """Asking for what cannot be done is an error with the variable's name, not silence."""
    with pytest.raises(SettingsError, match=named):
        telemetry.setup("placer", environ)


def test_telemetry_names_are_fixed() -> None:
    """Dashboards and the demo know these names: changing one is a visible act."""
    names = {key: value for key, value in vars(telemetry).items() if key.startswith(("SPAN_", "ATTR_"))}

    assert sorted(names.values()) == sorted(
        [
            "watch.event",
            "gang.decide",
            "transaction",
            "transaction.check",
            "transaction.dry_run",
            "transaction.claims",
            "transaction.bind",
            "transaction.evict",
            "transaction.prepare",
            "transaction.free",
            "transaction.repair",
            "transaction.undo",
            "binding",
            "wake",
            "wake.phase",
            "phalanx.hpa",
            "phalanx.phase",
            "phalanx.replicas",
            "phalanx.gang",
            "phalanx.transaction",
            "phalanx.revision",
            "phalanx.node",
            "phalanx.pod",
            "k8s.namespace.name",
            "phalanx.reason",
            "phalanx.event",
            "phalanx.subject",
            "phalanx.outcome",
        ]
    )
