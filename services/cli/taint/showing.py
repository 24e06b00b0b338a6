"""Tables and sentences of `phalanx taint`."""

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from services.cli.taint.rules import Manifest, ending, selected_by, taint_in
from services.cli.taint.what_if import Elsewhere, Verdict, WhatIf, names_of
from services.core.blast import NO_EXECUTE, Loss

NAMES_SHOWN = 10
_STYLES = {Verdict.FITS: "green", Verdict.PARTLY: "yellow", Verdict.LACKS: "bold red", Verdict.UNKNOWN: "magenta"}


def show_what_if(found: WhatIf, *, selection: str, console: Console) -> None:
    """Print what a rule would do."""
    blast = found.blast
    heading = f"{blast.effect} on {selection}: {blast.selected} of {blast.published} devices"
    console.print(heading, style="bold", highlight=False, markup=False)
    _names("claims that hold them", blast.claims, console=console)
    victims = names_of(blast.victims)
    if blast.effect == NO_EXECUTE:
        _names("pods that are deleted, without a look at PodDisruptionBudgets or gangs", victims, console=console)
    else:
        _names(
            "running pods keep these devices; NoExecute would delete", victims, console=console, is_silent_if_empty=True
        )
    if blast.tolerant:
        console.print(f"pods that tolerate the taint for ever: {blast.tolerant}", highlight=False)
    if blast.is_deadly:
        _gangs(blast.losses, {one.gang: one for one in found.elsewhere}, console=console)
        _names(
            "pods without a controller, which nobody recreates",
            names_of(found.for_good),
            console=console,
            is_silent_if_empty=True,
        )
    for problem in found.problems:
        console.print(Text.assemble(("○ could not look  ", "magenta"), problem))


def _gangs(losses: Iterable[Loss], answers: Mapping[str, Elsewhere], *, console: Console) -> None:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("gang or pod", "needs", "loses", "left", "", "the lost ones elsewhere"):
        table.add_column(name, justify="right" if name in {"needs", "loses", "left"} else "left")
    rows = {one.name: one for one in losses}
    for name in (*rows, *(gang for gang in answers if gang not in rows)):
        loss, answer = rows.get(name), answers.get(name)
        counts = ("1", "1", "0") if loss is None else (str(loss.min_count), str(loss.lost), str(loss.left))
        is_broken = loss is None or loss.is_broken
        table.add_row(name, *counts, Text("breaks", "bold red") if is_broken else "goes on", _answer(answer))
    if table.row_count:
        console.print(table)


def _answer(answer: Elsewhere | None) -> Text:
    if answer is None:
        return Text("nobody recreates them", "bold red")
    where = ", ".join(f"{count} on {node}" for node, count in answer.nodes)
    detail = "; ".join(part for part in (answer.why, where) if part)
    return Text(f"{answer.verdict.value}{': ' if detail else ''}{detail}", _STYLES[answer.verdict])


def _names(title: str, names: tuple[str, ...], *, console: Console, is_silent_if_empty: bool = False) -> None:
    if not names:
        if not is_silent_if_empty:
            console.print(f"{title}: none", highlight=False, markup=False)
        return
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    shown = f"{title} ({len(names)}): {', '.join(names[:NAMES_SHOWN])}{more}"
    console.print(shown, highlight=False, markup=False, soft_wrap=True)


def show_rules(rules: Iterable[tuple[Manifest, str]], *, console: Console) -> None:
    """Print rules, each with how many claims hold its devices."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for name in ("rule", "devices", "taint", "claims", "ends (UTC)"):
        table.add_column(name, overflow="fold")
    for rule, claims in rules:
        table.add_row(rule["metadata"]["name"], selected_by(rule), str(taint_in(rule)), claims, ending(rule))
    console.print(table)
