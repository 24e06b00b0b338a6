"""Durations in annotations: what people write, and what is refused before it can do harm."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.durations import DurationError, parse_duration


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("0s", timedelta(0)),
        ("30s", timedelta(seconds=30)),
        ("500ms", timedelta(milliseconds=500)),
        ("2m", timedelta(minutes=2)),
        ("1h30m", timedelta(minutes=90)),
        ("1m30s500ms", timedelta(seconds=90, milliseconds=500)),
        ("24h", timedelta(hours=24)),
    ],
)
def test_what_people_write(text: str, span: timedelta) -> None:
    """Numbers with units, in any combination."""
    assert parse_duration(text) == span


@pytest.mark.parametrize("text", ["", "30", "s", "1.5h", "-1s", "1 s", "1d", "30S", "1h 30m", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    """The message shows the form that is expected."""
    with pytest.raises(DurationError, match=r"such as 30s, 2m or 0s, got"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["25h", "86401s", "9" * 40 + "h", "9" * 5000 + "h", "0s" * 40 + "25h"])
def test_what_is_too_long(text: str) -> None:
    """A value from outside never overflows, and no part of it is overlooked."""
    with pytest.raises(DurationError, match="at most 24h"):
        parse_duration(text)


@given(text=st.text(alphabet="0123456789smh. -", max_size=80))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    """Annotations come from anybody."""
    try:
        span = parse_duration(text)
    except DurationError:
        return
    assert timedelta(0) <= span <= timedelta(hours=24)
