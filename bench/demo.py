"""Times of the demo's first act against their goals: `python -m bench.demo [ROUNDS]`.

Two Jobs of 64 one-GPU pods on the sandbox's 64 GPUs, several times on one running system. What is measured is what an
independent watcher of the API sees: from the last pod's creation to the last binding, and from the last GPU that comes
free to the next gang's first binding. The medians are judged.
"""

import asyncio
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from services.cli.demo.objects import DemoGang
from services.cli.demo.promises import GPUS_PER_NODE, Timing, median_s
from services.cli.demo.story import GPUS, Story
from services.cli.demo.system import running

ROUNDS = 5
FOLDER = Path("build/bench-demo")
RESULT = Path("build/bench-demo.json")
GOALS_S = {"last pod created to all 64 bound": 0.3, "last GPU free to the next gang's first binding": 0.2}


async def measure(rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each round by what was measured."""
    measured: dict[str, list[float]] = {name: [] for name in GOALS_S}
    async with running("sandbox", folder=FOLDER, is_traced=False) as system:
        story = Story(
            cluster=system.cluster,
            client=system.client,
            witness=system.witness,
            tell=lambda _sentence: None,
            group_version=system.group_version,
        )
        await story.prepare()
        for number in range(rounds):
            first = DemoGang(name=f"first-{number}", members=GPUS, run_s=1.0)
            second = DemoGang(name=f"second-{number}", members=GPUS, run_s=1.0)
            await story.two_jobs(first, second)
            timings: list[Timing] = story.timings[-2:]
            for name, timing in zip(GOALS_S, timings, strict=True):
                measured[name].append(timing.measured_s)
        broken = [promise for promise in story.kept if not promise.is_held]
        if broken:
            raise RuntimeError(f"a promise was broken while measuring: {broken}")
    return measured


def main() -> None:
    """Measure, print a table, and exit with 1 where a median misses its goal."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    measured = asyncio.run(measure(rounds))
    table = Table(
        title=f"Demo on the sandbox, {rounds} rounds, {GPUS} GPUs, {GPUS_PER_NODE} a node", title_justify="left"
    )
    for column in ("from → to", "median", "least", "most", "goal", ""):
        table.add_column(column)
    missed = 0
    for name, goal_s in GOALS_S.items():
        values = measured[name]
        is_met = median_s(values) < goal_s
        missed += not is_met
        figures = [f"{one:.3f} s" for one in (median_s(values), min(values), max(values))]
        table.add_row(name, *figures, f"{goal_s} s", "met" if is_met else "MISSED")
    Console().print(table)
    RESULT.write_text(json.dumps({"rounds": rounds, "goals_s": GOALS_S, "measured_s": measured}, indent=2) + "\n")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
