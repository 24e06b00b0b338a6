"""Logs as JSON lines on stdout, one shape for our events and for every library that uses `logging`.

Event names are fixed words (`gang.proposed`), everything that varies is a field. Trace and span ids are added from
the current span, so a log line leads to its trace. Secrets are removed here, at the one way out.
"""

import logging
import re
import sys
from collections.abc import Mapping
from typing import TextIO, cast

import orjson
import structlog
from opentelemetry import trace
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

REDACTED = "[redacted]"

_SECRET_KEY = re.compile(r"token|authorization|password|secret|credential|private_?key|cookie", re.IGNORECASE)
# Secrets inside longer texts: header values, JSON web tokens, passwords in URLs.
_SECRET_TEXT = re.compile(
    r"(?P<scheme>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}"
    r"|\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
    r"|(?P<user>://[^/\s:@]*:)[^/\s@]+(?=@)"
)
# structlog keeps the word "logger" for itself until the line is built.
_NAME_KEY = "_name"
_DEEPEST = 6
_FIRST_KEYS = ("ts", "level", "event", "service", "instance", "trace_id", "span_id")


def setup(*, service: str, instance: str, level: str = "info", stream: TextIO | None = None) -> None:
    """Route structlog and the standard library's logging to `stream` (stdout) as JSON lines."""
    stream = stream or sys.stdout
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
        _Identity(service=service, instance=instance),
        redact,
        _ordered,
    ]
    renderer = structlog.processors.JSONRenderer(serializer=_dumps)
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder(), *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    # Libraries talk about their own insides below warning; ours is what the level setting is for.
    root.setLevel(max(number, logging.WARNING) if number > logging.DEBUG else number)
    logging.captureWarnings(capture=True)


def get(name: str) -> FilteringBoundLogger:
    """A logger whose lines carry `logger=name`; may be taken before `setup` and follows it."""
    return cast("FilteringBoundLogger", structlog.get_logger(**{_NAME_KEY: name}))


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace values of secret-looking keys at any depth, and secrets inside texts."""
    return {key: _clean(value, key=key, depth=0) for key, value in event.items()}


def _clean(value: object, *, key: str, depth: int) -> object:
    if value is not None and _SECRET_KEY.search(key):
        return REDACTED
    if isinstance(value, str):
        return _SECRET_TEXT.sub(_masked, value)
    if isinstance(value, bytes):
        return _clean(value.decode(errors="replace"), key=key, depth=depth)
    if depth >= _DEEPEST or not isinstance(value, Mapping | list | tuple | set | frozenset):
        return value
    if isinstance(value, Mapping):
        return {str(inner): _clean(item, key=str(inner), depth=depth + 1) for inner, item in value.items()}
    return [_clean(item, key="", depth=depth + 1) for item in value]


def _masked(match: re.Match[str]) -> str:
    return (match["scheme"] or match["user"] or "") + REDACTED


class _Identity:
    """Adds who speaks and in which trace."""

    def __init__(self, *, service: str, instance: str) -> None:
        self._service = service
        self._instance = instance

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        if _NAME_KEY in event:
            event["logger"] = event.pop(_NAME_KEY)
        event["service"] = self._service
        event["instance"] = self._instance
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            event["trace_id"] = trace.format_trace_id(context.trace_id)
            event["span_id"] = trace.format_span_id(context.span_id)
        return event


def _ordered(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put what every line has first, so that raw logs can be read by eye."""
    first = {key: event[key] for key in _FIRST_KEYS if key in event}
    return {**first, **event}


def _dumps(event: EventDict, **_unused: object) -> str:
    return orjson.dumps(event, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()
