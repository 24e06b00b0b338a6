"""Durations as people write them in annotations: `30s`, `2m`, `1h30m`, `500ms`, `0s`."""

import re
from datetime import timedelta

_PART = re.compile(r"(\d+)(ms|s|m|h)")
_WHOLE = re.compile(r"(?:\d+(?:ms|s|m|h))+")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

MAX_DURATION = timedelta(hours=24)


class DurationError(ValueError):
    """Text that is not a duration, or one that is too long."""


def parse_duration(text: str) -> timedelta:
    """Return the duration. Raises DurationError."""
    if _WHOLE.fullmatch(text) is None:
        raise DurationError(f"expected a duration such as 30s, 2m or 0s, got {text!r}")
    total = timedelta(milliseconds=sum(int(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text[:64])))
    if total > MAX_DURATION:
        raise DurationError(f"expected a duration of at most 24h, got {text!r}")
    return total
