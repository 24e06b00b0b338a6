"""Play cases with events on the real services: `python -m tests.cases.play [C28 …]`.

The services run as processes against a real NATS server and the sandbox. A step is taken when what the one before it
expects has come true; what must not come true is looked at once the system is quiet, and again over everything that was
recorded. Nothing waits for a fixed time.
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from services.sandbox.cluster import ClusterSettings
from tests.cases.check import Case, find_case
from tests.cases.play_actions import Actor
from tests.cases.play_bindings import BindReplies, cordon_others, uncordon
from tests.cases.play_commands import command_queue
from tests.cases.play_expectations import judge
from tests.cases.play_never import judge_never
from tests.cases.play_stage import Stage, refs
from tests.cases.play_steps import Script, Step, read_script
from tests.cases.play_witness import Witness
from tests.e2e.system import System, running_system
from tests.e2e.waiting import eventually

IN_FORCE = ("C25", "C26", "C27", "C28", "C30", "C41")
MOVING = frozenset({"noBindTo", "planned", "scheduled"})
"""Expectations on a gang in the middle of its transaction."""

PATIENCE_S = 30.0
"""How long an expectation may take to come true after the system is quiet: status writes may follow later."""


async def play(case: Case, *, folder: Path) -> list[str]:
    """Play a case and return a sentence for each expectation that did not hold. Raises UnknownWord."""
    script = read_script(case)
    async with (
        running_system(folder, settings=ClusterSettings(), own_environment=_settings(script)) as system,
        _stage(script, system=system) as stage,
        command_queue(system.nats.url, kubernetes=stage.api) as queue,
    ):
        problems: list[str] = []
        try:
            actor = Actor(stage=stage, queue=queue, replies=BindReplies(stage=stage))
            await _play_all(stage, actor, problems=problems)
        except AssertionError as error:
            # What was waited for did not come: the rest of the case says nothing any more.
            problems.append(str(error))
        return problems


def _settings(script: Script) -> Mapping[str, Mapping[str, str]]:
    """Return settings of the services: bindings go one by one where something happens between two of them."""
    one_by_one = any(str(step.arguments.get("before", "")).startswith("binding of ") for step in script.steps)
    return {"binder": {"PHALANX_BIND_CONCURRENCY": "1"}} if one_by_one else {}


@asynccontextmanager
async def _stage(script: Script, *, system: System) -> AsyncIterator[Stage]:
    witness = Witness(namespace=script.namespace, store=system.apiserver.store)
    system.apiserver.cluster.follow(witness.listen)
    yield Stage(script=script, system=system, api=system.api(script.namespace), witness=witness, manifests=refs(script))


async def _play_all(stage: Stage, actor: Actor, *, problems: list[str]) -> None:
    binder = stage.system.services.processes["binder"]
    held = _held_before(stage.script)
    changes = 0
    with contextlib.ExitStack() as resumed:
        resumed.callback(binder.pause, is_paused=False)
        binder.pause(is_paused=0 in held)
        actor.replies.hold()
        cordoned = cordon_others(stage)
        await stage.load()
        problems += await _expect(stage, stage.script.at_once, place="loaded", is_held=0 in held)
        for step in stage.script.steps:
            if step.verb is not None:
                if step.number in held:
                    binder.pause(is_paused=True)
                await actor.act(step)
                # What was held until this change goes on now, and meets it.
                binder.pause(is_paused=step.number in held)
                changes += 1
            wanted = dict(step.expectations)
            if wanted and step.verb is None:
                wanted |= _due(stage.script, changes=changes, step=step)
            is_held = not actor.replies.is_done or _is_held(step, held=held)
            problems += await _expect(stage, wanted, place=f"step {step.number}", is_held=is_held)
            if "planned" in wanted:
                await uncordon(stage, cordoned)
    problems += await _expect(stage, stage.script.final, place="final", is_held=False)
    problems += judge_never(stage, handled=actor.queue.log)


async def _expect(stage: Stage, wanted: Mapping[str, Any], *, place: str, is_held: bool) -> list[str]:
    """Wait until what is wanted holds; returns what still does not after the deadline."""
    if not wanted:
        return []
    if not is_held:
        await stage.system.quiet()
    problems: list[str] = []

    async def holds() -> bool:
        nonlocal problems
        problems = await judge(stage, wanted)
        return not problems

    try:
        await eventually(holds, what=place, timeout_s=PATIENCE_S)
    except AssertionError:
        return [f"{place}: {problem}" for problem in problems]
    return []


def _held_before(script: Script) -> frozenset[int]:
    """Return the numbers of the changes (0: loading) after which the binder has to stand still.

    What a step with `hold` expects comes of the last change before it, so the binder is stopped before that one.
    """
    last, held = 0, set()
    for step in script.steps:
        if step.verb is not None:
            last = step.number
        if step.holds_bindings:
            held.add(last)
    return frozenset(held)


def _is_held(step: Step, *, held: frozenset[int]) -> bool:
    """Tell whether the system cannot come to rest before what is expected is judged."""
    return step.holds_bindings or step.number in held or not MOVING.isdisjoint(step.expectations)


def _due(script: Script, *, changes: int, step: Step) -> Mapping[str, Any]:
    """Return what the header expects after this many changes, in the first step that expects anything then."""
    before = [other for other in script.steps if other.number < step.number]
    since = [other for other in before if other.verb is None and other.expectations]
    counted = [sum(one.verb is not None for one in before if one.number < other.number) for other in since]
    return {} if changes in counted else script.after_change.get(changes, {})


def main() -> None:
    """Play the given cases and print a line for each."""
    failed = 0
    for case_id in sys.argv[1:] or IN_FORCE:
        case = find_case(case_id)
        with tempfile.TemporaryDirectory(prefix="phalanx-case-") as folder:
            problems = asyncio.run(play(case, folder=Path(folder)))
        failed += bool(problems)
        print(f"{case.id} {'FAILED' if problems else 'ok'}: {case.title}")
        for problem in problems:
            print(f"    {problem}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
