"""What came of a suite, and how JUnit XML is counted."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

_LONGEST_REASON = 300


class Outcome(StrEnum):
    """What a suite came to."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Tests by outcome; `failures` and `skips` name each with its reason."""

    passed: int = 0
    failures: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()

    def __add__(self, other: "Counts") -> "Counts":
        """Add up the steps of a suite."""
        return Counts(
            passed=self.passed + other.passed,
            failures=self.failures + other.failures,
            skips=self.skips + other.skips,
        )

    @property
    def total(self) -> int:
        """All tests."""
        return self.passed + len(self.failures) + len(self.skips)

    @property
    def outcome(self) -> Outcome:
        """Failed where one failed or none ran; skipped where all were."""
        if self.failures or not self.total:
            return Outcome.FAILED
        return Outcome.PASSED if self.passed else Outcome.SKIPPED


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """One line of the final table."""

    name: str
    counts: Counts
    duration_s: float
    allowed_s: float
    is_setup: bool = False

    @property
    def outcome(self) -> Outcome:
        """What the suite came to."""
        return self.counts.outcome


def counted(xml: Path) -> Counts:
    """Return the counts of a JUnit file, or a failure where there is none to read."""
    try:
        root = ET.parse(xml).getroot()  # noqa: S314 - the file is the one that the suite has just written
    except (OSError, ET.ParseError) as error:
        return Counts(failures=(f"no test report was written: {error}",))
    counts = Counts()
    for case in root.iter("testcase"):
        counts += _one(case)
    return counts


def _one(case: ET.Element) -> Counts:
    name = f"{case.get('classname', '')}.{case.get('name', '')}".strip(".")
    for tag in ("failure", "error"):
        found = case.find(tag)
        if found is not None:
            return Counts(failures=(f"{name}: {_first_line(found)}",))
    skipped = case.find("skipped")
    return Counts(passed=1) if skipped is None else Counts(skips=(_first_line(skipped),))


def _first_line(element: ET.Element) -> str:
    lines = (element.get("message") or element.text or "").strip().splitlines()
    return lines[0][:_LONGEST_REASON] if lines else "no reason given"


def grouped(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Return each reason once, with its number where it is more than one."""
    return tuple(f"{count} times {reason}" if count > 1 else reason for reason, count in Counter(reasons).items())
