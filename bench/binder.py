"""The binder against bare loops and the native scheduler on a real API server: `python -m bench.binder`.

Three parts; every figure is what the API server's audit log says.

`burst`: the binder alone binds a gang, in turns with a bare loop in Go (client-go, protobuf) and one in Python
(aiohttp, uvloop) on as many connections. A rate is that of the first to the last binding. Each round is compared with
itself, and the median of these ratios is judged; a machine on which the faster loop is under 900 a second proves
nothing.

`gang`: all of Phalanx, from the last pod created to all 64 bound, in turns with the native scheduler.

`undo`: one binding of 64 is refused, and there is no repair window: how soon all deletions are accepted, and how soon
the next gang is bound there, on nodes that confirm a deletion after 100 ms.
"""

import asyncio
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from bench.binder_burst import Burst, staged
from bench.binder_system import NATIVE, PHALANX, UndoTimes, system_stage
from tests.kubernetes import build

RESULT = Path("build/bench-binder.json")
RATIO_GOAL = 0.85
LEAST_LOOP_RATE = 900.0
BURST_GOAL_S = 1.2
UNDO_GOAL_S = 1.0
USABLE_GOAL_S = 2.0
PARTS = ("burst", "gang", "undo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One figure with its goal: an upper limit, or a lower one where `is_floor`; None where there is none."""

    name: str
    values: tuple[float, ...]
    unit: str
    goal: float | None = None
    is_floor: bool = False

    @property
    def value(self) -> float:
        """The median, which is judged."""
        return median(self.values)

    @property
    def is_met(self) -> bool | None:
        """Whether the goal is met."""
        if self.goal is None:
            return None
        return self.value >= self.goal if self.is_floor else self.value <= self.goal


@click.command(help=__doc__)
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), default=PARTS, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--members", default=1_000, show_default=True, help="of each burst")
@click.option("--connections", default=16, show_default=True, help="of the binder and of each loop")
def main(parts: tuple[str, ...], rounds: int, members: int, connections: int) -> None:
    """Measure, print, write, and exit with 1 where a goal is missed and with 2 where the run is void."""
    loop = build.binding_loop()
    go_loop = build.ensure(further=[loop]) / loop.name
    measures: list[Measure] = []
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as name:
        if "burst" in parts:
            measures += asyncio.run(
                _burst(Path(name), rounds=rounds, members=members, connections=connections, go_loop=go_loop)
            )
        if {"gang", "undo"} & set(parts):
            measures += asyncio.run(_system(Path(name), parts=parts, rounds=rounds))
    _print(measures)
    _write(measures, inputs={"rounds": rounds, "members": members, "connections": connections})
    loops = [one.value for one in measures if one.name.startswith("bare loop")]
    if loops and max(loops) < LEAST_LOOP_RATE:
        Console().print(f"void: the faster loop made {max(loops):.0f}/s, and {LEAST_LOOP_RATE:.0f}/s are needed")
        sys.exit(2)
    sys.exit(any(one.is_met is False for one in measures))


async def _burst(folder: Path, *, rounds: int, members: int, connections: int, go_loop: Path) -> list[Measure]:
    go: list[Burst] = []
    python: list[Burst] = []
    binder: list[Burst] = []
    async with staged(folder, go_loop=go_loop, connections=connections) as stage:
        # The first burst of a process opens its connections and fills its caches.
        await stage.by_binder(members)
        for _ in range(rounds):
            go.append(await stage.by_go(members, connections=connections))
            python.append(await stage.by_python(members, connections=connections))
            binder.append(await stage.by_binder(members))
    ratios = tuple(ours.rate / max(a.rate, b.rate) for ours, a, b in zip(binder, go, python, strict=True))
    return [
        Measure(name="bare loop in Go", values=tuple(one.rate for one in go), unit="/s"),
        Measure(name="bare loop in Python", values=tuple(one.rate for one in python), unit="/s"),
        Measure(name="binder, first to last binding", values=tuple(one.rate for one in binder), unit="/s"),
        Measure(name="binder / faster loop of its round", values=ratios, unit="", goal=RATIO_GOAL, is_floor=True),
        Measure(
            name=f"binder, {members} members first to last",
            values=tuple(one.seconds for one in binder),
            unit="s",
            goal=BURST_GOAL_S * members / 1000,
        ),
        Measure(
            name="processor time of the binder a member, check and journal with it",
            values=tuple(one.processor_s / members * 1e6 for one in binder),
            unit="µs",
        ),
    ]


async def _system(folder: Path, *, parts: tuple[str, ...], rounds: int) -> list[Measure]:
    ours: list[float] = []
    native: list[float] = []
    undos: list[UndoTimes] = []
    async with system_stage(folder) as stage:
        # The first gang of a process fills its caches.
        await stage.bound_after(PHALANX)
        for _ in range(rounds if "gang" in parts else 0):
            ours.append(await stage.bound_after(PHALANX))
            native.append(await stage.bound_after(NATIVE))
        undos += [await stage.undone() for _ in range(rounds if "undo" in parts else 0)]
    measures: list[Measure] = []
    if ours:
        measures += [
            Measure(name="last of 64 pods created to all bound, Phalanx", values=tuple(ours), unit="s"),
            Measure(name="the same, native scheduler", values=tuple(native), unit="s"),
        ]
    if undos:
        accepted = tuple(one.refusal_to_last_delete_s for one in undos)
        usable = tuple(one.last_delete_to_next_binding_s for one in undos)
        measures += [
            Measure(name="undo of 64: refusal to last deletion accepted", values=accepted, unit="s", goal=UNDO_GOAL_S),
            Measure(name="last deletion to the next gang's binding", values=usable, unit="s", goal=USABLE_GOAL_S),
        ]
    return measures


def _print(measures: list[Measure]) -> None:
    table = Table(title="The binder on a real API server", title_justify="left")
    for column in ("what", "median", "least", "most", "goal", ""):
        table.add_column(column)
    for one in measures:
        figures = [_figure(value, one.unit) for value in (one.value, min(one.values), max(one.values))]
        goal = "" if one.goal is None else f"{'≥' if one.is_floor else '≤'} {_figure(one.goal, one.unit)}"
        verdict = {None: "", True: "met", False: "MISSED"}[one.is_met]
        table.add_row(one.name, *figures, goal, verdict)
    Console().print(table)


def _figure(value: float, unit: str) -> str:
    digits = 0 if unit in {"/s", "µs"} else 2
    return f"{value:.{digits}f} {unit}".strip()


def _write(measures: list[Measure], *, inputs: dict[str, int]) -> None:
    """Keep the figures for programs, with how busy the machine was."""
    machine = {
        "load_average": os.getloadavg(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
    RESULT.parent.mkdir(exist_ok=True)
    document = {"inputs": inputs, "machine": machine, "measures": [asdict(one) for one in measures]}
    RESULT.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
