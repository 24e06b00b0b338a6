"""`phalanx demo`: runs everything, plays the story, and judges it."""

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path

import click
from rich.console import Console

from services.cli.demo import devices
from services.cli.demo.promises import Promise
from services.cli.demo.screen import Screen
from services.cli.demo.story import FIRST, GANGS, Story
from services.cli.demo.system import CLUSTERS, System, running
from services.cli.demo.traces import trace_of_transaction
from services.cli.demo.waking import Waking
from services.cli.folder_lock import FolderInUse, locked
from services.cli.processes import SERVICES, ServiceFailed
from services.core.decisions import Committed
from services.runtime.kube import KubeFault

FOLDER = Path("build/demo")


@click.command(short_help="Show a 64-GPU gang run all or nothing.")
@click.option(
    "--cluster",
    type=click.Choice(sorted(CLUSTERS)),
    default="sandbox",
    show_default=True,
    help="Where to play: the sandbox, or a real control plane from `make kubernetes`.",
)
@click.option(
    "--story",
    type=click.Choice(["gangs", "devices"]),
    default="gangs",
    show_default=True,
    help="What to show: gangs of whole GPUs, or devices that pods claim (DRA).",
)
@click.option("--kill", type=click.Choice(SERVICES), help="Kill this service in the middle, and start it again.")
def demo(cluster: str, story: str, kill: str | None) -> None:
    """Show a 64-GPU gang run all or nothing, through the bus, on a live cluster."""
    if kill and story != "gangs":
        raise click.UsageError("--kill belongs to the story of gangs")
    started_s = time.monotonic()
    console = Console(soft_wrap=False)
    with contextlib.ExitStack() as stack:
        folder = _own_folder(stack)
        try:
            kept = asyncio.run(
                _demo(console, cluster_name=cluster, name=story, folder=folder, kill=kill, started_s=started_s)
            )
        except* (ServiceFailed, TimeoutError) as group:
            for error in group.exceptions:
                console.print(f"[bold red]{type(error).__name__}[/bold red]: {error}", highlight=False)
            console.print(f"logs: {folder}")
            kept = []
    held = sum(promise.is_held for promise in kept)
    console.print(f"demo: {held} of {len(kept)} promises held in {time.monotonic() - started_s:.1f} s", highlight=False)
    sys.exit(0 if kept and held == len(kept) else 1)


def _own_folder(stack: contextlib.ExitStack) -> Path:
    """Return a folder that no other demo uses while the stack is open."""
    try:
        stack.enter_context(locked(FOLDER))
    except FolderInUse:
        folder = FOLDER.with_name(f"{FOLDER.name}-{os.getpid()}")
        stack.enter_context(locked(folder))
        return folder
    return FOLDER


def _own_name() -> str:
    """Return how this command can be called from here."""
    called = Path(os.path.relpath(sys.argv[0]))
    if not called.name.endswith("phalanx") or ".." in called.parts:
        return "phalanx"
    return str(called)


async def _demo(
    console: Console, *, cluster_name: str, name: str, folder: Path, kill: str | None, started_s: float
) -> list[Promise]:
    beginning = "Starting a NATS server, a Kubernetes API and the four services, each its own process …"
    console.print(beginning, soft_wrap=not console.is_terminal)
    async with running(cluster_name, folder=folder) as system:
        gangs, first = (GANGS, FIRST) if name == "gangs" else (devices.GANGS, devices.MOST)
        screen = Screen(console=console, witness=system.witness, gangs=gangs, started_s=started_s)
        screen.tell(f"All are ready. The cluster is {system.cluster.title}.")
        console.print("  Follow it from another shell:", highlight=False)
        # To be pasted: never broken into two lines.
        console.print(f"  {_own_name()} decisions --nats-url {system.nats_url}", highlight=False, soft_wrap=True)
        story = _story(name, system, screen, kill=kill, is_timed=cluster_name == "sandbox")
        waking = Waking(
            client=system.client, witness=system.witness, bus=system.bus, queue=system.queue, tell=screen.tell
        )
        showing = [asyncio.create_task(screen.show())]
        if isinstance(story, Story):
            story.interlude = waking.play
            showing.append(asyncio.create_task(waking.hear()))
        try:
            await story.play()
        except (TimeoutError, KubeFault, ServiceFailed) as error:
            # What was seen so far is still shown and judged; the demo as a whole has failed.
            story.kept.append(Promise(text="the story reaches its end", happened=str(error), is_held=False))
        finally:
            for task in showing:
                task.cancel()
        commits = system.witness.decisions(first.name, Committed)
        trace = (
            await asyncio.to_thread(trace_of_transaction, system.trace_file, commits[0].decision.transaction)
            if commits
            else None
        )
        timings = story.timings if isinstance(story, Story) else []
        screen.report(story.kept, timings, trace=trace, started=waking.started)
        return story.kept


def _story(
    name: str, system: System, screen: Screen, *, kill: str | None, is_timed: bool
) -> Story | devices.DevicesStory:
    """Return what is played."""
    if name == "devices":
        return devices.DevicesStory(
            client=system.client,
            bus=system.bus,
            witness=system.witness,
            tell=screen.tell,
            group_version=system.group_version,
        )
    return Story(
        cluster=system.cluster,
        client=system.client,
        witness=system.witness,
        tell=screen.tell,
        group_version=system.group_version,
        kill=system.services.processes[kill] if kill else None,
        is_timed=is_timed,
    )
