"""Durations as people write them in annotations: `30s`, `2m`, `1h30m`, `500ms`, `0s`."""

import re
from datetime import timedelta

_PART = re.compile(r"([0-9]+)(ms|s|m|h)")
_WHOLE = re.compile(r"(?:[0-9]+(?:ms|s|m|h))+")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_MOST_CHARACTERS = 64
"""Longer text is refused unread: annotations come from anybody."""

MAX_DURATION = timedelta(hours=24)


class DurationError(ValueError):
    """Text that is not a duration, or one that is too long."""


def parse_duration(text: str, *, longest: timedelta = MAX_DURATION) -> timedelta:
    """Return the duration. Raises DurationError."""
    if _WHOLE.fullmatch(text) is None:
        raise DurationError(f"expected a duration such as 30s, 2m or 0s, got {text[:_MOST_CHARACTERS]!r}")
    # Compared as integers: a timedelta would overflow on what must only be refused.
    total_ms = (
        sum(int(number) * _UNIT_MS[unit] for number, unit in _PART.findall(text))
        if len(text) <= _MOST_CHARACTERS
        else None
    )
    if total_ms is None or total_ms > longest // timedelta(milliseconds=1):
        raise DurationError(
            f"expected a duration of at most {longest // timedelta(hours=1)}h, got {text[:_MOST_CHARACTERS]!r}"
        )
    return timedelta(milliseconds=total_ms)
