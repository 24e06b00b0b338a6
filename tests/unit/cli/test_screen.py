"""What the demo shows where there is no terminal: lines, and a report whose words say what colours repeat."""

import asyncio
import contextlib
import io
import re

from rich.console import Console

from services.cli.demo.objects import DemoGang
from services.cli.demo.promises import Promise, Timing
from services.cli.demo.screen import BAR_CELLS, Screen
from services.cli.demo.traces import root_of
from services.core.cold_start import Phase
from services.core.decisions import Committed, Decision, Refused
from services.core.objects import GangId
from services.core.scaling import Started
from tests.unit.cli.scene import OTHER, TRAIN, Scene, assignments, proposed, rolled_back, waiting
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
        await until_shown(output, "  1.50 s      train: proposed, 0/4 bound, 0 done")
        scene.after(1)
        scene.bind(TRAIN)
        scene.hear(TRAIN, Committed(members=assignments(TRAIN)))
        scene.hear(OTHER, waiting())
        await until_shown(output, "  2.50 s      train: committed, 4/4 bound, 0 done")
        await until_shown(output, "  2.50 s      other: waiting, 0/4 bound, 0 done")
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
        Timing(text="last pod → all bound", measured_s=0.1234, goal_s=0.3),
        Timing(text="without a goal", measured_s=1, goal_s=None),
    ]
    screen_of(scene, output).report(kept, timings, trace=root_of(placement()))
    lines = output.getvalue().splitlines()
    assert any("held" in line and "4 bound" in line for line in lines)
    assert any("BROKEN" in line and "at most 9 in use" in line for line in lines)
    assert any("0.123 s" in line and "0.3 s" in line for line in lines)
    assert any("gang.decide" in line for line in lines)
    assert any(line.split() == ["phalanx.placement.v1.podgroup.demo.train.committed", "1"] for line in lines)
    patterns = [line.strip() for line in lines[lines.index("  subscribe to:") + 1 : -1]]
    assert patterns == [
        "phalanx.cluster.v1.>",
        "phalanx.placement.v1.>",
        "phalanx.scaling.v1.>",
        "phalanx.deadletter.v1.>",
    ]
    assert "docs/subscribe.md" in lines[-1]
    assert not [line for line in lines if line != line.rstrip()]


def test_report_of_a_story_that_broke_off() -> None:
    """What is missing is left out, and the rest is shown."""
    scene, output = Scene(), io.StringIO()
    broken = Promise(text="the story reaches its end", happened="waited 60 s for: [bound] pods", is_held=False)
    screen_of(scene, output).report([broken], [], trace=None)
    assert "BROKEN" in output.getvalue()
    assert "[bound] pods" in output.getvalue()
    assert "Times" not in output.getvalue()


def test_times_without_goals() -> None:
    """As on a real control plane: no column promises any."""
    output = io.StringIO()
    timing = Timing(text="last pod → all bound", measured_s=1, goal_s=None)
    screen_of(Scene(), output).report([], [timing], trace=None)
    assert "1.000 s" in output.getvalue()
    assert "goal" not in output.getvalue()


async def test_progress_on_a_narrow_terminal() -> None:
    """A line for each gang, whatever is to be said: a line that wraps would make the screen jump."""
    long = DemoGang(name="train-a", members=64, run_s=1)
    scene, output = Scene(), io.StringIO()
    scene.place(long)
    scene.finish(long)
    scene.hear(long, rolled_back(long, undone=64))
    console = Console(file=output, width=80, force_terminal=True, color_system=None)
    screen = Screen(console=console, witness=scene.witness, gangs=(long,), started_s=0.0)
    showing = asyncio.create_task(screen.show())
    try:
        await until_shown(output, "rolled back")
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing
    (line,) = {
        line.strip() for line in re.split(r"[\r\n]|\x1b\[[0-9?]*[A-Za-z]", output.getvalue()) if "train-a" in line
    }
    assert line.split() == ["train-a", "█" * BAR_CELLS, "64/64", "bound,", "64", "done", "rolled", "back"]
    assert len(line) <= 80


async def test_pods_that_were_taken_back() -> None:
    """They are told apart from those that their Job makes in their place, also once their containers have ended."""
    scene, output = Scene(), io.StringIO()
    scene.place(TRAIN)
    scene.hear(TRAIN, rolled_back(TRAIN, undone=4))
    scene.delete(TRAIN)
    scene.finish(TRAIN)
    scene.create(TRAIN, first=TRAIN.members, count=3)
    showing = asyncio.create_task(screen_of(scene, output).show())
    try:
        await until_shown(output, "train: rolled back, 4 taken back, 3 new")
    finally:
        showing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await showing


def test_sentence_in_a_file_is_one_line() -> None:
    """So that it can be searched for."""
    output = io.StringIO()
    console = Console(file=output, width=40)
    Screen(console=console, witness=Scene().witness, gangs=(), started_s=0.0).tell("words " * 20)
    assert output.getvalue().count("\n") == 1


def test_the_phases_of_a_cold_start_are_shown() -> None:
    """What each added, beside the moment of its end."""
    output = io.StringIO()
    started = Started(replicas=8, ends_s={Phase.DECIDED: 0.25, Phase.READY: 1.0})
    screen_of(Scene(), output).report([], [], trace=None, started=started)
    (line,) = [line for line in output.getvalue().splitlines() if "ready" in line]
    assert line.split()[1::2] == ["ready", "0.750", "1.000"]


def test_pods_of_one_deployment_are_one_subject() -> None:
    """Each alone has subjects of its own, which nobody wants to read."""
    scene, output = Scene(), io.StringIO()
    for name in ("infer-624cb018db-8p4rq", "infer-624cb018db-z52nq"):
        decision = Decision(gang=GangId(f"pod/demo/{name}"), event=Refused(reasons=()), decided_at=scene.now)
        scene.witness.hear(decision, subject=f"phalanx.placement.v1.pod.demo.{name}.refused")
    screen = Screen(console=Console(file=output, width=200), witness=scene.witness, gangs=(TRAIN,), started_s=0.0)
    screen.report([], [], trace=None)
    (line,) = [line for line in output.getvalue().splitlines() if "infer" in line]
    assert line.split() == ["phalanx.placement.v1.pod.demo.infer-*.refused", "2"]
