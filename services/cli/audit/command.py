"""`phalanx audit`: reads a cluster or a dump, judges it, and prints what an upgrade would break."""

import asyncio
import contextlib
import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from services.cli.audit.checks import CHECKS
from services.cli.audit.collecting import collect
from services.cli.audit.documents import TEXTS
from services.cli.audit.dumps import UnusableDump, load, save
from services.cli.audit.evidence import Evidence
from services.cli.audit.findings import SEVERITIES, Report
from services.cli.audit.judging import audit as judge
from services.cli.audit.optional_sources import NODE_PROXIES, PROBES
from services.cli.audit.proxy_migration import migration_of
from services.cli.audit.registry import TARGETS
from services.cli.audit.rendering import show_table
from services.cli.audit.sources import SOURCES, Source
from services.runtime.kube import KubeClient, KubeConfigError

EXIT_FINDINGS, EXIT_USAGE, EXIT_INCOMPLETE = 1, 2, 3


@click.command(short_help="Say what Kubernetes 1.37 and later will break.")
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Kubeconfig to use.")
@click.option("--context", default="", help="Context of the kubeconfig; its current one by default.")
@click.option(
    "--from-dump",
    "dump",
    type=click.Path(exists=True, path_type=Path),
    help="Judge a dump instead: a folder of --save, or files of `kubectl get … -o yaml`.",
)
@click.option("--save", "folder", type=click.Path(path_type=Path), help="Write what was read to this new folder.")
@click.option(
    "--target", type=click.Choice(TARGETS), default=TARGETS[0], show_default=True, help="Release to be ready for."
)
@click.option("-o", "--output", type=click.Choice(["table", *TEXTS]), default="table", show_default=True)
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "error"]),
    default="error",
    show_default=True,
    help="Exit code 1 where something of this severity or above is found.",
)
@click.option(
    "--probe",
    is_flag=True,
    help="Also try to create a pod, a PodGroup and a HorizontalPodAutoscaler as dry runs in namespace default, which "
    "takes create on them there; nothing is stored.",
)
@click.option(
    "--node-proxy",
    is_flag=True,
    help="Also ask each kube-proxy and kubelet through the API server, which takes get on nodes/proxy.",
)
def audit(
    kubeconfig: Path | None,
    context: str,
    dump: Path | None,
    folder: Path | None,
    target: str,
    output: str,
    fail_on: str,
    *,
    probe: bool,
    node_proxy: bool,
) -> None:
    """Say what Kubernetes 1.37 and later will break in a cluster, or what is half configured. Nothing is written.

    Exit code 0 where nothing is found at --fail-on, 1 where something is, 2 for wrong usage, 3 where something could
    not be looked at.
    """
    if dump is not None and (kubeconfig is not None or context or folder is not None or probe or node_proxy):
        raise click.UsageError("--from-dump takes no --kubeconfig, --context, --save, --probe or --node-proxy")
    more = (*(PROBES if probe else ()), *(NODE_PROXIES if node_proxy else ()))
    try:
        evidence = load(dump) if dump is not None else asyncio.run(_collected(kubeconfig, context=context, more=more))
        if folder is not None:
            save(evidence, folder)
    except (UnusableDump, KubeConfigError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    report = judge(evidence, checks=CHECKS, target=target)
    migration = migration_of(evidence)
    if output == "table":
        show_table(report, CHECKS, console=Console(), migration=migration)
    else:
        click.echo(TEXTS[output](report, CHECKS, migration=migration))
    sys.exit(exit_code(report, fail_on=fail_on))


def exit_code(report: Report, *, fail_on: str) -> int:
    """Return the exit code: findings weigh more than gaps."""
    worst = report.worst()
    if worst is not None and worst >= SEVERITIES[fail_on]:
        return EXIT_FINDINGS
    return EXIT_INCOMPLETE if report.gaps else 0


async def _collected(kubeconfig: Path | None, *, context: str, more: tuple[Source, ...]) -> Evidence:
    total = len(SOURCES) + len(more)
    client = await KubeClient.open(kubeconfig, context=context, connections=8, user_agent="phalanx-audit")
    async with client:
        with _progress() as progress:
            task = progress.add_task("reading", total=total, what="", count="")
            seen: set[str] = set()

            def tell(source: str, count: int) -> None:
                seen.add(source)
                shown = f"{count} objects" if count else ""
                progress.update(task, completed=len(seen) - 1, what=source, count=shown)

            with _no_collections():
                evidence = await collect(client, more=more, tell=tell)
            progress.update(task, completed=total, what="all", count="")
    return evidence


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Keep Python's cycle collector from visiting, again and again, a growing heap that has no cycles."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.contextmanager
def _progress() -> Iterator[Progress]:
    """Show progress on standard error, so that the report alone is on standard output."""
    console = Console(stderr=True)
    columns = (TextColumn("reading"), BarColumn(), TextColumn("{task.completed}/{task.total} {task.fields[what]}"))
    with Progress(
        *columns, TextColumn("{task.fields[count]}"), console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield progress
