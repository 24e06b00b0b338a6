"""`phalanx up`: the whole system on this machine, against any cluster that a kubeconfig reaches."""

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import yaml
from rich.console import Console

from services.cli.folder_lock import FolderInUse, locked
from services.cli.processes import LocalProcess, LocalServices, ServiceFailed
from services.contracts.policy_file import read_policy
from services.core.names import SCHEDULER_NAME
from services.runtime.addresses import is_free_port
from services.runtime.embedded_nats import EmbeddedNats, NatsServerFailed
from services.runtime.kube import KubeClient, KubeFault
from services.runtime.stopping import unless_stopped
from services.runtime.structured_file import UnusableFile

CHECK_S = 1.0
RESTART_PAUSE_S = 2.0

NATS_PORT = 4222
PORTS: Mapping[str, Mapping[str, int]] = {
    "watcher": {"http": 8080},
    "placer": {"http": 8081, "grpc": 50051},
    "binder": {"http": 8082, "grpc": 50052},
    "autoscaler": {"http": 8083},
}
"""Ports that the services take where they are free; the placer's and the server's are those that commands ask first."""

WRITES = (
    "binds pods whose schedulerName is phalanx, and no others",
    "sets the condition PodScheduled on such pods, and conditions on their PodGroups",
    "creates Events about them",
    "deletes bound pods of a gang only to undo a placement that could not be completed",
)


WAKES = "starts what an HorizontalPodAutoscaler has put to sleep, and sets the conditions of that autoscaler"
"""What it also does where the configuration has metricSources."""


class ClusterInUse(RuntimeError):
    """Another system with a bus of its own works on the cluster."""


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
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration file (docs/config.md), which is read again when it changes.",
)
@click.option("--yes", is_flag=True, help="Do not ask before writing to the cluster.")
def up(kubeconfig: Path, nats_url: str | None, folder: Path, config: Path | None, *, yes: bool) -> None:
    """Run all services here, against any cluster, until Ctrl-C. Creates no nodes.

    One for each cluster, unless all have the same --nats-url: another one on this machine is noticed; on other machines
    it is not.
    """
    console = Console(soft_wrap=True, highlight=False)
    _check_kubeconfig(kubeconfig)
    wanted = Wanted(
        kubeconfig=kubeconfig, nats_url=nats_url, folder=folder, config=config, is_waking=_is_waking(config)
    )
    problems: list[str] = []
    try:
        asyncio.run(_up(console, wanted, is_confirmed=yes))
    except* ClusterInUse as group:
        problems += [str(error) for error in group.exceptions]
    except* FolderInUse as group:
        problems += [f"{error}; end that one, or give another --folder" for error in group.exceptions]
    except* (ServiceFailed, NatsServerFailed, KubeFault) as group:
        # What is raised in here would become part of a group, which click does not know.
        problems += [_sentence(error) for error in group.exceptions]
    except* click.Abort:
        unasked = "" if sys.stdin.isatty() else "; without a terminal, --yes answers"
        problems.append(f"nothing was started{unasked}")
    if problems:
        raise click.ClickException("\n".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was asked for. `is_waking` says that the configuration has sources to wake by."""

    kubeconfig: Path
    nats_url: str | None
    folder: Path
    config: Path | None
    is_waking: bool


def _sentence(error: BaseException) -> str:
    """Return the error's text: in one line, but with the lines of the log that a failed process has left."""
    return " ".join(str(error).split()) if isinstance(error, KubeFault) else str(error)


def _check_kubeconfig(path: Path) -> None:
    """Tell what is no kubeconfig at all in one sentence; the rest is told when it is used."""
    try:
        document = yaml.safe_load(path.read_bytes())
    except yaml.YAMLError as error:
        raise click.ClickException(f"{path} is no kubeconfig: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict) or not document.get("current-context"):
        raise click.ClickException(
            f"{path} is no kubeconfig: expected a YAML object with current-context; "
            "`kubectl config view --minify --flatten` writes one"
        )


def _is_waking(config: Path | None) -> bool:
    """Tell whether the configuration has something to wake by. Raises ClickException with a line for each mistake."""
    if config is None:
        return False
    try:
        return bool(read_policy(config.read_bytes(), name=str(config)).metric_sources)
    except UnusableFile as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"{config}: cannot be read: {error.strerror}") from error


async def _up(console: Console, wanted: Wanted, *, is_confirmed: bool) -> None:
    async with await KubeClient.open(wanted.kubeconfig, user_agent="phalanx-up") as client:
        version = (await client.request_ok("GET", "/version")).json()["gitVersion"]
        groups = await client.served_versions("scheduling.k8s.io")
        cluster = await _identity(client)
        console.print(f"Cluster {client.host}, Kubernetes {version}. There, Phalanx:")
        for line in (*WRITES, *([WAKES] if wanted.is_waking else [])):
            console.print(f"  • {line}")
        if not {"v1beta1", "v1alpha3"} & set(groups):
            console.print(
                "PodGroups are not served: enable the feature gate GenericWorkload and "
                "--runtime-config=scheduling.k8s.io/v1beta1=true. Until then only single pods are placed."
            )
    if not is_confirmed:
        await asyncio.to_thread(click.confirm, "Go on?", abort=True)
    # Before anything starts: a Ctrl-C at any moment from here on ends everything in order.
    stopping = _stop_signals()
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(locked(wanted.folder))
        nats_url = wanted.nats_url
        if nats_url is None:
            stack.enter_context(_alone_on(cluster))
            port = NATS_PORT if is_free_port(NATS_PORT) else 0
            nats_url = (await stack.enter_async_context(EmbeddedNats(store_dir=wanted.folder / "nats", port=port))).url
        console.print("Starting the services …")
        services = LocalServices(
            folder=wanted.folder,
            nats_url=nats_url,
            kubeconfig=wanted.kubeconfig,
            environment={} if wanted.config is None else {"PHALANX_CONFIG": str(wanted.config.resolve())},
            preferred_ports=PORTS,
        )
        running = await unless_stopped(stack.enter_async_context(services), stopping=stopping)
        if running is not None:
            for line in _addresses(running.processes, nats_url=nats_url):
                console.print(line)
            await _supervise(console, running, stopping=stopping)
    console.print("Stopped. Bound pods stay where they are.")


async def _identity(client: KubeClient) -> str:
    """Return what tells a cluster from all others: the uid of a namespace that each has, else its address."""
    try:
        found = (await client.request_ok("GET", "/api/v1/namespaces/kube-system")).json()
    except KubeFault:
        return hashlib.sha256(client.host.encode()).hexdigest()[:32]
    return str(found["metadata"]["uid"])


@contextlib.contextmanager
def _alone_on(cluster: str) -> Iterator[None]:
    """Keep a second system with a bus of its own off a cluster: neither would know what the other promises."""
    shelf = Path(tempfile.gettempdir()) / f"phalanx-up-{os.getuid()}"
    with contextlib.ExitStack() as stack:
        try:
            # Where nothing can be written, nobody is noticed, and that is no reason not to start.
            with contextlib.suppress(OSError):
                stack.enter_context(locked(shelf / cluster))
        except FolderInUse as error:
            raise ClusterInUse(
                f"another phalanx on this machine (process {error.owner}) places the pods of this cluster already; "
                "end that one, or give both the same --nats-url, so that one of them leads"
            ) from error
        yield


def _addresses(processes: Mapping[str, LocalProcess], *, nats_url: str) -> Iterator[str]:
    """Yield where everything listens, and the lines that tell another shell."""
    yield f"  nats: {nats_url}"
    for name, process in processes.items():
        grpc = f", gRPC {process.grpc_target}" if process.has_grpc else ""
        yield f"  {name}: {process.http_url}{grpc}, log {process.log_file}"
    yield f"Ready: pods with schedulerName {SCHEDULER_NAME} are placed. Ctrl-C ends it. For another shell:"
    yield ""
    yield f"export PHALANX_PLACER={processes['placer'].grpc_target} PHALANX_NATS_URL={nats_url}"
    yield ""


def _stop_signals() -> asyncio.Event:
    """Return an event that Ctrl-C and SIGTERM set from now on."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


async def _supervise(console: Console, running: LocalServices, *, stopping: asyncio.Event) -> None:
    """Start services again that end by themselves, until Ctrl-C."""
    while not stopping.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), timeout=CHECK_S)
        for name, process in running.processes.items():
            if process.exit_code is not None and not stopping.is_set():
                console.print(f"{name} ended with code {process.exit_code}; starting it again. Log: {process.log_file}")
                await asyncio.sleep(RESTART_PAUSE_S)
                process.start()
