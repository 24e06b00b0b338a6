"""Findings as people can read them: equal ones together, and of one check not more than a screen.

Nothing is lost by it: JSON and SARIF have every finding.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from services.cli.audit.findings import Finding, Report, Severity
from services.cli.audit.registry import Check

MOST_OF_A_CHECK = 5
OBJECTS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Findings that say the same of different objects; `first` stands for them."""

    first: Finding
    subjects: tuple[str, ...]

    @property
    def shown_subjects(self) -> str:
        """The first objects, and how many more there are."""
        named = ", ".join(self.subjects[:OBJECTS_NAMED])
        more = len(self.subjects) - OBJECTS_NAMED
        return f"{named} and {more} more" if more > 0 else named


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """Bundles of a check that are not shown."""

    check: str
    severity: Severity
    findings: int


def bundled(findings: Iterable[Finding]) -> tuple[Bundle, ...]:
    """Put findings together that differ in their object alone, in the order of the first of each."""
    found: dict[tuple[object, ...], list[Finding]] = {}
    for one in findings:
        key = (one.severity, one.check, one.field, one.found, one.fix, one.is_inferred)
        found.setdefault(key, []).append(one)
    return tuple(Bundle(first=ones[0], subjects=tuple(one.subject for one in ones)) for ones in found.values())


def shortened(findings: Iterable[Finding], *, most: int = MOST_OF_A_CHECK) -> Iterator[Bundle | Rest]:
    """Yield the bundles, largest first, at most so many of one check and severity, and what is left out of each."""
    by_check: dict[tuple[Severity, str], list[Bundle]] = {}
    for one in bundled(findings):
        by_check.setdefault((one.first.severity, one.first.check), []).append(one)
    for (severity, check), bundles in by_check.items():
        ordered = sorted(bundles, key=lambda one: -len(one.subjects))
        yield from ordered[:most]
        left = sum(len(one.subjects) for one in ordered[most:])
        if left:
            yield Rest(check=check, severity=severity, findings=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One line of the summary for whoever decides: what, on how many objects."""

    check: str
    title: str
    objects: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The report for whoever decides: what has to be done before the upgrade, what later, and what is not known."""

    before: tuple[Topic, ...]
    later: tuple[Topic, ...]
    unknown: tuple[Topic, ...]


def summarised(report: Report, checks: Sequence[Check]) -> Summary:
    """Return the summary: titles of checks instead of findings, those with most objects first."""
    titles = {one.id: one.title for one in checks}
    hidden: dict[str, int] = {}
    for gap in report.gaps:
        for check in gap.checks:
            hidden[check] = hidden.get(check, 0) + 1
    errors = _counted(report, Severity.ERROR)
    return Summary(
        before=_topics(errors, titles),
        later=_topics(_counted(report, Severity.WARNING), titles),
        unknown=_topics(hidden, titles),
    )


def _counted(report: Report, severity: Severity) -> Mapping[str, int]:
    objects: dict[str, set[str]] = {}
    for one in report.findings:
        if one.severity is severity:
            objects.setdefault(one.check, set()).add(one.subject)
    return {check: len(subjects) for check, subjects in objects.items()}


def _topics(counts: Mapping[str, int], titles: Mapping[str, str]) -> tuple[Topic, ...]:
    found = [Topic(check=check, title=titles[check], objects=count) for check, count in counts.items()]
    return tuple(sorted(found, key=lambda one: (-one.objects, one.title)))
