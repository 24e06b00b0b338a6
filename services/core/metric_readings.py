"""From what a metric source answered to one number that may be acted on, or to the reason why there is none.

Unknown is not zero. A number that no queue can have (NaN, infinite, negative), an answer without a number, the same
series twice, and an old answer are all unknown: whoever decides holds what it decided last.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

Labels = tuple[tuple[str, str], ...]
"""Labels as sorted pairs, so that values with labels can be keys."""

MAX_SAMPLE_AGE = timedelta(seconds=120)
"""An older sample says nothing about now; sources are read several times within that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricKey:
    """What a metric of an HPA is known by: its name, and the `matchLabels` of its selector."""

    name: str
    selector: Labels = ()

    def __str__(self) -> str:
        """Return it as people write it: `queue_depth{queue=infer}`."""
        labels = ",".join(f"{key}={value}" for key, value in self.selector)
        return f"{self.name}{{{labels}}}" if labels else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number that a source gave for one series; several series are added up, as the HPA does."""

    value: float
    taken_at: datetime
    labels: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A number that may be acted on until it is too old."""

    value: float
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """There is no number. `why` is a sentence about the source that goes on from its name: "does not exist"."""

    why: str


Reading = Known | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """What is known of a source: its last reading, and how many in a row were unknown."""

    reading: Reading
    failures: int = 0

    def after(self, reading: Reading, *, is_counted: bool = True) -> "SourceState":
        """Return the state after one more reading. One that came soon after another is no failure of its own."""
        failures = self.failures + is_counted if isinstance(reading, Unknown) else 0
        return replace(self, reading=reading, failures=failures)

    def at(self, now: datetime) -> Reading:
        """Return what may be acted on at this moment: a reading that has grown old is unknown."""
        reading = self.reading
        return _too_old(reading.taken_at, now=now) or reading if isinstance(reading, Known) else reading


NEVER_READ = SourceState(reading=Unknown(why="has not been read yet"))
"""Before the first reading: `after` it, one failure counts as one."""


def reading_of(samples: Sequence[Sample], *, now: datetime) -> Reading:
    """Return the sum of the series that a source gave, or why it has none."""
    if not samples:
        return Unknown(why="gave no number; no series is not zero")
    seen: set[Labels] = set()
    for sample in samples:
        if sample.labels in seen:
            labels = ",".join(f"{key}={value}" for key, value in sample.labels)
            return Unknown(why=f"gave the series {{{labels}}} twice")
        seen.add(sample.labels)
        if why := _impossible(sample.value):
            return Unknown(why=why)
    oldest = min(sample.taken_at for sample in samples)
    if old := _too_old(oldest, now=now):
        return old
    total = sum(sample.value for sample in samples)
    return Known(value=total, taken_at=oldest) if math.isfinite(total) else Unknown(why="gave numbers without a sum")


def _impossible(value: float) -> str:
    """Return what is wrong with a number that is to be the length of a queue; nothing where it can be one."""
    if not math.isfinite(value):
        return f"gave {value}, expected a number"
    return f"gave {value:g}, expected at least 0" if value < 0 else ""


def _too_old(taken_at: datetime, *, now: datetime) -> Unknown | None:
    if now - taken_at <= MAX_SAMPLE_AGE:
        return None
    return Unknown(why=f"gave no number for more than {MAX_SAMPLE_AGE.total_seconds():g} s")
