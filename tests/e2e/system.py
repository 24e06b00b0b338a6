"""The whole of Phalanx on one machine, as end-to-end tests see it.

A real NATS server and the real services as processes, on free ports; the Kubernetes API is the sandbox, which lives in
the test's event loop so that a test can look into it and disturb it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import aiohttp
import grpc.aio
from prometheus_client.parser import text_string_to_metric_families

from services.cli.processes import LocalServices
from services.contracts.decision_codec import decode_reasons
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from services.contracts.streams import STREAMS
from services.contracts.subjects import cluster_subject
from services.core.objects import Applied, KubernetesObject, WatchPhase, WatchState
from services.core.reasons import ReasonCode
from services.core.reduce import MalformedObject, reduce_leniently
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from services.runtime.nats_connection import OPEN, NatsAccess
from services.sandbox import kubeconfig
from services.sandbox.cluster import ClusterSettings
from services.watcher.kinds import WATCHED_KINDS
from tests.e2e.api import Api
from tests.e2e.apiserver import ApiServer, serving
from tests.e2e.recorder import Recorder
from tests.e2e.waiting import eventually

PLACING = ("watcher", "placer", "binder")
CALM_S = 0.1
"""How long nothing may have moved before the system counts as quiet."""
_OK = 200


@dataclass(slots=True, kw_only=True)
class System:
    """What runs, and what has been seen of it."""

    folder: Path
    nats: EmbeddedNats
    apiserver: ApiServer
    services: LocalServices
    client: KubeClient
    bus: Bus
    recorder: Recorder
    _session: aiohttp.ClientSession
    _channels: dict[str, grpc.aio.Channel] = field(default_factory=dict)
    _unquiet: str = ""

    def api(self, namespace: str) -> Api:
        """Return the Kubernetes API with a namespace of one's own."""
        return Api(client=self.client, namespace=namespace)

    async def readyz(self, service: str) -> tuple[bool, str]:
        """Return whether a service is ready, and what it says about that."""
        async with self._session.get(f"{self.services.processes[service].http_url}/readyz") as answer:
            return answer.status == _OK, await answer.text()

    async def metric(self, service: str, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that carry these labels."""
        async with self._session.get(f"{self.services.processes[service].http_url}/metrics") as answer:
            families = text_string_to_metric_families(await answer.text())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    async def explain(self, gang: str) -> pb.ExplainResponse:
        """Ask the placer about a gang."""
        answer: pb.ExplainResponse = await self._placement().Explain(pb.ExplainRequest(gang=gang), timeout=10)
        return answer

    async def plan(self, manifests: bytes) -> pb.PlanResponse:
        """Ask the placer where these pods would go."""
        answer: pb.PlanResponse = await self._placement().Plan(pb.PlanRequest(manifests=manifests), timeout=10)
        return answer

    async def placer_follows(self) -> None:
        """Wait until the placer has folded, and decided on, everything in the cluster stream so far."""
        sequence = self.recorder.cluster_sequence

        async def has_folded() -> bool:
            return await self.metric("placer", "phalanx_placer_revision") >= sequence

        await eventually(has_folded, what=f"the placer follows up to {sequence}")

    async def binder_follows(self) -> None:
        """Wait until the binder has folded everything in the cluster stream so far."""
        sequence = self.recorder.cluster_sequence

        async def has_folded() -> bool:
            return await self.metric("binder", "phalanx_binder_revision") >= sequence

        await eventually(has_folded, what=f"the binder follows up to {sequence}")

    async def quiet(self, *, timeout_s: float = 30.0) -> None:
        """Wait until everything that has happened was followed, decided and carried out."""
        calm_since: tuple[float, object] | None = None

        async def is_calm() -> bool:
            nonlocal calm_since
            now, moment = asyncio.get_running_loop().time(), self._moment()
            self._unquiet = await self.restlessness()
            if self._unquiet or moment != self._moment():
                calm_since = None
            elif calm_since is None or calm_since[1] != moment:
                calm_since = (now, moment)
            return calm_since is not None and now - calm_since[0] >= CALM_S

        try:
            await eventually(is_calm, what="the system is quiet", timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._unquiet or 'it never stood still'}") from None

    async def restlessness(self) -> str:
        """Return what is still going on, empty where nothing is."""
        states = tuple(self.recorder.watch_states())
        lagging = [state.metadata.name for state in states if state.phase is WatchPhase.LISTING]
        if lagging or not states:
            return f"the watcher lists {lagging or 'nothing yet'}"
        if different := self.differences():
            return f"the stream is not what the API has: {different[:3]}"
        if pending := [one.id for one in self.recorder.open() if one.repairing is None]:
            return f"transactions are open: {pending}"
        try:
            revision = await self.metric("placer", "phalanx_placer_revision")
            if revision != self.recorder.cluster_sequence:
                return f"the placer is at {revision:g} of {self.recorder.cluster_sequence}"
            for gang in self.recorder.cluster.gang_ids():
                reasons = decode_reasons((await self.explain(gang)).reasons)
                if any(reason.code is ReasonCode.MEMBERS_ARRIVING for reason in reasons):
                    return f"{gang} is still arriving"
        except (aiohttp.ClientError, grpc.aio.AioRpcError) as error:
            return f"the placer does not answer: {error}"
        return ""

    def differences(self) -> list[str]:
        """Return the subjects where cluster stream and API say different things."""
        wanted = _published(self.apiserver)
        found = {
            subject: _without_version(change.object)
            for subject, change in self.recorder.objects.items()
            if isinstance(change, Applied) and not isinstance(change.object, WatchState)
        }
        return sorted(subject for subject in wanted | found if wanted.get(subject) != found.get(subject))

    def _moment(self) -> object:
        return (self.recorder.cluster_sequence, self.recorder.placement_sequence, self.apiserver.store.revision)

    def _placement(self) -> PlacementServiceStub:
        # A restarted placer listens elsewhere.
        target = self.services.processes["placer"].grpc_target
        if target not in self._channels:
            self._channels[target] = grpc.aio.insecure_channel(target)
        return PlacementServiceStub(self._channels[target])

    async def close(self) -> None:
        """Close what tests opened."""
        for channel in self._channels.values():
            await channel.close()


def _published(apiserver: ApiServer) -> dict[str, KubernetesObject]:
    """Return what a watcher of all served kinds should have published."""
    wanted: dict[str, KubernetesObject] = {}
    kinds = {(kind.group, kind.plural): kind for kind in apiserver.store.kinds}
    for watched in WATCHED_KINDS:
        kind = kinds.get((watched.group, watched.plural))
        # What the sandbox does not have, the watcher calls absent.
        if kind is None or not apiserver.cluster.served.is_served(kind):
            continue
        for obj in apiserver.store.objects(watched.plural, group=watched.group):
            with contextlib.suppress(MalformedObject):
                item = reduce_leniently(watched.kind, obj)
                wanted[cluster_subject(watched.kind, item.metadata)] = _without_version(item)
    return wanted


def _without_version(item: KubernetesObject) -> KubernetesObject:
    # Writes that change nothing placement reads are not published; only the version tells them apart.
    return replace(item, metadata=replace(item.metadata, resource_version=""))


@asynccontextmanager
async def running_system(
    folder: Path,
    *,
    settings: ClusterSettings | None = None,
    environment: Mapping[str, str] | None = None,
    own_environment: Mapping[str, Mapping[str, str]] | None = None,
    names: Sequence[str] = PLACING,
    nats_further: str = "",
    access: NatsAccess = OPEN,
) -> AsyncIterator[System]:
    """Run everything until the block ends. `environment` adds settings of all services, the other those of some.

    `nats_further` is more configuration of the NATS server, and `access` how the test itself connects to it.
    """
    async with contextlib.AsyncExitStack() as stack:
        nats = await stack.enter_async_context(EmbeddedNats(further=nats_further))
        apiserver = await stack.enter_async_context(serving(settings or ClusterSettings()))
        config = folder / "kubeconfig.yaml"
        kubeconfig.write(config, url=apiserver.url)
        bus = await stack.enter_async_context(Bus(url=nats.url, name="test", readiness=Readiness(), access=access))
        await bus.ensure_streams(STREAMS)
        recorder = Recorder(bus=bus)
        recording = asyncio.create_task(recorder.run(), name="recorder")
        stack.push_async_callback(_cancelled, recording)
        client = await stack.enter_async_context(await KubeClient.open(config))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        services = LocalServices(
            folder=folder,
            nats_url=nats.url,
            kubeconfig=config,
            environment=environment or {},
            own_environment=own_environment or {},
            names=names,
        )
        await stack.enter_async_context(services)
        system = System(
            folder=folder,
            nats=nats,
            apiserver=apiserver,
            services=services,
            client=client,
            bus=bus,
            recorder=recorder,
            _session=session,
        )
        stack.push_async_callback(system.close)
        yield system


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
