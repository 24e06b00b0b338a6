"""Writes the table of the suites into ARCHITECTURE.md: `python -m tests.suites.document`.

Names and minutes come from the table in code, the times from the last run where it was a whole one.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import click

from tests.suites.table import ROOT, SUITES

PAGE = ROOT / "ARCHITECTURE.md"
REPORT = ROOT / "build" / "test-report.json"
_PART = re.compile(r"(<!-- suites:begin -->\n).*?(<!-- suites:end -->)", re.DOTALL)


def rows(durations_s: Mapping[str, float]) -> str:
    """Return the table."""
    lines = ["| suite | what it proves | minutes allowed | last time |", "|---|---|---|---|"]
    for suite in SUITES:
        last = f"{durations_s[suite.name]:.0f} s" if suite.name in durations_s else ""
        lines.append(f"| {suite.name} | {suite.about} | {suite.minutes:g} | {last} |")
    return "\n".join(lines) + "\n"


def documented(page: str, *, durations_s: Mapping[str, float]) -> str:
    """Return the page with the table between its marks."""
    return _PART.sub(lambda match: match[1] + rows(durations_s) + match[2], page)


def last_durations_s(report: Path) -> dict[str, float]:
    """Return the times of the last run, or none where not every suite ran."""
    if not report.exists():
        return {}
    durations_s = {one["name"]: one["duration_s"] for one in json.loads(report.read_text())["suites"]}
    return durations_s if set(durations_s) == {suite.name for suite in SUITES} else {}


@click.command()
def main() -> None:
    """Write the table."""
    page = PAGE.read_text()
    durations_s = last_durations_s(REPORT)
    if not durations_s:
        click.echo("no report of a whole run: the times are left empty (make test writes one)", err=True)
    PAGE.write_text(documented(page, durations_s=durations_s))


if __name__ == "__main__":
    main()
