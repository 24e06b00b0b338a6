"""`phalanx coldstart`: wakes a target some times under control, and says what that costs."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.autoscaler.ports import ApiFailed, WriteConflict
from services.cli.coldstart.summary import Run, as_json, summed_up
from services.cli.coldstart.waking import CannotMeasure, ControlledWakes, Found
from services.core.cold_start import PHASES, TOTAL
from services.core.manifests import FieldError
from services.runtime.bus import Bus
from services.runtime.clock import SystemClock
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient, KubeFault

ENOUGH_RUNS = 20
"""From so many runs on the 95th percentile is another than the slowest one."""
CONNECT_TIMEOUT_S = 5.0


@click.command(short_help="Measure what waking a target from zero costs.")
@click.argument("hpa", metavar="NAMESPACE/HPA")
@click.option("--runs", type=click.IntRange(1, 100), default=3, show_default=True, help="How often it is woken.")
@click.option("--replicas", type=click.IntRange(1, 4096), help="How many to start. Default: as one message would.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(1, 3600),
    default=600.0,
    show_default=True,
    help="Seconds for a run.",
)
@click.option(
    "--kubeconfig",
    envvar="PHALANX_KUBECONFIG",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Kubeconfig of the cluster. Default: that of the user.",
)
@click.option(
    "--nats-url", envvar="PHALANX_NATS_URL", help="NATS server of Phalanx: then the phase `placed` is seen too."
)
@click.option("--yes", is_flag=True, help="Do not ask before the target is scaled.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def coldstart(
    hpa: str,
    runs: int,
    replicas: int | None,
    timeout_s: float,
    kubeconfig: Path | None,
    nats_url: str | None,
    output: str,
    *,
    yes: bool,
) -> None:
    """Wake the target of an HPA from zero some times, and say how long each phase takes and what would help.

    The target is scaled to zero and up again by this command, so nothing has to be switched on for it: neither the
    autoscaler nor a metric. In the end it has the replicas that it had. Exit code 1 where a run was not complete.
    """
    namespace, slash, name = hpa.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.BadParameter(f"given {hpa!r}, expected NAMESPACE/HPA, such as team-a/infer", param_hint="HPA")
    try:
        found, measured, count = asyncio.run(
            _measured(
                namespace,
                name,
                runs=runs,
                replicas=replicas,
                timeout_s=timeout_s,
                kubeconfig=kubeconfig,
                nats_url=nats_url,
                is_confirmed=yes,
            )
        )
    except (CannotMeasure, FieldError, KubeFault, ApiFailed, WriteConflict) as error:
        raise click.ClickException(" ".join(str(error).split())) from error
    if output == "json":
        document = as_json(measured, hpa=hpa, target=str(found.hpa.target), replicas=count)
        click.echo(json.dumps(document, indent=2))
    else:
        _print(measured, found=found, replicas=count)
    sys.exit(1 if any(run.missing for run in measured) else 0)


async def _measured(
    namespace: str,
    name: str,
    *,
    runs: int,
    replicas: int | None,
    timeout_s: float,
    kubeconfig: Path | None,
    nats_url: str | None,
    is_confirmed: bool,
) -> tuple[Found, list[Run], int]:
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(await KubeClient.open(kubeconfig, user_agent="phalanx-coldstart"))
        bus = None if nats_url is None else await _connected(stack, nats_url)
        wakes = ControlledWakes(client, clock=SystemClock(), timeout_s=timeout_s, bus=bus)
        found = await wakes.find(namespace, name)
        count = found.replicas(replicas)
        if not is_confirmed:
            question = (
                f"{found.hpa.target} in {namespace} has {found.scale.replicas} replicas. Scale it to 0 and to {count}, "
                f"{runs} times, and back?"
            )
            await asyncio.to_thread(click.confirm, question, abort=True, err=True)
        measured = []
        async with wakes.borrowed(found):
            for number in range(runs):
                click.echo(f"run {number + 1} of {runs} …", err=True)
                measured.append(await wakes.run(found, replicas=count))
        return found, measured, count


async def _connected(stack: contextlib.AsyncExitStack, url: str) -> Bus:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await stack.enter_async_context(Bus(url=url, name="phalanx-coldstart", readiness=Readiness()))
    except TimeoutError as error:
        raise CannotMeasure(f"no NATS server answers at {url} (--nats-url)") from error


def _print(runs: Sequence[Run], *, found: Found, replicas: int) -> None:
    console = Console(soft_wrap=True)
    summary = summed_up(runs)
    for number, run in enumerate(runs, start=1):
        if run.missing:
            console.print(f"run {number} was not complete: {escape(run.missing)}", highlight=False)
    if summary.dominating is None:
        return
    title = f"{found.hpa.target}, 0 → {replicas}, {sum(not run.missing for run in runs)} runs"
    table = Table(title=title, title_justify="left")
    table.add_column("phase")
    for column in ("p50", "p95", "share"):
        table.add_column(column, justify="right")
    for name in (*(phase for phase in PHASES if phase in summary.p50_s), TOTAL):
        p50_s = summary.p50_s[name]
        share = p50_s / summary.p50_s[TOTAL] if summary.p50_s[TOTAL] else 0.0
        figures = [f"{p50_s:.3f} s", f"{summary.p95_s[name]:.3f} s", f"{share:.0%}"]
        style = "bold" if name in {summary.dominating, TOTAL} else ""
        table.add_row(name, *figures, style=style)
    console.print(table)
    if len(runs) < ENOUGH_RUNS:
        console.print(f"With fewer than {ENOUGH_RUNS} runs, p95 is the slowest one.", style="dim", highlight=False)
    console.print(f"[bold]{summary.dominating}[/bold] dominates: {escape(summary.advice)}", highlight=False)
