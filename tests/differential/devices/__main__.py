"""More questions than a suite has time for: `python -m tests.differential.devices --seeds 20000 --first 1000`."""

import sys

import click

from tests.differential.devices.comparison import difference
from tests.differential.devices.drawing import draw
from tests.differential.devices.oracle import running_oracle
from tests.kubernetes import build


@click.command()
@click.option("--seeds", default=20_000, show_default=True, help="How many questions are asked.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
def main(*, seeds: int, first: int) -> None:
    """Ask kube-scheduler's structured allocator and us the same questions about devices, and compare."""
    different = 0
    with running_oracle(build.ensure_program(build.allocator())) as oracle:
        for seed in range(first, first + seeds):
            question = draw(seed)
            found = difference(question, oracle.ask(question), oracle=oracle)
            if found:
                different += 1
                click.echo(f"seed {seed}: {found}")
    click.echo(f"{seeds} questions about devices, {different} with different answers")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
