"""What the demo shows: live progress while it runs, and the report at its end. Colours only repeat what words say."""

import asyncio
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from services.cli.demo.objects import DemoGang
from services.cli.demo.promises import Promise, Timing
from services.cli.demo.traces import Span, tree_of
from services.cli.demo.witness import PodRecord, Witness
from services.contracts.streams import STREAMS
from services.core.cold_start import Phase, took_s
from services.core.decisions import Committed, Degraded, Proposed, Refused, Repairing, RolledBack, Waiting
from services.core.scaling import Started

BAR_CELLS = 24
REFRESH_S = 0.1
PROGRESS_COLUMNS = 4
TRACE_WIDTH = 200
"""Columns for a trace in a file, where each span is to be one line."""

_OF_ONE_POD = re.compile(r"(\.pod\.[^.]+\.[^.]+-)[^.-]+-[^.-]+(\.[^.]+)$")

WORDS = {
    Proposed: "proposed",
    Waiting: "waiting",
    Committed: "committed",
    Refused: "refused",
    RolledBack: "rolled back",
    Repairing: "repairing",
    Degraded: "degraded",
}


@dataclass(slots=True, kw_only=True)
class Screen:
    """The terminal. Without one, each change of a gang becomes a line."""

    console: Console
    witness: Witness
    gangs: tuple[DemoGang, ...]
    started_s: float
    _told: list[str] = field(default_factory=list)
    _live: Live | None = None
    _last: dict[str, str] = field(default_factory=dict)

    def tell(self, sentence: str) -> None:
        """Show a sentence of the story."""
        stamp = f"{self.witness.clock.monotonic() - self.started_s:6.2f} s"
        # Whoever reads a file searches it by line; a terminal breaks at words.
        is_piped = not self.console.is_terminal
        self.console.print(f"[dim]{stamp}[/dim]  {escape(sentence)}", highlight=False, soft_wrap=is_piped)

    async def show(self) -> None:
        """Keep the progress current until cancelled."""
        if not self.console.is_terminal:
            await self._show_lines()
        with Live(self._progress(), console=self.console, refresh_per_second=10, transient=True) as live:
            while True:
                await asyncio.sleep(REFRESH_S)
                live.update(self._progress())

    async def _show_lines(self) -> None:
        while True:
            for gang in self.gangs:
                state = self._state(gang)
                if state and self._last.get(gang.name) != state:
                    self._last[gang.name] = state
                    self.tell(f"    {gang.name}: {state}, {self._counts(gang)}")
            await asyncio.sleep(REFRESH_S)

    def _progress(self) -> Table:
        table = Table(box=None, padding=(0, 1), show_header=False)
        for _ in range(PROGRESS_COLUMNS):
            table.add_column(no_wrap=True)
        for gang in self.gangs:
            pods = self.witness.of_gang(gang.name)
            if not pods:
                continue
            bound, finished = _numbers(gang, pods)
            full = BAR_CELLS * bound // gang.members
            done = BAR_CELLS * finished // gang.members
            bar = Text("█" * done, style="green") + Text("▓" * (full - done), style="yellow")
            bar += Text("·" * (BAR_CELLS - full), style="dim")
            table.add_row(gang.name, bar, self._counts(gang), self._state(gang))
        return table

    def _counts(self, gang: DemoGang) -> str:
        pods = self.witness.of_gang(gang.name)
        taken_back = sum(pod.is_taken_back and pod.bound_s is not None for pod in pods)
        if taken_back:
            return f"{taken_back} taken back, {sum(not pod.is_taken_back for pod in pods)} new"
        bound, finished = _numbers(gang, pods)
        return f"{bound}/{gang.members} bound, {finished} done"

    def _state(self, gang: DemoGang) -> str:
        heard = self.witness.decisions(gang.name)
        return WORDS[type(heard[-1].decision.event)] if heard else ""

    def report(
        self, kept: list[Promise], timings: list[Timing], *, trace: Span | None, started: Started | None = None
    ) -> None:
        """Show promises beside what happened, times beside goals, cold start and trace, and what to subscribe to."""
        self._show("")
        self._show(_promise_table(kept))
        if timings:
            self._show(_timing_table(timings))
        if started is not None:
            self._show(phase_table(started.ends_s))
        if trace is not None:
            self._show("[bold]One trace, from the event that made it possible to the last binding[/bold]")
            self._show(tree_of(trace), file_width=TRACE_WIDTH)
            self._show("")
        self._show(self._subjects())
        self._show("  [bold]subscribe to:[/bold]")
        for stream in STREAMS:
            self._show(f"    [bold]{stream.subjects[0]}[/bold]")
        self._show("  [dim]how to, also from a program: docs/subscribe.md[/dim]")

    def _show(self, part: RenderableType, *, file_width: int | None = None) -> None:
        """Print a part of the report; into a file as wide as it wants, and without the blanks that fill lines up."""
        if self.console.is_terminal:
            self.console.print(part, highlight=False)
            return
        text = io.StringIO()
        Console(file=text, width=file_width or self.console.width, color_system=None).print(part, highlight=False)
        for line in text.getvalue().splitlines():
            self.console.out(line.rstrip(), highlight=False)

    def _subjects(self) -> Table:
        table = Table(title="Subjects on the bus", title_justify="left", box=None, padding=(0, 2), show_header=False)
        counts: dict[str, int] = {}
        for one in self.witness.heard:
            # A pod alone has subjects of its own: those of one Deployment are one line.
            subject = _OF_ONE_POD.sub(r"\1*\2", one.subject)
            counts[subject] = counts.get(subject, 0) + 1
        for subject, count in sorted(counts.items()):
            table.add_row(subject, f"{count}")
        return table


def _numbers(gang: DemoGang, pods: list[PodRecord]) -> tuple[int, int]:
    """Return how many of its pods are bound, and how many have finished."""
    counted = [pod for pod in pods if not pod.is_taken_back]
    bound = sum(pod.bound_s is not None for pod in counted)
    return min(bound, gang.members), sum(pod.finished_s is not None for pod in counted)


def phase_table(ends_s: Mapping[Phase, float]) -> Table:
    """Return the phases of one cold start, and what each added."""
    table = Table(title="One message wakes a Deployment: its cold start", title_justify="left")
    for name, justify in (("phase", "left"), ("added", "right"), ("seconds since the signal", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for phase, added_s in took_s(ends_s).items():
        table.add_row(phase, f"{added_s:.3f}", f"{ends_s[phase]:.3f}")
    return table


def _promise_table(kept: list[Promise]) -> Table:
    table = Table(title="Promised, and what happened", title_justify="left")
    table.add_column("")
    table.add_column("promised", ratio=2)
    table.add_column("happened", ratio=3)
    for promise in kept:
        mark = "[green]held[/green]" if promise.is_held else "[bold red]BROKEN[/bold red]"
        table.add_row(mark, escape(promise.text), escape(promise.happened))
    return table


def _timing_table(timings: list[Timing]) -> Table:
    table = Table(title="Times (shown, not judged: machines differ)", title_justify="left")
    has_goals = any(timing.goal_s is not None for timing in timings)
    for name in ("from → to", "took", *(["goal"] if has_goals else [])):
        table.add_column(name)
    for timing in timings:
        goal = "" if timing.goal_s is None else f"{timing.goal_s:.1f} s"
        table.add_row(timing.text, f"{timing.measured_s:.3f} s", *([goal] if has_goals else []))
    return table
