"""The checks: what each is called, what it reads, and the function that judges.

A check is a function from evidence to findings. Its id is stable, and its page is `docs/audit/<id>.md`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from services.cli.audit.evidence import Evidence
from services.cli.audit.findings import Finding, Gap, Severity

TARGETS = ("1.37", "1.40", "1.43")
"""Releases that an audit can be made for: each removes or flips something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a check judges: the evidence, and the release that is aimed at."""

    evidence: Evidence
    target: str

    def reaches(self, release: str) -> bool:
        """Tell whether the target is this release or a later one."""
        return minor_of(self.target) >= minor_of(release)


Judge = Callable[[Case], Iterable[Finding | Gap]]
"""A check that learns in the middle that it cannot look says so by a Gap."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check. Without the sources in `needs` it does not run and a gap is reported.

    `instead` has, for a source that may be out of reach, whether something else that was read tells the same.
    """

    id: str
    theme: str
    title: str
    needs: tuple[str, ...]
    judge: Judge
    instead: Mapping[str, Callable[[Evidence], bool]] = field(default_factory=dict)

    def concludes_without(self, source: str, evidence: Evidence) -> bool:
        """Tell whether the check can be made by effects, without a source."""
        tells = self.instead.get(source)
        return tells is not None and tells(evidence)


def minor_of(version: str) -> tuple[int, int]:
    """Return major and minor of a version as `1.37.2-gke.1`; (0, 0) where it is none."""
    parts = version.split("-", maxsplit=1)[0].split("+", maxsplit=1)[0].split(".")
    if len(parts) < 2 or not parts[0].isdigit() or not parts[1].isdigit():  # noqa: PLR2004 - major and minor
        return (0, 0)
    return int(parts[0]), int(parts[1])


class Finder:
    """Makes findings of one check."""

    def __init__(self, check: str) -> None:
        """Name the check."""
        self._check = check

    def __call__(
        self, severity: Severity, *, subject: str, field: str, found: str, fix: str, is_inferred: bool = False
    ) -> Finding:
        """Return a finding."""
        return Finding(
            check=self._check,
            severity=severity,
            subject=subject,
            field=field,
            found=found,
            fix=fix,
            is_inferred=is_inferred,
        )
