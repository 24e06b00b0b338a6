"""When maintenance windows end."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from services.core.maintenance import EndError, parse_end, windows_of, written_end
from services.core.names import EXPIRES_AT_ANNOTATION

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


def rule(name: str, end: str | None, **metadata: Any) -> dict[str, Any]:
    """Return a rule with this end."""
    annotations = {} if end is None else {EXPIRES_AT_ANNOTATION: end}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "annotations": annotations,
            **metadata,
        }
    }


def test_rules_with_an_end_are_windows_and_the_next_comes_first() -> None:
    """Order is by time; rules without an end, or that are going, are none."""
    windows, unreadable = windows_of(
        [
            rule("late", "2026-12-01T14:00:00Z"),
            rule("soon", "2026-12-01T13:00:00+01:00"),
            rule("for-ever", None),
            rule("going", "2026-12-01T12:00:00Z", deletionTimestamp="2026-12-01T12:00:00Z"),
        ]
    )
    assert [(one.name, one.ends_at, one.version) for one in windows] == [
        ("soon", NOON, "7"),
        ("late", NOON + timedelta(hours=2), "7"),
    ]
    assert unreadable == ()


@pytest.mark.parametrize("text", ["", "soon", "2026-12-01T12:00:00", "2026-13-01T12:00:00Z", "12:00"])
def test_an_end_that_cannot_be_read_is_no_end(text: str) -> None:
    """Nothing is removed on a guess: the problem names rule, annotation and what was expected."""
    windows, (problem,) = windows_of([rule("r", text)])
    assert windows == ()
    assert "DeviceTaintRule r: metadata.annotations[phalanx.dev/expires-at]: expected an RFC 3339 time" in (
        problem.problem
    )
    with pytest.raises(EndError):
        parse_end(text)


def test_an_end_is_read_as_it_is_written() -> None:
    """Whatever the zone, what is written is UTC, and says the same moment."""
    moment = datetime(2026, 12, 1, 13, 0, 30, tzinfo=timezone(timedelta(hours=1)))
    assert written_end(moment) == "2026-12-01T12:00:30Z"
    assert parse_end(written_end(moment)) == moment
