"""`python -m tests.differential --seeds 1-300`: the comparison with kube-scheduler, as a table and as files."""

import shutil
import sys
import time
from collections.abc import Sequence

import click
import uvloop
from rich.console import Console
from rich.progress import track

from tests.differential import report
from tests.differential.comparison import Comparison, compare, shortcomings
from tests.differential.drawing import draw_scenario
from tests.differential.native import native_scheduler
from tests.differential.ours import Planner, plan
from tests.differential.planted import PLANTED
from tests.kubernetes import build

_MOST_SEEDS = 100_000
_LEAST_COLUMNS = 96
"""Where the output goes to a file, too; a table that is wrapped cannot be read."""


class Seeds(click.ParamType[Sequence[int]]):
    """`20` are the seeds 1 to 20; `7-9` are three; `7,9` two."""

    name = "seeds"

    def convert(
        self, value: str | Sequence[int], param: click.Parameter | None, ctx: click.Context | None
    ) -> Sequence[int]:
        """Return the seeds, or fail with what was expected."""
        if not isinstance(value, str):
            return value
        try:
            if "," in value:
                return tuple(int(part) for part in value.split(","))
            first, dash, last = value.partition("-")
            seeds = range(int(first), int(last) + 1) if dash else range(1, int(first) + 1)
        except ValueError:
            self.fail(
                f"expected a number of seeds, as 20, a range, as 7-9, or a list, as 7,9; got {value!r}", param, ctx
            )
        if not 0 < len(seeds) <= _MOST_SEEDS:
            self.fail(f"expected 1 to {_MOST_SEEDS} seeds, got {len(seeds)} in {value!r}", param, ctx)
        return seeds


@click.command()
@click.option("--seeds", type=Seeds(), default="10", show_default=True, help="How many, or which.")
@click.option("--plant", type=click.Choice(sorted(PLANTED)), help="Give our side this bug: the run must fail.")
def main(*, seeds: Sequence[int], plant: str | None) -> None:
    """Place small random clusters' gangs by kube-scheduler and by ours, and compare."""
    console = Console(width=max(shutil.get_terminal_size().columns, _LEAST_COLUMNS))
    lacking = build.missing()
    if lacking:
        raise click.ClickException("kube-scheduler is not built here: run `make kubernetes`")
    started_s = time.monotonic()
    found = uvloop.run(_compared(seeds, planner=PLANTED[plant] if plant else plan, console=console))
    text = f"{seeds[0]}-{seeds[-1]}" if isinstance(seeds, range) else ",".join(map(str, seeds))
    path = report.write(found, seeds=text, duration_s=time.monotonic() - started_s)
    report.show(found, console=console)
    console.print(f"{len(found)} gangs in {time.monotonic() - started_s:.0f} s; {path}", style="dim")
    sys.exit(1 if any(one.problems for one in found) or shortcomings(found) else 0)


async def _compared(seeds: Sequence[int], *, planner: Planner, console: Console) -> list[Comparison]:
    found: list[Comparison] = []
    async with native_scheduler() as scheduler:
        for seed in track(seeds, description="seeds", console=console, transient=True):
            observations = await scheduler.decide(draw_scenario(seed))
            found.extend(compare(one, planner) for one in observations)
    return found


if __name__ == "__main__":
    main()
