"""How long `phalanx audit` takes for a large cluster, and how much memory.

    python -m bench.audit [--pods 50000] [--nodes 5000]

The API server is the sandbox in a process of its own, with objects of realistic size; the audit is the command that is
installed, from its start to its report. What the sandbox does not serve is a gap in the report, and costs nothing.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from resource import struct_rusage

import click

from bench.cluster_process import ClusterServer
from bench.measures import Measure, show, write

RESULT = Path("build/bench-audit.json")
TIME_GOAL_S = 60.0
MEMORY_GOAL_MIB = 500.0
_PHALANX = Path(sys.executable).parent / "phalanx"


@click.command(help=__doc__)
@click.option("--pods", default=50_000, show_default=True)
@click.option("--nodes", default=5_000, show_default=True)
def main(pods: int, nodes: int) -> None:
    """Measure, print and write."""
    measures = asyncio.run(_measured(pods=pods, nodes=nodes))
    show(measures, title="audit")
    write(measures, inputs={"pods": pods, "nodes": nodes}, path=RESULT)


async def _measured(*, pods: int, nodes: int) -> list[Measure]:
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as name:
        directory = Path(name)
        report = directory / "report.json"
        async with ClusterServer.started(directory, pods=pods, nodes=nodes):
            started_s = time.monotonic()
            took = await asyncio.to_thread(_audit, directory / "kubeconfig", report)
            elapsed_s = time.monotonic() - started_s
        findings = len(json.loads(report.read_text())["findings"])
    return [
        Measure(name="start to report", value=elapsed_s, unit="s", goal=TIME_GOAL_S),
        Measure(name="peak memory", value=took.ru_maxrss / 1024, unit="MiB", goal=MEMORY_GOAL_MIB),
        Measure(name="processor time", value=took.ru_utime + took.ru_stime, unit="s"),
        Measure(name="findings", value=findings, unit="findings"),
    ]


def _audit(kubeconfig: Path, report: Path) -> struct_rusage:
    """Run the command; `wait4` tells what this one process used."""
    output = os.open(report, os.O_WRONLY | os.O_CREAT, 0o600)
    pid = os.posix_spawn(
        _PHALANX,
        [str(_PHALANX), "audit", "--kubeconfig", str(kubeconfig), "-o", "json"],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, output, 1)],
    )
    os.close(output)
    _, _, usage = os.wait4(pid, 0)
    return usage


if __name__ == "__main__":
    main()
