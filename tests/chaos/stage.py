"""Everything that runs while binders die: a real control plane, NATS, watcher and placer, a proxy, and the judge."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from services.cli.processes import ANY_PORT, LocalProcess
from services.contracts.streams import STREAMS, TRANSACTIONS_STREAM
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from tests.builders import namespace_manifest
from tests.chaos.bucket import Bucket
from tests.chaos.checker import GROUPS, Checker
from tests.chaos.nursery import Binder, Nursery
from tests.chaos.orders import Orders
from tests.chaos.proxy import Proxy, proxying, through
from tests.chaos.requests import AuditLog
from tests.chaos.struck_binder import LATE_VARIABLE, ORDERS_VARIABLE
from tests.e2e.api import Api
from tests.e2e.kubernetes import rights
from tests.e2e.kubernetes.witness import PODS, Witness
from tests.e2e.recorder import Recorder
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import Target
from tests.kubernetes.nodes import FakeKubelets, NodesConfig, running_nodes

NODES = NodesConfig(count=3, gpus_per_node=8, is_kept=True)
ACCOUNTS = ("watcher", "binder")
"""Services that ask the API server, each with the rights of its account."""


@dataclass(slots=True, kw_only=True)
class Stage:
    """What runs, and what has been seen of it."""

    nats: EmbeddedNats
    cluster: Cluster
    client: KubeClient
    bus: Bus
    proxy: Proxy
    nursery: Nursery
    orders: Orders
    checker: Checker
    bucket: Bucket
    witness: Witness
    recorder: Recorder
    kubelets: FakeKubelets
    services: dict[str, LocalProcess] = field(default_factory=dict)

    def api(self, namespace: str) -> Api:
        """Return the Kubernetes API, as its administrator, with a namespace of one's own."""
        return Api(client=self.client, namespace=namespace)

    async def space(self, namespace: str) -> Api:
        """Create a namespace, and return the API with it."""
        api = self.api(namespace)
        await api.create(namespace_manifest(namespace))
        return api

    async def bear(self, *, is_elected: bool, is_journal_late: bool = False, is_reporting: bool = True) -> Binder:
        """Start a binder; it is not ready yet. Reports change pods, whose bindings are then written once more."""
        settings = {"PHALANX_REPORTING": str(is_reporting).lower()}
        if is_journal_late:
            settings[LATE_VARIABLE] = "1"
        return await self.nursery.bear(PHALANX_LEADER_ELECTION=str(is_elected).lower(), **settings)

    def tails(self) -> str:
        """Return the ends of the logs of what runs, and of the binder before."""
        tails = {name: process.tail() for name, process in self.services.items()}
        tails |= {binder.name: binder.tail() for binder in self.nursery.binders[-2:]}
        return "\n".join(f"--- {name}\n{tail}" for name, tail in tails.items())

    def check(self) -> None:
        """Raise with the end of its log where something has ended by itself that no test kills."""
        self.cluster.check()
        for process in self.services.values():
            process.check_alive()


async def cleared(api: Api) -> None:
    """Delete what is in a namespace, and wait until it is gone, so that the next test has all nodes."""

    async def is_clear() -> bool:
        left = 0
        for kind in ("Job", "Pod", "PodGroup"):
            for item in await api.list(kind):
                left += 1
                await api.delete(kind, item["metadata"]["name"], grace_s=0)
        return not left

    await eventually(is_clear, what=f"namespace {api.namespace} is empty")


@asynccontextmanager
async def binders(stage: Stage, *, count: int = 1, is_reporting: bool = True) -> AsyncIterator[list[Binder]]:
    """That many binders, elected where there are several."""
    born = [await stage.bear(is_elected=count > 1, is_reporting=is_reporting) for _ in range(count)]
    try:
        for binder in born:
            await binder.ready()
        yield born
    finally:
        for binder in stage.nursery.living():
            binder.send(signal.SIGCONT)
            await binder.kill()


@asynccontextmanager
async def staged(folder: Path, *, is_watcher_proxied: bool = False, nodes: NodesConfig = NODES) -> AsyncIterator[Stage]:
    """Run everything but binders until the block ends."""
    audit = AuditLog(folder)
    async with contextlib.AsyncExitStack() as stack:
        nats = await stack.enter_async_context(EmbeddedNats())
        cluster = await stack.enter_async_context(Cluster(ClusterConfig(apiserver_args=audit.apiserver_args)))
        client = await stack.enter_async_context(await KubeClient.open(cluster.kubeconfig))
        target = Target.from_kubeconfig(cluster.kubeconfig)
        proxy, authority = await stack.enter_async_context(proxying(target, folder=folder))
        await rights.apply(client)
        direct = {
            name: await rights.kubeconfig(client, cluster=cluster, service=name, folder=folder) for name in ACCOUNTS
        }
        proxied = {name: through(proxy, file, authority=authority) for name, file in direct.items()}
        kubelets = await stack.enter_async_context(running_nodes(target, nodes))
        bus = await stack.enter_async_context(Bus(url=nats.url, name="test", readiness=Readiness()))
        await bus.ensure_streams((*STREAMS, TRANSACTIONS_STREAM))
        bucket, witness, recorder = Bucket(bus), Witness(client=client), Recorder(bus=bus)
        for name, work in {
            "bucket": bucket.run(),
            "witness": witness.run([PODS, GROUPS]),
            "recorder": recorder.run(),
        }.items():
            stack.push_async_callback(_cancelled, asyncio.create_task(work, name=name))
        orders = Orders(folder=folder / "orders")
        orders.folder.mkdir()
        common = {"PHALANX_NATS_URL": nats.url, "PHALANX_KUBECONFIG": str(proxied["binder"])}
        nursery = Nursery(folder=folder, environment={**common, ORDERS_VARIABLE: str(orders.folder)})
        await stack.enter_async_context(nursery)
        stage = Stage(
            nats=nats,
            cluster=cluster,
            client=client,
            bus=bus,
            proxy=proxy,
            nursery=nursery,
            orders=orders,
            checker=Checker(client, witness=witness, bucket=bucket, audit=audit),
            bucket=bucket,
            witness=witness,
            recorder=recorder,
            kubelets=kubelets,
        )
        watched = proxied if is_watcher_proxied else direct
        for process in _services(folder, nats_url=nats.url, kubeconfig=watched["watcher"]):
            process.start()
            stage.services[process.name] = process
            stack.push_async_callback(process.stop)
        await asyncio.gather(*(process.wait_ready() for process in stage.services.values()))
        yield stage


def _services(folder: Path, *, nats_url: str, kubeconfig: Path) -> list[LocalProcess]:
    common = {"PHALANX_NATS_URL": nats_url, "PHALANX_HTTP_ADDRESS": ANY_PORT}
    placing = {"PHALANX_GRPC_ADDRESS": ANY_PORT, "PHALANX_LEADER_ELECTION": "false"}
    own = {"watcher": {"PHALANX_KUBECONFIG": str(kubeconfig)}, "placer": placing}
    return [LocalProcess(name=name, folder=folder, environment={**common, **added}) for name, added in own.items()]


async def _cancelled(task: asyncio.Task[None]) -> None:
    # One that failed must be heard of.
    if task.done():
        task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
