"""What the demo shows where there is no terminal: lines, and a report whose words say what colours repeat."""

import asyncio
import contextlib
import io

from rich.console import Console

from services.cli.demo.promises import Promise, Timing
from services.cli.demo.screen import Screen
from services.cli.demo.traces import root_of
from services.core.decisions import Committed
from tests.unit.cli.scene import OTHER, TRAIN, Scene, assignments, proposed, waiting
from tests.unit.cli.test_traces import placement


def screen_of(scene: Scene, output: io.StringIO) -> Screen:
    """A screen that is no terminal."""
    console = Console(file=output, width=160)
    return Screen(console=console, witness=scene.witness, gangs=(TRAIN, OTHER), started_s=0.0)


async def test_each_change_of_a_gang_is_a_line() -> None:
    """Once, with its counts and the time since the start."""
    scene, output = Scene(), io.StringIO()
    showing = asyncio.create_task(screen_of(scene, output).show())
    try:
        scene.after(1.5)
        scene.create(TRAIN)
        scene.hear(TRAIN, proposed(TRAIN))
        await until_shown(output, "  1.50 s      train: proposed, 4 pods, 0 bound, 0 finished")
        scene.after(1)
        scene.bind(TRAIN)
        scene.hear(TRAIN, Committed(members=assignments(TRAIN)))
        scene.hear(OTHER, waiting())
        await until_shown(output, "  2.50 s      train: committed, 4 pods, 4 bound, 0 finished")
        await until_shown(output, "  2.50 s      other: waiting, 0 pods, 0 bound, 0 finished")
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing
    assert output.getvalue().count("train: proposed") == 1


async def until_shown(output: io.StringIO, line: str) -> None:
    """Wait for a line."""
    async with asyncio.timeout(5):
        while line not in output.getvalue():  # noqa: ASYNC110 - text has no event
            await asyncio.sleep(0.01)


def test_report() -> None:
    """Promises beside what happened, times beside goals, the trace, and what was on the bus."""
    scene, output = Scene(), io.StringIO()
    scene.place(TRAIN)
    kept = [
        Promise(text="train: all 4 pods are bound", happened="4 bound", is_held=True),
        Promise(text="no GPU is promised twice", happened="at most 9 in use", is_held=False),
    ]
    timings = [
        Timing(text="last pod → all bound", measured_s=0.1234, goal_s=0.3, beside="others took longer"),
        Timing(text="without a goal", measured_s=1, goal_s=None),
    ]
    screen_of(scene, output).report(kept, timings, trace=root_of(placement()), follow="phalanx decisions")
    lines = output.getvalue().splitlines()
    assert any("held" in line and "4 bound" in line for line in lines)
    assert any("BROKEN" in line and "at most 9 in use" in line for line in lines)
    assert any("0.123 s" in line and "0.3 s" in line and "others took longer" in line for line in lines)
    assert any("gang.decide" in line for line in lines)
    assert any(line.split() == ["phalanx.placement.v1.podgroup.demo.train.committed", "1"] for line in lines)
    assert lines[-1].strip() == "phalanx decisions"


def test_report_of_a_story_that_broke_off() -> None:
    """What is missing is left out, and the rest is shown."""
    scene, output = Scene(), io.StringIO()
    broken = Promise(text="the story reaches its end", happened="waited 60 s for: [bound] pods", is_held=False)
    screen_of(scene, output).report([broken], [], trace=None, follow="phalanx decisions")
    assert "BROKEN" in output.getvalue()
    assert "[bound] pods" in output.getvalue()
    assert "Times" not in output.getvalue()
