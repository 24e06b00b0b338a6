"""A report on the terminal: the outcome, a summary for whoever decides, and the details for whoever repairs."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from services.cli.audit.findings import Report, Severity
from services.cli.audit.grouping import Bundle, Rest, Summary, Topic, shortened, summarised
from services.cli.audit.proxy_migration import Migration, Step
from services.cli.audit.registry import Check

_SIGNS = {Severity.ERROR: "✖ error", Severity.WARNING: "▲ warning", Severity.INFO: "● info"}
_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}

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


def headed(summary: Summary, *, target: str) -> Iterator[tuple[str, tuple[Topic, ...]]]:
    """Yield the parts of a summary that say something, with their headings."""
    for heading, topics in (
        (f"Before {target}", summary.before),
        ("Later, or half configured", summary.later),
        ("Not known, because something could not be read", summary.unknown),
    ):
        if topics:
            yield heading, topics


def topic_text(topic: Topic) -> str:
    """Return one line of the summary."""
    return topic.title + (f" ({topic.objects} objects)" if topic.objects > 1 else "")


def show_table(report: Report, checks: Checks, *, console: Console, migration: Migration | None = None) -> None:
    """Print the report: a summary, a line for each theme, the findings with what to do, and the verdict."""
    server = f", server {report.server_version}" if report.server_version else ""
    console.print(f"audit of {escape(report.origin)}{server}, for {report.target}\n", highlight=False)
    for heading, topics in headed(summarised(report, checks), target=report.target):
        console.print(heading, style="bold", highlight=False, markup=False)
        console.print(Group(*_indented(*(f"• {topic_text(one)}" for one in topics)), ""), highlight=False)
    console.print(themes(report, checks))
    console.print()
    for one in shortened(report.findings):
        console.print(_shown(one), highlight=False)
    for gap in report.gaps:
        console.print(Text.assemble(("○ could not look", "magenta"), f"  {gap.source}"), highlight=False)
        names = ", ".join(gap.checks)
        hidden = _indented(f"keeps from running: {names}", style="dim") if names else []
        console.print(Group(*_indented(gap.problem, f"→ {gap.fix}"), *hidden, ""), highlight=False)
    if migration is not None:
        _show_migration(migration, console=console)
    console.print(verdict(report), style="bold", highlight=False)


def _shown(one: Bundle | Rest) -> Group:
    if isinstance(one, Rest):
        line = Text.assemble(
            (_SIGNS[one.severity], _STYLES[one.severity]),
            f"  {one.findings} more of this check",
            (f"  {one.check}", "dim"),
        )
        return Group(line, *_indented("→ -o json has them all"), "")
    first = one.first
    inferred = "  (inferred)" if first.is_inferred else ""
    title = Text.assemble(
        (_SIGNS[first.severity], _STYLES[first.severity]),
        f"  {one.shown_subjects}",
        (f"  {first.check}{inferred}", "dim"),
    )
    return Group(title, *_indented(f"{first.field}: {first.found}", f"→ {first.fix}"), "")


def _show_migration(migration: Migration, *, console: Console) -> None:
    heading = f"kube-proxy to nftables: a suggested order (now {migration.mode}, {migration.subject})"
    console.print(heading, style="bold", highlight=False, markup=False)
    _show_steps(migration.steps, console=console)
    console.print("to go back:", style="bold", highlight=False)
    _show_steps(migration.rollback, console=console)
    console.print()


def _show_steps(steps: Sequence[Step], *, console: Console) -> None:
    for number, step in enumerate(steps, start=1):
        console.print(Group(*_indented(f"{number}. {step.title}: {step.detail}")), highlight=False)
        for command in step.commands:
            # Not broken where the screen is narrow: a command is copied.
            console.print(Text(f"       {command}", style="cyan"), soft_wrap=True, highlight=False)


def _indented(*lines: str, style: str = "") -> list[Padding]:
    """Return lines that stay indented where the screen is too narrow for them."""
    return [Padding(Text(line, style=style), (0, 0, 0, 4), expand=False) for line in lines]
