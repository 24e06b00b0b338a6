"""A report as a document: JSON with stable fields, SARIF 2.1.0, and Markdown."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from services.cli.audit.findings import Report, Severity
from services.cli.audit.grouping import OBJECTS_NAMED, Bundle, Rest, shortened, summarised
from services.cli.audit.proxy_migration import Migration, Step
from services.cli.audit.registry import Check
from services.cli.audit.rendering import headed, topic_text, verdict

PAGES = "docs/audit"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}

Checks = Sequence[Check]


def as_json(report: Report, checks: Checks, *, migration: Migration | None = None) -> str:
    """Return the report as JSON; its fields are stable."""
    titles = {one.id: one for one in checks}
    document = {
        "origin": report.origin,
        "serverVersion": report.server_version,
        "target": report.target,
        "verdict": verdict(report),
        "summary": {one.word: report.count(one) for one in Severity} | {"gaps": len(report.gaps)},
        "findings": [
            {
                "check": one.check,
                "theme": titles[one.check].theme,
                "title": titles[one.check].title,
                "severity": one.severity.word,
                "object": one.subject,
                "field": one.field,
                "found": one.found,
                "fix": one.fix,
                "inferred": one.is_inferred,
                "page": f"{PAGES}/{one.check}.md",
            }
            for one in report.findings
        ],
        "gaps": [
            {"source": one.source, "problem": one.problem, "fix": one.fix, "checks": list(one.checks)}
            for one in report.gaps
        ],
        "passed": list(report.passed),
        "kubeProxyMigration": None if migration is None else _migration_fields(migration),
    }
    return json.dumps(document, indent=2)


def _migration_fields(migration: Migration) -> dict[str, Any]:
    return {
        "mode": migration.mode,
        "object": migration.subject,
        "pools": [{"name": one.name, "nodes": one.nodes, "blocked": list(one.blocked)} for one in migration.pools],
        "steps": [_step_fields(one) for one in migration.steps],
        "rollback": [_step_fields(one) for one in migration.rollback],
    }


def _step_fields(step: Step) -> dict[str, Any]:
    return {"title": step.title, "detail": step.detail, "commands": list(step.commands)}


def as_markdown(report: Report, checks: Checks, *, migration: Migration | None = None) -> str:
    """Return the report as Markdown, for a ticket or a wiki."""
    lines = [
        f"# Audit of {report.origin} for {report.target}",
        "",
        verdict(report),
        "",
        *_summary_lines(report, checks),
    ]
    titles = {one.id: one.title for one in checks}
    for severity in sorted(Severity, reverse=True):
        found = [one for one in report.findings if one.severity is severity]
        if not found:
            continue
        lines += [
            f"## {severity.word.capitalize()}s",
            "",
            "| check | object | field | found | what to do |",
            "|---|---|---|---|---|",
        ]
        lines += [_row(one, titles=titles) for one in shortened(found)]
        lines.append("")
    if report.gaps:
        lines += ["## Could not look", ""]
        lines += [
            f"- {gap.source}: {gap.problem}. {gap.fix}. Not run: {', '.join(gap.checks) or '-'}." for gap in report.gaps
        ]
        lines.append("")
    if migration is not None:
        lines += _migration_lines(migration)
    return "\n".join(lines)


def _summary_lines(report: Report, checks: Checks) -> list[str]:
    lines = []
    for heading, topics in headed(summarised(report, checks), target=report.target):
        lines += [f"**{heading}**", "", *(f"- {topic_text(one)}" for one in topics), ""]
    return lines


def _row(one: Bundle | Rest, *, titles: Mapping[str, str]) -> str:
    title = f"{titles[one.check if isinstance(one, Rest) else one.first.check]}"
    if isinstance(one, Rest):
        cells = (f"{title} (`{one.check}`)", "", "", f"{one.findings} more: `-o json` has them all", "")
    else:
        first = one.first
        found = first.found + (" (inferred)" if first.is_inferred else "")
        named = ", ".join(f"`{subject}`" for subject in one.subjects[:OBJECTS_NAMED])
        more = len(one.subjects) - OBJECTS_NAMED
        subjects = f"{named} and {more} more" if more > 0 else named
        cells = (f"{title} (`{first.check}`)", subjects, f"`{first.field}`", found, first.fix)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _migration_lines(migration: Migration) -> list[str]:
    lines = ["## kube-proxy to nftables: a suggested order", "", f"Now {migration.mode} ({migration.subject}).", ""]
    for title, steps in (("", migration.steps), ("To go back", migration.rollback)):
        if title:
            lines += [f"### {title}", ""]
        for number, step in enumerate(steps, start=1):
            lines.append(f"{number}. **{step.title}**: {step.detail}")
            if step.commands:
                lines += ["", "   ```bash", *(f"   {command}" for command in step.commands), "   ```", ""]
        lines.append("")
    return lines


def as_sarif(report: Report, checks: Checks, *, migration: Migration | None = None) -> str:  # noqa: ARG001 - no place for it
    """Return the report as SARIF 2.1.0, which code hosts and scanners' dashboards read."""
    rules = [
        {
            "id": one.id,
            "shortDescription": {"text": one.title},
            "helpUri": f"{PAGES}/{one.id}.md",
            "properties": {"tags": [one.theme]},
        }
        for one in checks
    ]
    results = [
        {
            "ruleId": one.check,
            "level": _LEVELS[one.severity],
            "message": {"text": f"{one.subject} {one.field}: {one.found}. To do: {one.fix}"},
            "locations": [
                {
                    "physicalLocation": {"artifactLocation": {"uri": one.subject}},
                    "logicalLocations": [{"fullyQualifiedName": f"{one.subject}#{one.field}", "kind": "resource"}],
                }
            ],
            "partialFingerprints": {"finding/v1": f"{one.check}:{one.subject}:{one.field}"},
        }
        for one in report.findings
    ]
    notifications = [
        {"level": "warning", "message": {"text": f"{one.source}: {one.problem}. {one.fix}"}} for one in report.gaps
    ]
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "phalanx audit", "rules": rules}},
                "invocations": [{"executionSuccessful": not report.gaps, "toolExecutionNotifications": notifications}],
                "results": results,
            }
        ],
    }
    return json.dumps(document, indent=2)


class Renderer(Protocol):
    """Turns a report into a document."""

    def __call__(self, report: Report, checks: Checks, *, migration: Migration | None = None) -> str:
        """Return the document."""


TEXTS: Mapping[str, Renderer] = {"json": as_json, "sarif": as_sarif, "markdown": as_markdown}
