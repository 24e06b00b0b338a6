"""Phalanx on a real control plane: NATS, the services with their own rights, played nodes, and witnesses."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import nats
from nats.js import JetStreamContext
from prometheus_client.parser import text_string_to_metric_families

from services.cli.processes import SERVICES, LocalProcess, LocalServices
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM, STREAMS
from services.core.objects import GangId
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from tests.e2e.api import Api
from tests.e2e.kubernetes import rights
from tests.e2e.kubernetes.audit import Audit
from tests.e2e.kubernetes.witness import PODS, Witness
from tests.e2e.recorder import Recorder
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import Target
from tests.kubernetes.nodes import NodesConfig, running_nodes

GPUS = 64
"""As eight nodes of eight."""

_NODES = NodesConfig(is_kept=True)
_GROUPS = "/apis/scheduling.k8s.io/{version}/podgroups"
_OK = 200


@dataclass(slots=True, kw_only=True)
class AccountServices(LocalServices):
    """Services of which each has the kubeconfig of its own account."""

    kubeconfigs: Mapping[str, Path] = field(default_factory=dict)

    def _process(self, name: str) -> LocalProcess:
        process = LocalServices._process(self, name)
        own = {"PHALANX_KUBECONFIG": str(self.kubeconfigs[name])}
        return replace(process, environment={**process.environment, **own})


@dataclass(slots=True, kw_only=True)
class System:
    """What runs, and what has been seen of it."""

    cluster: Cluster
    services: LocalServices
    client: KubeClient
    recorder: Recorder
    witness: Witness
    audit: Audit
    group_version: str
    jetstream: JetStreamContext
    _session: aiohttp.ClientSession

    def api(self, namespace: str) -> Api:
        """Return the Kubernetes API, as its administrator, with a namespace of one's own."""
        return Api(client=self.client, namespace=namespace)

    def check(self) -> None:
        """Raise with the end of its log where a service or a part of the control plane has ended by itself."""
        self.cluster.check()
        for process in self.services.processes.values():
            process.check_alive()

    async def readyz(self, service: str) -> tuple[bool, str]:
        """Return whether a service is ready and what it says about that, also while it has never been ready yet."""
        with contextlib.suppress(OSError, ValueError, KeyError, aiohttp.ClientError):
            port = json.loads(self.services.processes[service].port_file.read_text())["http"]
            async with self._session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                return answer.status == _OK, await answer.text()
        return False, "it does not answer"

    async def says(self, service: str, *words: str, is_ready: bool = False) -> None:
        """Wait until a service is (not) ready and one line of its answer has all these words."""
        text = ""

        async def is_told() -> bool:
            nonlocal text
            found, text = await self.readyz(service)
            return found is is_ready and any(all(word in line for word in words) for line in text.splitlines())

        try:
            await eventually(is_told, what=f"{service} says {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}; it says {text}") from None

    async def is_ready_again(self) -> None:
        """Wait until all services are ready."""
        for service in self.services.processes:
            await self.says(service, is_ready=True)

    async def at_rest(self, *, timeout_s: float = 30.0) -> None:
        """Wait until everything that was published is decided, and no transaction is open."""

        async def is_at_rest() -> bool:
            self.check()
            await self.caught_up()
            is_folded = await self._revision() == await self._last(CLUSTER_STREAM.name)
            return is_folded and not self.recorder.open() and await self._last(PLACEMENT_STREAM.name) == self._read

        await eventually(is_at_rest, what="the system is at rest", timeout_s=timeout_s)

    async def caught_up(self) -> None:
        """Wait until the recorder has read every decision that is stored now."""
        stored = await self._last(PLACEMENT_STREAM.name)

        async def is_read() -> bool:
            return self._read >= stored

        await eventually(is_read, what="the stored decisions were read")

    def is_open(self, gang: GangId) -> bool:
        """Tell whether a gang has an open transaction, as far as decisions were read."""
        return self.recorder.ledger.of_gang(gang) is not None

    @property
    def _read(self) -> int:
        return self.recorder.placement_sequence

    async def _last(self, stream: str) -> int:
        return (await self.jetstream.stream_info(stream)).state.last_seq

    async def _revision(self) -> float:
        url = f"{self.services.processes['placer'].http_url}/metrics"
        async with self._session.get(url) as answer:
            families = text_string_to_metric_families(await answer.text())
        values = {sample.name: sample.value for family in families for sample in family.samples}
        return values.get("phalanx_placer_revision", -1.0)


@asynccontextmanager
async def running_system(
    folder: Path,
    *,
    config: ClusterConfig | None = None,
    nodes: NodesConfig = _NODES,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[System]:
    """Run everything until the block ends. `environment` adds settings of the services."""
    audit = Audit.within(folder)
    wanted = config or ClusterConfig()
    wanted = replace(wanted, apiserver_args=(*wanted.apiserver_args, *audit.apiserver_args))
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(EmbeddedNats())
        cluster = await stack.enter_async_context(Cluster(wanted))
        client = await stack.enter_async_context(await KubeClient.open(cluster.kubeconfig))
        await rights.apply(client)
        kubeconfigs = {
            service: await rights.kubeconfig(client, cluster=cluster, service=service, folder=folder)
            for service in SERVICES
        }
        await stack.enter_async_context(running_nodes(Target.from_kubeconfig(cluster.kubeconfig), nodes))
        bus = await stack.enter_async_context(Bus(url=server.url, name="test", readiness=Readiness()))
        await bus.ensure_streams(STREAMS)
        versions = await client.served_versions("scheduling.k8s.io")
        group_version = next((one for one in ("v1beta1", "v1alpha3") if one in versions), "")
        recorder, witness = Recorder(bus=bus), Witness(client=client)
        groups = [_GROUPS.format(version=group_version)] if group_version else []
        for work in (recorder.run(), witness.run([PODS, *groups])):
            stack.push_async_callback(_cancelled, asyncio.create_task(work))
        connection = await nats.connect(server.url)
        stack.push_async_callback(connection.close)
        services = AccountServices(
            folder=folder,
            nats_url=server.url,
            kubeconfig=cluster.kubeconfig,
            kubeconfigs=kubeconfigs,
            environment=environment or {},
        )
        await stack.enter_async_context(services)
        system = System(
            cluster=cluster,
            services=services,
            client=client,
            recorder=recorder,
            witness=witness,
            audit=audit,
            group_version=group_version,
            jetstream=connection.jetstream(),
            _session=await stack.enter_async_context(aiohttp.ClientSession()),
        )
        yield system
        system.check()


async def _cancelled(task: asyncio.Task[None]) -> None:
    # A witness that failed must be heard of.
    if task.done():
        task.result()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
