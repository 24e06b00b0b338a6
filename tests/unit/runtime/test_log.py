"""Log lines: one JSON shape for everyone, and no secret in any of them."""

import io
import logging
import os
import warnings
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider

from services.runtime import log


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What is logged during the test; the process's logging is put back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    log.setup(service="placer", instance="placer-0", level="info", stream=stream)
    yield stream
    root.handlers, root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    """The decoded lines."""
    return [orjson.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_who_and_when(written: io.StringIO) -> None:
    """Fixed keys come first, fields follow, lower levels are left out."""
    logger = log.get("solver")
    logger.debug("not.seen")
    logger.info("gang.proposed", gang="podgroup/a/b", members=8)

    (line,) = lines(written)
    assert list(line)[:5] == ["ts", "level", "event", "service", "instance"]
    assert line["ts"].endswith("Z")
    assert (line["level"], line["event"], line["service"]) == ("info", "gang.proposed", "placer")
    assert (line["logger"], line["gang"], line["members"]) == ("solver", "podgroup/a/b", 8)


def test_a_logger_taken_before_setup_follows_it(written: io.StringIO) -> None:
    """Modules take their logger at import, long before settings are known."""
    early = log.get("early")
    log.setup(service="binder", instance="b", level="error", stream=written)
    early.warning("not.seen")
    early.error("seen")

    assert [line["service"] for line in lines(written)] == ["binder"]


def test_lines_lead_to_their_trace(written: io.StringIO) -> None:
    """Inside a span its ids are on the line, outside there are none."""
    with TracerProvider(shutdown_on_exit=False).get_tracer("t").start_as_current_span("s") as span:
        log.get("x").info("inside")
    log.get("x").info("outside")

    inside, outside = lines(written)
    assert inside["trace_id"] == f"{span.get_span_context().trace_id:032x}"
    assert inside["span_id"] == f"{span.get_span_context().span_id:016x}"
    assert "trace_id" not in outside


def test_libraries_speak_the_same(written: io.StringIO) -> None:
    """Lines and warnings of the standard library's logging have the same keys."""
    logging.getLogger("nats.client").warning("lost %s", "connection", extra={"server": "n1"})
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    first, second = lines(written)
    assert (first["event"], first["logger"], first["level"]) == ("lost connection", "nats.client", "warning")
    assert (first["service"], first["server"]) == ("placer", "n1")
    assert "DeprecationWarning" in second["event"]


def test_exceptions_keep_their_traceback(written: io.StringIO) -> None:
    """A traceback is a field of the one line that reports it."""
    try:
        os.environ["GONE"]
    except KeyError:
        log.get("x").exception("it.broke", gang="g")

    (line,) = lines(written)
    assert "KeyError: 'GONE'" in line["exception"]
    assert line["gang"] == "g"


def test_values_of_any_kind_can_be_logged(written: io.StringIO) -> None:
    """An object that JSON does not know is shown by its repr instead of failing the caller."""
    log.get("x").info("odd", thing=object, keys={1: {2}}, raw=b"bytes")

    (line,) = lines(written)
    assert line["thing"] == "<class 'object'>"
    assert line["keys"] == {"1": [2]}
    assert line["raw"] == "bytes"


SECRET = "s3cr3t-value-0123456789"
JSON_WEB_TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "fields",
    [
        {"token": SECRET},
        {"bearer_token": SECRET},
        {"Authorization": SECRET},
        {"db_password": SECRET},
        {"headers": {"authorization": [SECRET]}},
        {"config": [{"users": ({"client": {"clientSecret": SECRET}},)}]},
        {"text": f"GET / Authorization: Bearer {SECRET}"},
        {"url": f"nats://me:{SECRET}@server:4222"},
        {"raw": f"Bearer {SECRET}".encode()},
    ],
)
def test_secrets_never_reach_the_log(written: io.StringIO, fields: dict[str, Any]) -> None:
    """Secret-looking keys at any depth, and secrets inside texts, are replaced."""
    log.get("x").info("seen", **fields)

    assert SECRET not in written.getvalue()
    assert log.REDACTED in written.getvalue()


def test_secrets_in_messages_and_tracebacks_are_removed(written: io.StringIO) -> None:
    """The text of an event, of an exception and of a library's line is cleaned too."""
    try:
        int(f"bad token {JSON_WEB_TOKEN}")
    except ValueError:
        log.get("x").exception(f"failed with {JSON_WEB_TOKEN}")
    logging.getLogger("lib").error("sent Bearer %s", SECRET)

    assert JSON_WEB_TOKEN not in written.getvalue()
    assert SECRET not in written.getvalue()
    assert "nats://host:4222" in str(log.redact(None, "", {"url": "nats://host:4222"}))
