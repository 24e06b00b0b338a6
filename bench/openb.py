"""How much of a real cluster's GPUs the placer's scoring fills: `python -m bench.openb [--seeds 1-10] [--list NAME]`.

The experiment of "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (Weng
et al., USENIX ATC 2023) on the trace published with it (bench/traces/openb): pods arrive one at a time until what they
ask for adds up to 130 % of the cluster's GPUs, and none leaves. A pod is skipped only where it fits nowhere. The best
policy published there is given the request frequencies of the whole list; the placer's scoring knows only what came.

Nodes are chosen by `services.core.scoring` alone, and ties go to the first node in an order shuffled by the seed.
Parameters are chosen on seeds above 100, and 1 to 10 are reported; docs/choosing-nodes.md says exactly which were used.
"""

import csv
import json
import os
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from services.core.outlook import outlook_of
from services.core.scoring import WHOLE, Room, score
from services.core.sizes import Size, SizeMix

TRACES = Path(__file__).parent / "traces" / "openb"
LISTS = ("default", "gpushare40")
GOALS = {"default": 96.0, "gpushare40": 94.7}
PUBLISHED = {"default": (95.23, 95.39), "gpushare40": (93.96, 94.15)}
"""Percent allocated at 100 % and at 130 % by fragmentation gradient descent, mean of ten seeds (fgd_expected.csv)."""
GOAL_MS = 2.0
LOAD = 1.3
DEVICES = 8
GPU = "gpu"
MIB = 2**20
ARRIVED = datetime(2023, 1, 1, tzinfo=UTC)
"""The experiment uses no times: all pods are of one hour, and none weighs less for its age."""
RESULT = Path("build/bench-openb.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One seed's result: percent of all GPUs allocated when 100 % and 130 % had been asked for, and the time taken.

    `ms_per_pod` is processor time, which other work on the machine lengthens less; `elapsed_ms_per_pod` is by the wall.

    `curve` has the percent allocated for each whole percent that arrived.
    """

    workload: str
    seed: int
    at_100: float
    at_130: float
    ms_per_pod: float
    elapsed_ms_per_pod: float
    placed: int
    skipped: int
    curve: tuple[float, ...]


def arrivals(sizes: list[Size], *, seed: int, gpu_milli: int) -> list[Size]:
    """Return the whole list, shuffled, with random draws appended (or removed) until it asks for 130 % of the GPUs."""
    chance = random.Random(seed)
    order = chance.sample(sizes, len(sizes))
    limit = LOAD * gpu_milli
    asked = sum(size.device_milli for size in order)
    while asked > limit:
        asked -= order.pop(chance.randrange(len(order))).device_milli
    while True:
        drawn = chance.choice(sizes)
        if asked + drawn.device_milli > limit:
            return order
        asked += drawn.device_milli
        order.append(drawn)


class Nodes:
    """The cluster's nodes in an order of their own for each seed, and what is free on them."""

    def __init__(self, *, seed: int) -> None:
        """Read the trace's nodes."""
        rows = list(csv.DictReader((TRACES / "openb_node_list_gpu_node.csv").open()))
        random.Random(f"nodes {seed}").shuffle(rows)
        gpus = np.array([int(row["gpu"]) for row in rows])
        self.gpu_milli = 1000 * int(gpus.sum())
        self.room = Room(
            cpu_milli=np.array([int(row["cpu_milli"]) for row in rows]),
            memory_bytes=np.array([int(row["memory_mib"]) for row in rows]) * MIB,
            whole_devices=gpus,
            shares_milli=np.zeros((len(rows), DEVICES), dtype=np.int64),
        )

    def place(self, size: Size, *, mix: SizeMix) -> bool:
        """Put a pod on the best node, and tell whether there is one."""
        room = self.room
        scores = score(room, size=size, outlook=outlook_of(mix.coarse(), resource=GPU))
        row = int(scores.waste.argmin())
        if not np.isfinite(scores.waste[row]):
            return False
        room.cpu_milli[row] -= size.cpu_milli
        room.memory_bytes[row] -= size.memory_bytes
        room.whole_devices[row] -= size.devices
        if size.share_milli:
            device = int(scores.device[row])
            if device == WHOLE:
                # A node has at most as many shared devices as devices, so that a column is vacant.
                device = int((room.shares_milli[row] == 0).argmax())
                room.whole_devices[row] -= 1
                room.shares_milli[row, device] = 1000
            room.shares_milli[row, device] -= size.share_milli
        assert min(room.cpu_milli[row], room.memory_bytes[row], room.whole_devices[row]) >= 0
        return True


def simulate(workload: str, *, seed: int) -> Run:
    """Place one seed's arrivals, one at a time."""
    nodes = Nodes(seed=seed)
    pods = arrivals(list(_sizes(workload)), seed=seed, gpu_milli=nodes.gpu_milli)
    mix = SizeMix()
    asked = allocated = placed = 0
    processor_s, started_s = time.thread_time(), time.perf_counter()
    allocated_at: dict[int, list[float]] = {}
    for size in pods:
        mix.add(size, created_at=ARRIVED)
        is_placed = nodes.place(size, mix=mix)
        asked += size.device_milli
        placed += is_placed
        allocated += size.device_milli * is_placed
        allocated_at.setdefault(round(100 * asked / nodes.gpu_milli), []).append(100 * allocated / nodes.gpu_milli)
    processor_s, elapsed_s = time.thread_time() - processor_s, time.perf_counter() - started_s
    free_milli = 1000 * int(nodes.room.whole_devices.sum()) + int(nodes.room.shares_milli.sum())
    assert allocated == nodes.gpu_milli - free_milli, "what was promised is not what is in use"
    return Run(
        workload=workload,
        seed=seed,
        at_100=statistics.mean(allocated_at[100]),
        at_130=statistics.mean(allocated_at[130]),
        ms_per_pod=1000 * processor_s / len(pods),
        elapsed_ms_per_pod=1000 * elapsed_s / len(pods),
        placed=placed,
        skipped=len(pods) - placed,
        curve=tuple(round(statistics.mean(allocated_at[percent]), 3) for percent in range(1, 131)),
    )


def _sizes(workload: str) -> Iterator[Size]:
    for row in csv.DictReader((TRACES / f"openb_pod_list_{workload}.csv").open()):
        count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
        is_share = count == 1 and milli < 1000
        # Neither list names a model that a pod would need; one that did would have to be a rule, not passed over.
        assert not row["gpu_spec"], row
        yield Size(
            cpu_milli=int(row["cpu_milli"]),
            memory_bytes=int(row["memory_mib"]) * MIB,
            resource=GPU if count else "",
            devices=0 if is_share else count,
            share_milli=milli if is_share else 0,
        )


def _seeds(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, ...]:
    """Return the seeds of a range, or the first so many."""
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()):
        raise click.BadParameter(f"expected a number of seeds or a range such as 1-10, got {text!r}")
    return tuple(range(int(first), int(last) + 1) if dash else range(1, int(first) + 1))


@click.command()
@click.option("--seeds", callback=_seeds, default="1-10", show_default=True, help="How many seeds, or first-last.")
@click.option("--list", "workloads", type=click.Choice(LISTS), multiple=True, default=LISTS, show_default=True)
@click.option("--keep", is_flag=True, help="Write the result to bench/results as well.")
def main(seeds: tuple[int, ...], workloads: tuple[str, ...], *, keep: bool) -> None:
    """Run the experiment, print a table, and exit with 1 where a mean misses its goal."""
    runs: list[Run] = []
    for workload in workloads:
        for seed in seeds:
            run = simulate(workload, seed=seed)
            runs.append(run)
            click.echo(
                f"{workload} seed {seed}: {run.at_100:.2f} % at 100 %, {run.at_130:.2f} % at 130 %, "
                f"{run.ms_per_pod:.2f} ms a pod, {run.skipped} of {run.placed + run.skipped} skipped",
                err=True,
            )
    is_met = _print(runs)
    text = json.dumps(_report(runs), indent=1) + "\n"
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text)
    if keep:
        Path(f"bench/results/{date.today()}-openb.json").write_text(text)  # noqa: DTZ011 - the file's local date
    raise SystemExit(0 if is_met else 1)


def _print(runs: list[Run]) -> bool:
    """Print the means beside goals and the best published policy, and tell whether all goals are met."""
    table = Table(title="GPUs allocated, percent of all, means over seeds", title_justify="left")
    for column in ("list", "seeds", "at 100 %", "published", "at 130 %", "published", "goal", "ms a pod", ""):
        table.add_column(column, justify="left" if column == "list" else "right")
    all_met = True
    for workload in dict.fromkeys(run.workload for run in runs):
        mine = [run for run in runs if run.workload == workload]
        at_130, ms = (statistics.mean(getattr(run, name) for run in mine) for name in ("at_130", "ms_per_pod"))
        is_met = at_130 >= GOALS[workload] and ms <= GOAL_MS
        all_met = all_met and is_met
        table.add_row(
            workload,
            str(len(mine)),
            f"{statistics.mean(run.at_100 for run in mine):.2f}",
            f"{PUBLISHED[workload][0]:.2f}",
            f"{at_130:.2f}",
            f"{PUBLISHED[workload][1]:.2f}",
            f"≥ {GOALS[workload]:.1f}, ≤ {GOAL_MS:g} ms",
            f"{ms:.2f}",
            "met" if is_met else "missed",
        )
    Console().print(table)
    Console().print(f"{os.cpu_count()} cores, load average of the last minute {os.getloadavg()[0]:.1f}")
    return all_met


def _report(runs: list[Run]) -> dict[str, object]:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "date": str(date.today()),  # noqa: DTZ011 - the file's local date
        "commit": commit.stdout.strip(),
        "machine": {
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "load_average": os.getloadavg(),
        },
        "goals_at_130": GOALS,
        "published_at_100_and_130": PUBLISHED,
        "runs": [asdict(run) for run in runs],
    }


if __name__ == "__main__":
    main()
