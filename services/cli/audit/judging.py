"""Runs the checks over evidence: findings, gaps where something could not be looked at, and what passed."""

from collections.abc import Iterable, Mapping

from services.cli.audit.evidence import Evidence, State
from services.cli.audit.findings import Finding, Gap, Report, ordered
from services.cli.audit.registry import Case, Check
from services.cli.audit.sources import BY_KEY


def audit(evidence: Evidence, *, checks: Iterable[Check], target: str) -> Report:
    """Judge everything that can be judged."""
    case = Case(evidence=evidence, target=target)
    findings: list[Finding] = []
    passed: list[str] = []
    hidden: dict[str, list[str]] = {}
    for check in checks:
        missing = [key for key in check.needs if _is_unknown(evidence, key)]
        for key in missing:
            hidden.setdefault(key, []).append(check.id)
        if missing:
            continue
        found = list(check.judge(case))
        findings.extend(found)
        if not found:
            passed.append(check.id)
    return Report(
        origin=evidence.origin,
        server_version=evidence.server_version,
        target=target,
        findings=ordered(findings),
        gaps=_gaps(evidence, hidden),
        passed=tuple(passed),
    )


def _is_unknown(evidence: Evidence, key: str) -> bool:
    """Tell whether nothing is known of a source. What is not served is known: there is nothing of it."""
    return evidence.reading(key).state is State.FAILED


def _gaps(evidence: Evidence, hidden: Mapping[str, list[str]]) -> tuple[Gap, ...]:
    return tuple(
        Gap(
            source=f"{key} ({BY_KEY[key].about})",
            problem=evidence.reading(key).problem,
            fix=evidence.reading(key).fix,
            checks=tuple(checks),
        )
        for key, checks in sorted(hidden.items())
    )
