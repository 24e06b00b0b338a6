"""The command line of the sandbox process."""

import asyncio
import gc
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path

import click
import uvloop

from services.runtime import log
from services.runtime.addresses import announce_port, parse_address
from services.sandbox import kubeconfig
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings


def _apis(values: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = []
    for value in values:
        group, _, versions = value.partition("=")
        found.append((group, tuple(version for version in versions.split(",") if version)))
    return tuple(found)


async def _serve(settings: ClusterSettings, *, host: str, port: int, kubeconfig_path: Path | None) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with running(settings, host=host, port=port) as sandbox:
        announce_port("http", port=sandbox.port)
        click.echo(f"sandbox listens on {sandbox.url}")
        if kubeconfig_path is not None:
            kubeconfig.write(kubeconfig_path, url=sandbox.url)
        await stopping.wait()


@click.command(context_settings={"auto_envvar_prefix": "PHALANX_SANDBOX", "show_default": True})
@click.option("--address", default="127.0.0.1:8001", help="host:port to listen on; port 0 takes a free one")
@click.option(
    "--kubeconfig",
    "kubeconfig_path",
    envvar="PHALANX_SANDBOX_KUBECONFIG",
    type=click.Path(dir_okay=False, path_type=Path),
    help="file to write a kubeconfig to, once the server listens",
)
@click.option("--nodes", type=click.IntRange(min=0), default=8, help="nodes to start with")
@click.option("--gpus-per-node", type=click.IntRange(min=0), default=8, help="nvidia.com/gpu of each node")
@click.option(
    "--run-seconds", type=click.FloatRange(min=0), default=30.0, help="how long a Job's pod runs; 0: until deleted"
)
@click.option(
    "--job-backoff-seconds",
    type=click.FloatRange(min=0),
    default=1.0,
    help="pause of a Job after a failed pod, doubling; Kubernetes waits 10",
)
@click.option("--controllers/--no-controllers", default=True, help="simulate kubelets and controllers")
@click.option("--taint-new-nodes/--no-taint-new-nodes", default=True, help="not-ready taint on nodes created later")
@click.option("--api", multiple=True, metavar="GROUP=V1,V2", help="serve only these versions of a group")
def main(
    *,
    address: str,
    kubeconfig_path: Path | None,
    nodes: int,
    gpus_per_node: int,
    run_seconds: float,
    job_backoff_seconds: float,
    controllers: bool,
    taint_new_nodes: bool,
    api: tuple[str, ...],
) -> None:
    """Serve a small Kubernetes API from memory until SIGTERM."""
    try:
        host, port = parse_address(address)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--address") from error
    settings = ClusterSettings(
        nodes=nodes,
        gpus_per_node=gpus_per_node,
        run_s=run_seconds,
        job_backoff_s=job_backoff_seconds,
        has_controllers=controllers,
        taints_new_nodes=taint_new_nodes,
        apis=_apis(api),
    )
    # Objects are many and free of cycles; scanning them as often as Python does by default halves the throughput.
    gc.set_threshold(20_000, 20, 100)
    log.setup(service="sandbox", instance=f"{socket.gethostname()}-{os.getpid()}")
    serving = _serve(settings, host=host, port=port, kubeconfig_path=kubeconfig_path)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serving)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"the sandbox cannot serve on {address}: {error}") from error
