"""How much is played: a small form for every change, and everything for `make long`. From make's variables."""

import os
import random
import sys

from rich.console import Console
from rich.table import Table

SEED_VARIABLE, MINUTES_VARIABLE, ALL_VARIABLE = "SEED", "MINUTES", "CHAOS"

SHORT_MINUTES = 0.75
"""Of the random workload, where nothing else is said."""


def seed() -> int:
    """Return the seed that was given, or a new one."""
    given = os.environ.get(SEED_VARIABLE)
    return int(given) if given else random.SystemRandom().randrange(10_000)


def minutes() -> float:
    """Return how long the random workload runs."""
    return float(os.environ.get(MINUTES_VARIABLE) or SHORT_MINUTES)


def is_all() -> bool:
    """Tell whether every combination is played, and not a rotated choice."""
    return os.environ.get(ALL_VARIABLE) == "all"


def show(what: str | Table) -> None:
    """Print for people; `make test-chaos` shows it."""
    Console(file=sys.stdout, width=160).print(what, markup=False)
