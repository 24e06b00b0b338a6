"""A report for people (table, Markdown) and for machines (JSON, SARIF 2.1.0)."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from services.cli.audit.findings import Finding, Report, Severity
from services.cli.audit.registry import Check

PAGES = "docs/audit"
_SIGNS = {Severity.ERROR: "✖ error", Severity.WARNING: "▲ warning", Severity.INFO: "● info"}
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}

Checks = Sequence[Check]


def verdict(report: Report) -> str:
    """Return the outcome in a sentence."""
    errors, warnings, infos = (report.count(one) for one in (Severity.ERROR, Severity.WARNING, Severity.INFO))
    counts = f"{errors} errors, {warnings} warnings, {infos} notes; {len(report.passed)} checks found nothing"
    if report.gaps:
        hidden = len({check for gap in report.gaps for check in gap.checks})
        counts += f"; {hidden} checks could not look"
    if errors:
        return f"Not ready for {report.target}: {counts}."
    if report.gaps:
        return f"Not known whether ready for {report.target}: {counts}."
    return f"{'Ready' if not warnings else 'Ready, with warnings,'} for {report.target}: {counts}."


def themes(report: Report, checks: Checks) -> Table:
    """Return the summary: a line for each theme."""
    theme_of = {one.id: one.theme for one in checks}
    counted = Counter((theme_of[one.check], one.severity) for one in report.findings)
    hidden = Counter(theme_of[check] for gap in report.gaps for check in set(gap.checks))
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("theme", "errors", "warnings", "notes", "could not look"):
        table.add_column(name, justify="left" if name == "theme" else "right")
    for theme in dict.fromkeys(one.theme for one in checks):
        counts = [counted[theme, severity] for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)]
        shown = [str(count) if count else "·" for count in (*counts, hidden[theme])]
        table.add_row(theme, *shown, style="bold" if counts[0] else "")
    return table


def show_table(report: Report, checks: Checks, *, console: Console) -> None:
    """Print the report: the verdict, a line for each theme, then every finding with what to do."""
    server = f", server {report.server_version}" if report.server_version else ""
    console.print(f"audit of {escape(report.origin)}{server}, for {report.target}\n", highlight=False)
    console.print(themes(report, checks))
    console.print()
    for finding in report.findings:
        console.print(_shown(finding), highlight=False)
    for gap in report.gaps:
        console.print(Text.assemble(("○ could not look", "magenta"), f"  {gap.source}"), highlight=False)
        hidden = _indented(f"keeps from running: {', '.join(gap.checks)}", style="dim")
        console.print(Group(*_indented(gap.problem, f"→ {gap.fix}"), *hidden, ""), highlight=False)
    console.print(verdict(report), style="bold", highlight=False)


def _shown(finding: Finding) -> Group:
    inferred = "  (inferred)" if finding.is_inferred else ""
    title = Text.assemble(
        (_SIGNS[finding.severity], _STYLES[finding.severity]),
        f"  {finding.subject}",
        (f"  {finding.check}{inferred}", "dim"),
    )
    return Group(title, *_indented(f"{finding.field}: {finding.found}", f"→ {finding.fix}"), "")


def _indented(*lines: str, style: str = "") -> list[Padding]:
    """Return lines that stay indented where the screen is too narrow for them."""
    return [Padding(Text(line, style=style), (0, 0, 0, 4), expand=False) for line in lines]


def as_json(report: Report, checks: Checks) -> str:
    """Return the report as JSON; its fields are stable."""
    titles = {one.id: one for one in checks}
    document = {
        "origin": report.origin,
        "serverVersion": report.server_version,
        "target": report.target,
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
    }
    return json.dumps(document, indent=2)


def as_markdown(report: Report, checks: Checks) -> str:
    """Return the report as Markdown, for a ticket or a wiki."""
    lines = [f"# Audit of {report.origin} for {report.target}", "", verdict(report), ""]
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
        for one in found:
            found_text = one.found + (" (inferred)" if one.is_inferred else "")
            cells = (f"{titles[one.check]} (`{one.check}`)", f"`{one.subject}`", f"`{one.field}`", found_text, one.fix)
            lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
        lines.append("")
    if report.gaps:
        lines += ["## Could not look", ""]
        lines += [f"- {gap.source}: {gap.problem}. {gap.fix}. Not run: {', '.join(gap.checks)}." for gap in report.gaps]
        lines.append("")
    return "\n".join(lines)


def as_sarif(report: Report, checks: Checks) -> str:
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


TEXTS: Mapping[str, Callable[[Report, Checks], str]] = {"json": as_json, "sarif": as_sarif, "markdown": as_markdown}
