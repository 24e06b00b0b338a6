"""What a source answered: one number that a queue can have, or unknown. Unknown is never zero."""

import math
from datetime import timedelta

import pytest

from services.core.metric_readings import MAX_SAMPLE_AGE, NEVER_READ, Known, Sample, Unknown, reading_of
from tests.builders import START

A, B = (("queue", "a"),), (("queue", "b"),)


@pytest.mark.parametrize(
    ("samples", "why"),
    [
        ((), "no series is not zero"),
        ((Sample(value=math.nan, taken_at=START),), "gave nan"),
        ((Sample(value=math.inf, taken_at=START),), "gave inf"),
        ((Sample(value=-math.inf, taken_at=START),), "gave -inf"),
        ((Sample(value=-1, taken_at=START),), "expected at least 0"),
        ((Sample(value=1, taken_at=START, labels=A), Sample(value=1, taken_at=START, labels=A)), "{queue=a} twice"),
        ((Sample(value=1, taken_at=START, labels=A), Sample(value=-1, taken_at=START, labels=B)), "at least 0"),
        ((Sample(value=0, taken_at=START - MAX_SAMPLE_AGE - timedelta(seconds=1)),), "for more than 120 s"),
        (
            (Sample(value=1e308, taken_at=START, labels=A), Sample(value=1e308, taken_at=START, labels=B)),
            "without a sum",
        ),
    ],
)
def test_what_no_queue_can_say_is_unknown(samples: tuple[Sample, ...], why: str) -> None:
    """Each has its own sentence."""
    reading = reading_of(samples, now=START)
    assert isinstance(reading, Unknown)
    assert why in reading.why


def test_several_series_are_added_up() -> None:
    """As the HPA adds the items of a metric; the age is that of the oldest."""
    old = START - timedelta(seconds=5)
    samples = (Sample(value=2, taken_at=START, labels=A), Sample(value=3, taken_at=old, labels=B))
    assert reading_of(samples, now=START) == Known(value=5, taken_at=old)


def test_a_reading_grows_old() -> None:
    """Without a newer one it says nothing about now."""
    state = NEVER_READ.after(Known(value=0, taken_at=START))
    assert state.at(START + MAX_SAMPLE_AGE) == state.reading
    assert isinstance(state.at(START + MAX_SAMPLE_AGE + timedelta(seconds=1)), Unknown)


def test_failures_are_counted_in_a_row() -> None:
    """One good reading ends the row."""
    down = Unknown(why="is down")
    state = NEVER_READ.after(down).after(down)
    assert state.failures == 2
    assert state.after(down, is_counted=False).failures == 2
    assert state.after(Known(value=1, taken_at=START)).failures == 0
