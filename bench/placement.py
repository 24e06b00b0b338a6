"""Times of single decisions on large clusters against their goals: `python -m bench.placement [--rounds 21]`.

Each round is one decision as the placer makes it: the snapshot of a cluster that it follows, the classes, the search,
the check of its own answer. Every round another node has changed before, as on a living cluster. The medians are
judged. Results are printed beside their goals and written to `build/bench-placement.json`.
"""

import ctypes
import json
import platform
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.placement_devices import claiming_gang, device_inventory, slice_of
from services.core.constraints import LabelSelector, NodeRequirement, PodRules, PodTerm, SpreadConstraint
from services.core.gangs import Gang, assemble, group_gang_id
from services.core.inventory import Inventory
from services.core.objects import Metadata, Node, NodeName, Pod, PodGroup, Uid
from services.core.policy import TopologyLevel, TopologyPolicy
from services.core.solver import Placement
from services.core.trying import try_gang

RESULT = Path("build/bench-placement.json")
NODES, GPUS = 5_000, 8
GPU = "nvidia.com/gpu"
ZONE, RACK = "topology.kubernetes.io/zone", "example.com/rack"
NODES_PER_RACK = 25
MOST_MIB = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kind of decision. Rows without a goal are for comparison."""

    name: str
    members: tuple[Pod, ...]
    inventory: Inventory
    is_placed: bool = True
    goal_ms: float | None = None
    levels: tuple[TopologyLevel, ...] = ()
    touch: Callable[[Inventory, int], None] = lambda inventory, number: inventory.put_node(node(number))
    note: str = ""


def node(index: int, *, gpus: int = GPUS) -> Node:
    """One of the cluster's nodes, in one of three zones and of many racks."""
    labels = {
        "kubernetes.io/hostname": f"n{index:05}",
        ZONE: f"z{index % 3}",
        RACK: f"r{index // NODES_PER_RACK:03}",
        "node.example.com/type": "h100" if index % 2 else "a100",
    }
    offered = {"cpu": 96_000, "memory": 2**40, "pods": 110, "ephemeral-storage": 2**42, GPU: gpus}
    return Node(metadata=Metadata(name=f"n{index:05}", uid=Uid(f"uid-{index}"), labels=labels), allocatable=offered)


def cluster(*, used: Callable[[int], int] = lambda _index: 0, priority: int = 0) -> Inventory:
    """The nodes, with some of their GPUs in use by one pod on each."""
    inventory = Inventory()
    for index in range(NODES):
        inventory.put_node(node(index))
        gpus = used(index)
        if gpus:
            old = replace(pod(f"old-{index}", gpus=gpus), priority=priority)
            inventory.place(old, on=NodeName(f"n{index:05}"))
    return inventory


def pod(name: str, *, gpus: int, cpu: int = 1_000, rules: PodRules | None = None) -> Pod:
    """A pod that asks for GPUs, with the labels of a Job's pod."""
    labels = {"app": "train", "batch.kubernetes.io/job-completion-index": name.rpartition("-")[2]}
    metadata = Metadata(name=name, namespace="team-a", uid=Uid(name), labels=labels)
    asked = {"cpu": cpu, "memory": 2**33, "pods": 1} | ({GPU: gpus} if gpus else {})
    return Pod(metadata=metadata, scheduler_name="phalanx", requests=asked, rules=rules or PodRules())


def gang(count: int, *, gpus: int, name: str = "w", cpu: int = 1_000, rules: PodRules | None = None) -> tuple[Pod, ...]:
    """Equal members."""
    return tuple(pod(f"{name}-{index}", gpus=gpus, cpu=cpu, rules=rules) for index in range(count))


def as_gang(members: tuple[Pod, ...]) -> Gang:
    """The members as a gang that needs all of them."""
    group = PodGroup(metadata=Metadata(name="w", namespace="team-a", uid=Uid("w")), min_count=len(members))
    return assemble(group_gang_id(group), pods=members, group=group)


def rows() -> list[Row]:
    """The decisions that are measured."""
    empty, half = cluster(), cluster(used=lambda index: (index * 7) % 9)
    full = cluster(used=lambda index: 5 + index % 3)
    levels = (TopologyLevel(node_label=ZONE), TopologyLevel(node_label=RACK))
    app = LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("train",)),))
    spread = PodRules(spread=(SpreadConstraint(topology_key=ZONE, max_skew=1, selector=app),))
    apart = PodRules(
        anti_affinity=(PodTerm(topology_key="kubernetes.io/hostname", selector=app, namespaces=("team-a",)),)
    )
    together = PodRules(affinity=(PodTerm(topology_key=RACK, selector=app, namespaces=("team-a",)),))
    unequal = (
        *gang(100, gpus=4, name="big", cpu=16_000),
        *gang(100, gpus=3, name="mid", cpu=8_000),
        *gang(100, gpus=1, name="low", cpu=30_000),
    )
    return [
        Row(name="1,000 pods of 8 GPUs", members=gang(1_000, gpus=8), inventory=empty, goal_ms=30.0),
        Row(name="10 pods of 8 GPUs", members=gang(10, gpus=8), inventory=half, goal_ms=3.0),
        Row(
            name="cannot fit, with all reasons",
            members=gang(64, gpus=8),
            inventory=full,
            is_placed=False,
            goal_ms=50.0,
        ),
        Row(
            name="the same, told what pre-emption could do",
            members=gang(64, gpus=8),
            inventory=cluster(used=lambda index: 5 + index % 3, priority=-1),
            is_placed=False,
            goal_ms=50.0,
        ),
        Row(name="three unequal classes, 300 members", members=unequal, inventory=half, goal_ms=100.0),
        Row(name="10 pods, preferring one rack", members=gang(10, gpus=8), inventory=half, levels=levels),
        Row(name="100 pods apart by hostname", members=gang(100, gpus=2, rules=apart), inventory=half),
        Row(name="100 pods, zone spread of skew 1", members=gang(100, gpus=2, rules=spread), inventory=half),
        Row(name="20 pods that must share a rack", members=gang(20, gpus=2, rules=together), inventory=half),
        *device_rows(),
    ]


def device_rows() -> list[Row]:
    """Return the decisions about claims of devices."""
    inventory, slice_us = device_inventory()

    def touch(inventory: Inventory, number: int) -> None:
        inventory.devices.put(slice_of(number, version=number + 2))

    return [
        Row(
            name="512 claims of 2 devices, eight selectors, matchAttribute",
            members=claiming_gang(),
            inventory=inventory,
            goal_ms=500.0,
            touch=touch,
            note=f"{slice_us:.0f} µs to take a slice in",
        ),
        Row(name="8 such claims", members=claiming_gang(8), inventory=inventory, touch=touch),
    ]


def measure(row: Row, *, rounds: int) -> list[float]:
    """Return milliseconds of each round; the first, in which nodes are judged for the first time, is not among them."""
    times_ms = []
    for number in range(rounds + 1):
        # A node changes, as one always has, or a slice.
        row.touch(row.inventory, number)
        item = as_gang(row.members)
        started_s = time.perf_counter()
        snapshot = row.inventory.snapshot(row.members)
        answer = try_gang(item, snapshot, topology=TopologyPolicy(levels=row.levels))
        took_ms = 1000 * (time.perf_counter() - started_s)
        if isinstance(answer, Placement) != row.is_placed:
            told = "placed" if isinstance(answer, Placement) else [reason.message for reason in answer.reasons]
            raise RuntimeError(f"{row.name}: expected placed: {row.is_placed}, got {told}")
        if number:
            times_ms.append(took_ms)
    return times_ms


def blas_kernel() -> str:
    """Return library and kernel of NumPy's linear algebra, as the process has loaded them."""
    build = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    name = f"{build.get('name')} {build.get('version')}"
    try:
        libraries = set(re.findall(r"\S*openblas\S*\.so\S*", Path("/proc/self/maps").read_text()))
    except OSError:
        return name
    for path in sorted(libraries):
        library = ctypes.CDLL(path)
        for symbol in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
            if hasattr(library, symbol):
                get_name = getattr(library, symbol)
                get_name.restype = ctypes.c_char_p
                return f"{name}, kernel {get_name().decode()}"
    return name


@click.command()
@click.option("--rounds", default=21, show_default=True, help="Decisions of each kind; their median is judged.")
def main(rounds: int) -> None:
    """Measure, print a table, and exit with 1 where a median misses its goal."""
    kernel = blas_kernel()
    table = Table(title=f"One decision on {NODES:,} nodes, {rounds} rounds; {kernel}", title_justify="left")
    for column in ("decision", "median", "least", "most", "goal", "", ""):
        table.add_column(column)
    results = []
    is_missed = False
    for row in rows():
        times_ms = measure(row, rounds=rounds)
        middle = median(times_ms)
        is_over = row.goal_ms is not None and middle > row.goal_ms
        is_missed |= is_over
        goal = "" if row.goal_ms is None else f"≤ {row.goal_ms:g} ms"
        word = "" if row.goal_ms is None else ("missed" if is_over else "ok")
        spread = (f"{min(times_ms):.1f} ms", f"{max(times_ms):.1f} ms")
        table.add_row(row.name, f"{middle:.1f} ms", *spread, goal, word, row.note)
        results.append({"decision": row.name, "median_ms": round(middle, 2), "goal_ms": row.goal_ms, "note": row.note})
    peak_mib = getrusage(RUSAGE_SELF).ru_maxrss / 1024
    is_large = peak_mib > MOST_MIB
    Console().print(table, f"{peak_mib:.0f} MiB at most in all (goal ≤ {MOST_MIB} MiB{', missed' if is_large else ''})")
    RESULT.parent.mkdir(exist_ok=True)
    document = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "nodes": NODES,
        "rounds": rounds,
        "blas": kernel,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "peak_mib": round(peak_mib),
        "rows": results,
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n")
    sys.exit(1 if is_missed or is_large else 0)


if __name__ == "__main__":
    main()
