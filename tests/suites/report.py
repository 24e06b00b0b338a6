"""What a run of the suites says at its end: a table, what failed, what was skipped and why, and one closing line."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.suites.results import Outcome, SuiteResult, grouped
from tests.suites.table import MOST_MINUTES, MOST_SETUP_MINUTES

_STYLES = {Outcome.PASSED: "green", Outcome.FAILED: "red", Outcome.SKIPPED: "yellow"}
_MOST_FAILURES_SHOWN = 30


def closing_line(results: Sequence[SuiteResult], *, duration_s: float) -> str:
    """Return the last line, in pytest's words. Set-up that failed shows in the suites that were skipped for it."""
    tests = [result.counts for result in results if not result.is_setup]
    passed = sum(counts.passed for counts in tests)
    failed = sum(len(counts.failures) for counts in tests)
    skipped = sum(len(counts.skips) for counts in tests)
    return f"{passed} passed, {failed} failed, {skipped} skipped in {duration_s:.1f} s"


def is_good(results: Sequence[SuiteResult], *, requires_all: bool) -> bool:
    """Tell whether the run succeeded: nothing failed, and where all is required nothing was skipped."""
    suites = [result for result in results if not result.is_setup]
    if any(result.outcome is Outcome.FAILED for result in suites):
        return False
    return not (requires_all and any(result.counts.skips for result in suites))


def show(results: Sequence[SuiteResult], *, console: Console, duration_s: float) -> None:
    """Print everything but what the log of a failed suite has shown already."""
    console.print(_table(results))
    setup_s = sum(result.duration_s for result in results if result.is_setup)
    suites_s = sum(result.duration_s for result in results if not result.is_setup)
    console.print(
        f"set-up {setup_s:.0f} s of {MOST_SETUP_MINUTES * 60} s allowed, "
        f"suites {suites_s:.0f} s of {MOST_MINUTES * 60} s allowed",
        highlight=False,
    )
    for result in results:
        for failure in result.counts.failures[:_MOST_FAILURES_SHOWN]:
            console.print(f"FAILED {result.name}: {failure}", markup=False, highlight=False)
        hidden = len(result.counts.failures) - _MOST_FAILURES_SHOWN
        if hidden > 0:
            console.print(f"FAILED {result.name}: and {hidden} more", highlight=False)
    for result in results:
        for reason in grouped(result.counts.skips):
            console.print(f"SKIPPED {result.name}: {reason}", markup=False, highlight=False)
    console.print(closing_line(results, duration_s=duration_s), highlight=False)


def write(results: Sequence[SuiteResult], *, folder: Path, duration_s: float) -> None:
    """Write `test-report.json` for programs, and the closing line for scripts that print more after it."""
    closing = closing_line(results, duration_s=duration_s)
    document = {
        "closing": closing,
        "duration_s": round(duration_s, 3),
        "suites": [
            {
                "name": result.name,
                "outcome": result.outcome.value,
                "is_setup": result.is_setup,
                "tests": result.counts.total,
                "passed": result.counts.passed,
                "failures": list(result.counts.failures),
                "skips": list(result.counts.skips),
                "duration_s": round(result.duration_s, 3),
                "allowed_s": result.allowed_s,
            }
            for result in results
        ],
    }
    (folder / "test-report.json").write_text(json.dumps(document, indent=2) + "\n")
    (folder / "closing-line.txt").write_text(closing + "\n")


def _table(results: Sequence[SuiteResult]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("suite", "outcome"):
        table.add_column(title)
    for title in ("tests", "seconds", "allowed"):
        table.add_column(title, justify="right")
    for result in results:
        word = "ready" if result.is_setup and result.outcome is Outcome.PASSED else result.outcome.value
        table.add_row(
            result.name,
            f"[{_STYLES[result.outcome]}]{word}[/]",
            "" if result.is_setup else str(result.counts.total),
            f"{result.duration_s:.1f}",
            f"{result.allowed_s:.0f}",
        )
    return table
