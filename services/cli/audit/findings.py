"""What a check says: findings that name an object and a field, and what could not be looked at."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Severity(IntEnum):
    """How much a finding matters to whoever upgrades; comparable."""

    INFO = 1
    """Worth knowing, nothing breaks."""
    WARNING = 2
    """Half configured, or it will break in a later release than the target."""
    ERROR = 3
    """Breaks at the target release, or is broken now."""

    @property
    def word(self) -> str:
        """The word that users read and give."""
        return self.name.lower()


SEVERITIES = {one.word: one for one in Severity}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found. `subject` is `<kind>/<namespace>/<name>`, without the namespace for cluster-scoped kinds.

    `is_inferred` marks what was concluded from effects, because the setting itself cannot be read.
    """

    check: str
    severity: Severity
    subject: str
    field: str
    found: str
    fix: str
    is_inferred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something that could not be looked at, the checks that it keeps from running, and what would help."""

    source: str
    problem: str
    fix: str
    checks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The outcome of an audit. Findings are sorted, gravest first."""

    origin: str
    server_version: str
    target: str
    findings: tuple[Finding, ...]
    gaps: tuple[Gap, ...]
    passed: tuple[str, ...]
    """Ids of the checks that ran and found nothing."""

    def count(self, severity: Severity) -> int:
        """Return how many findings have a severity."""
        return sum(one.severity is severity for one in self.findings)

    def worst(self) -> Severity | None:
        """Return the gravest severity found."""
        return max((one.severity for one in self.findings), default=None)


def ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings gravest first, then by check and object, so that two runs compare."""
    return tuple(sorted(findings, key=lambda one: (-one.severity, one.check, one.subject, one.field, one.found)))
