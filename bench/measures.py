"""Figures of benchmarks beside their goals: printed, and written with what the machine was doing meanwhile."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure. `goal` is an upper limit, or a lower one where `is_floor`; None where there is none."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    is_floor: bool = False

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.is_floor else self.value <= self.goal


def show(measures: Sequence[Measure], *, title: str) -> None:
    """Print figures, and how busy the machine is."""
    table = Table(title=title, title_justify="left")
    for column in ("measure", "value", "goal", ""):
        is_name = column == "measure"
        table.add_column(column, justify="left" if is_name else "right", no_wrap=not is_name)
    for measure in measures:
        sign = "≥" if measure.is_floor else "≤"
        goal = "" if measure.goal is None else f"{sign} {measure.goal:g} {measure.unit}"
        verdict = {None: "", True: "met", False: "[bold]missed[/bold]"}[measure.is_met]
        table.add_row(measure.name, f"{measure.value:,.2f} {measure.unit}", goal, verdict)
    Console().print(table)
    Console().print(f"{os.cpu_count()} cores, load average of the last minute {os.getloadavg()[0]:.1f}")


def write(measures: Sequence[Measure], *, inputs: Mapping[str, object], path: Path) -> None:
    """Write figures as JSON; whoever reads them should know how busy the machine was with other things."""
    path.parent.mkdir(exist_ok=True)
    machine = {
        "load_average": os.getloadavg(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    document = {"inputs": dict(inputs), "machine": machine, "measures": [asdict(measure) for measure in measures]}
    path.write_text(json.dumps(document, indent=2) + "\n")
