"""Replay the faults from the field, `python -m tests.cases.run [C01 …]`: a line for each, exit code 1 on a failure.

Snapshot cases go through the solver (`check`), those about waking through its decisions (`scaling`), those about
the length of a queue through what reads it (`queues`), other event cases through the real services (`play`). A case is
in force once Phalanx answers it whole; the others are listed, so that nobody takes silence for a pass.
"""

import asyncio
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from services.cli.processes import ServiceFailed
from services.runtime.embedded_nats import NatsServerFailed
from services.runtime.kube import KubeFault
from tests.cases.check import FOLDER, Case, UnknownWord, judge, load_case, solve_case
from tests.cases.play import IN_FORCE as EVENTS_IN_FORCE
from tests.cases.play import play
from tests.cases.queues import IN_FORCE as QUEUES_IN_FORCE
from tests.cases.queues import judge_queue
from tests.cases.scaling import IN_FORCE as SCALING_IN_FORCE
from tests.cases.scaling import judge_scaling

SNAPSHOTS_IN_FORCE = (
    "C01",
    "C02",
    "C03",
    "C05",
    "C06",
    "C07",
    "C08",
    "C09",
    "C10",
    "C12",
    "C15",
    "C16",
    "C18",
    "C20",
    "C22",
)
IN_FORCE = frozenset({*SNAPSHOTS_IN_FORCE, *EVENTS_IN_FORCE, *SCALING_IN_FORCE, *QUEUES_IN_FORCE})

HEADING = "Each line names a fault that must not happen; ok: it did not happen here."

BUILD = FOLDER.parents[1] / "build" / "cases"
"""Logs of the services, by case."""


class Outcome(StrEnum):
    """What came of a case."""

    OK = "ok"
    FAILED = "FAILED"
    NOT_IN_FORCE = "not in force yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One case and what came of it."""

    case: Case
    outcome: Outcome
    problems: tuple[str, ...] = ()
    duration_s: float = 0.0

    def text(self) -> str:
        """Return the line to print, with a further one for each problem."""
        took = "" if self.outcome is Outcome.NOT_IN_FORCE else f" ({self.duration_s:.1f} s)"
        return "\n".join(
            [f"{self.case.id} {self.outcome}{took}: {self.case.title}", *(f"    {one}" for one in self.problems)]
        )


def all_cases() -> list[Case]:
    """Return every case of the folder, by id."""
    return [load_case(path) for path in sorted(FOLDER.glob("C*.yaml"))]


async def replay(case: Case, *, folder: Path) -> list[str]:
    """Return a sentence for each expectation of the case that does not hold."""
    try:
        if case.id in SCALING_IN_FORCE:
            return judge_scaling(case)
        if case.id in QUEUES_IN_FORCE:
            return await judge_queue(case)
        return judge(case, solve_case(case)) if case.is_snapshot else await play(case, folder=folder)
    except (UnknownWord, ServiceFailed, KubeFault, NatsServerFailed) as error:
        return [str(error)]


def run(case: Case) -> Line:
    """Replay a case that is in force."""
    if case.id not in IN_FORCE:
        return Line(case=case, outcome=Outcome.NOT_IN_FORCE)
    folder = BUILD / case.id
    shutil.rmtree(folder, ignore_errors=True)
    started_s = time.monotonic()
    problems = asyncio.run(replay(case, folder=folder))
    return Line(
        case=case,
        outcome=Outcome.FAILED if problems else Outcome.OK,
        problems=tuple(problems),
        duration_s=time.monotonic() - started_s,
    )


def summary(lines: Sequence[Line]) -> str:
    """Return the last line."""
    counts = {outcome: sum(line.outcome is outcome for line in lines) for outcome in Outcome}
    in_force = counts[Outcome.OK] + counts[Outcome.FAILED]
    failed = f", {counts[Outcome.FAILED]} FAILED" if counts[Outcome.FAILED] else ""
    return (
        f"cases: {in_force} in force, {counts[Outcome.OK]} ok{failed}, {counts[Outcome.NOT_IN_FORCE]} not in force yet"
    )


def main() -> None:
    """Replay the given cases, or all, and print a line for each."""
    wanted = set(sys.argv[1:])
    cases = [case for case in all_cases() if not wanted or case.id in wanted]
    strange = wanted - {case.id for case in cases}
    if strange:
        sys.exit(f"no such cases: {', '.join(sorted(strange))}; expected ids such as C01")
    print(HEADING)
    lines = []
    for case in cases:
        line = run(case)
        lines.append(line)
        print(line.text(), flush=True)
    print(summary(lines))
    sys.exit(1 if any(line.outcome is Outcome.FAILED for line in lines) else 0)


if __name__ == "__main__":
    main()
