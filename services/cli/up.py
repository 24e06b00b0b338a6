"""`phalanx up`: the whole system on this machine, against any cluster that a kubeconfig reaches."""

import asyncio
import contextlib
import signal
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from services.cli.processes import LocalServices, ServiceFailed
from services.core.names import SCHEDULER_NAME
from services.runtime.embedded_nats import EmbeddedNats, NatsServerFailed
from services.runtime.kube import KubeClient, KubeFault

CHECK_S = 1.0
RESTART_PAUSE_S = 2.0

WRITES = (
    "binds pods whose schedulerName is phalanx, and no others",
    "sets the condition PodScheduled on such pods, and conditions on their PodGroups",
    "creates Events about them",
    "deletes bound pods of a gang only to undo a placement that could not be completed",
)


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="Kubeconfig of the cluster; its current context is used.",
)
@click.option("--nats-url", help="NATS server to use. Default: one of its own, whose store is in --folder.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build/up"),
    show_default=True,
    help="Where logs and the store of an own NATS server are kept.",
)
@click.option("--yes", is_flag=True, help="Do not ask before writing to the cluster.")
def up(kubeconfig: Path, nats_url: str | None, folder: Path, *, yes: bool) -> None:
    """Run all services here, against any cluster, until Ctrl-C. Creates no nodes."""
    console = Console()
    problems: list[str] = []
    try:
        asyncio.run(_up(console, kubeconfig=kubeconfig, nats_url=nats_url, folder=folder, is_confirmed=yes))
    except* (ServiceFailed, NatsServerFailed, KubeFault) as group:
        # What is raised in here would become part of a group, which click does not know.
        problems += [str(error) for error in group.exceptions]
    if problems:
        raise click.ClickException("\n".join(problems))


async def _up(console: Console, *, kubeconfig: Path, nats_url: str | None, folder: Path, is_confirmed: bool) -> None:
    async with await KubeClient.open(kubeconfig, user_agent="phalanx-up") as client:
        version = (await client.request_ok("GET", "/version")).json()["gitVersion"]
        groups = await client.served_versions("scheduling.k8s.io")
        console.print(f"Cluster {client.host}, Kubernetes {version}. There, Phalanx:")
        for line in WRITES:
            console.print(f"  • {line}")
        if not {"v1beta1", "v1alpha3"} & set(groups):
            console.print(
                "PodGroups are not served: enable the feature gate GenericWorkload and "
                "--runtime-config=scheduling.k8s.io/v1beta1=true. Until then only single pods are placed."
            )
    if not is_confirmed:
        await asyncio.to_thread(click.confirm, "Go on?", abort=True)
    async with contextlib.AsyncExitStack() as stack:
        if nats_url is None:
            nats_url = (await stack.enter_async_context(EmbeddedNats(store_dir=folder / "nats"))).url
        console.print("Starting the services …")
        running = await stack.enter_async_context(
            LocalServices(folder=folder, nats_url=nats_url, kubeconfig=kubeconfig)
        )
        console.print(_addresses(running, nats_url=nats_url))
        console.print(f"Ready: pods with schedulerName {SCHEDULER_NAME} are placed. Ctrl-C ends it.")
        await _supervise(console, running)
    console.print("Stopped. Bound pods stay where they are.")


def _addresses(running: LocalServices, *, nats_url: str) -> Table:
    table = Table(box=None, padding=(0, 2))
    for name in ("service", "health and metrics", "gRPC", "log"):
        table.add_column(name)
    table.add_row("nats", nats_url, "", "")
    for name, process in running.processes.items():
        grpc = process.grpc_target if process.has_grpc else ""
        table.add_row(name, process.http_url, grpc, str(process.log_file))
    return table


async def _supervise(console: Console, running: LocalServices) -> None:
    """Start services again that end by themselves, until Ctrl-C."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    while not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), timeout=CHECK_S)
        for name, process in running.processes.items():
            if process.exit_code is not None and not stopping.is_set():
                console.print(f"{name} ended with code {process.exit_code}; starting it again. Log: {process.log_file}")
                await asyncio.sleep(RESTART_PAUSE_S)
                process.start()
