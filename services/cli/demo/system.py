"""Everything that the demo runs: the bus, a cluster, the services, and the witness."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from services.cli.demo.clusters import DemoCluster, kubernetes, sandbox
from services.cli.demo.waking import CONFIGURATION, queue
from services.cli.demo.witness import Witness
from services.cli.folder_lock import LOCK_FILE
from services.cli.processes import LocalServices
from services.contracts.streams import STREAMS
from services.runtime.bus import Bus
from services.runtime.clock import SystemClock
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient

CLUSTERS: Mapping[str, Callable[[Path], AbstractAsyncContextManager[DemoCluster]]] = {
    "sandbox": sandbox,
    "kubernetes": kubernetes,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A running system with its witness."""

    cluster: DemoCluster
    services: LocalServices
    client: KubeClient
    witness: Witness
    bus: Bus
    group_version: str
    nats_url: str
    trace_file: Path
    queue: Client


@asynccontextmanager
async def running(cluster_name: str, *, folder: Path, is_traced: bool = True) -> AsyncIterator[System]:
    """Run everything on free ports, with logs and, where traced, spans in `folder`."""
    await asyncio.to_thread(_emptied, folder)
    trace_file = folder / "spans.jsonl"
    witness = Witness(clock=SystemClock())
    async with contextlib.AsyncExitStack() as stack:
        nats = await stack.enter_async_context(EmbeddedNats())
        # Before the services: what counts a queue that does not exist yet looks for it again only after a while.
        orders = await stack.enter_async_context(queue(nats.url))
        config = folder / "phalanx.yaml"
        config.write_text(CONFIGURATION)
        environment = {"PHALANX_CONFIG": str(config.resolve())}
        if is_traced:
            environment["PHALANX_TRACE_FILE"] = str(trace_file)
        cluster = await stack.enter_async_context(CLUSTERS[cluster_name](folder))
        services = await stack.enter_async_context(
            LocalServices(
                folder=folder,
                nats_url=nats.url,
                kubeconfig=cluster.kubeconfig,
                environment=environment,
            )
        )
        client = await stack.enter_async_context(await KubeClient.open(cluster.kubeconfig, user_agent="phalanx-demo"))
        bus = await stack.enter_async_context(Bus(url=nats.url, name="phalanx-demo", readiness=Readiness()))
        await bus.ensure_streams(STREAMS)
        versions = await client.served_versions("scheduling.k8s.io")
        await stack.enter_async_context(
            _background(watch_pods=witness.watch_pods(client), hear_decisions=witness.hear_decisions(bus))
        )
        yield System(
            cluster=cluster,
            services=services,
            client=client,
            witness=witness,
            bus=bus,
            group_version="v1beta1" if "v1beta1" in versions else "v1alpha3",
            nats_url=nats.url,
            trace_file=trace_file,
            queue=orders,
        )


@asynccontextmanager
async def _background(**coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run coroutines beside the block, and cancel them at its end."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine, name=name) for name, coroutine in coroutines.items()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


def _emptied(folder: Path) -> None:
    """Remove what an earlier run left; the lock stays, because it is held."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.name != LOCK_FILE:
            path.unlink(missing_ok=True)
