"""Runs the checks over evidence: findings, gaps where something could not be looked at, and what passed."""

from collections.abc import Iterable, Mapping

from services.cli.audit.evidence import Evidence, State
from services.cli.audit.findings import Finding, Gap, Report, ordered
from services.cli.audit.optional_sources import EVERY_SOURCE
from services.cli.audit.registry import Case, Check


def audit(evidence: Evidence, *, checks: Iterable[Check], target: str) -> Report:
    """Judge everything that can be judged."""
    case = Case(evidence=evidence, target=target)
    findings: list[Finding] = []
    passed: list[str] = []
    hidden: dict[str, list[str]] = {}
    unseen: list[Gap] = []
    for check in checks:
        states = {key: evidence.reading(key).state for key in check.needs}
        if State.UNASKED in states.values():
            continue
        missing = [
            key for key, state in states.items() if state is State.FAILED and not check.concludes_without(key, evidence)
        ]
        # Also where the rest was read: what is missing of a source is told.
        partly = [key for key, state in states.items() if state is State.READ and evidence.reading(key).problem]
        for key in (*missing, *partly):
            hidden.setdefault(key, []).append(check.id)
        if missing:
            continue
        found = list(check.judge(case))
        findings.extend(one for one in found if isinstance(one, Finding))
        unseen.extend(one for one in found if isinstance(one, Gap))
        if not found and not partly:
            passed.append(check.id)
    return Report(
        origin=evidence.origin,
        server_version=evidence.server_version,
        target=target,
        findings=ordered(findings),
        gaps=(*_damages(evidence), *_gaps(evidence, hidden), *_merged(unseen)),
        passed=tuple(passed),
    )


def _gaps(evidence: Evidence, hidden: Mapping[str, list[str]]) -> tuple[Gap, ...]:
    return tuple(
        Gap(
            source=f"{key} ({EVERY_SOURCE[key].about})",
            problem=evidence.reading(key).problem,
            fix=evidence.reading(key).fix,
            checks=tuple(checks),
        )
        for key, checks in sorted(hidden.items())
    )


def _damages(evidence: Evidence) -> tuple[Gap, ...]:
    """Return a gap for each file that could not be read: what it held may be missing in every check."""
    return tuple(
        Gap(source="dump", problem=problem, fix="make this file again", checks=()) for problem in evidence.damages
    )


def _merged(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return one gap where several checks lack the same."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for one in gaps:
        found.setdefault((one.source, one.problem, one.fix), []).extend(one.checks)
    return tuple(
        Gap(source=source, problem=problem, fix=fix, checks=tuple(checks))
        for (source, problem, fix), checks in found.items()
    )
