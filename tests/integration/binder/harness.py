"""A stage for the binder: the sandbox as cluster, a real NATS server, and hands that play watcher and placer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from services.binder.app import bind
from services.binder.settings import BinderSettings
from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.cluster_codec import UndecodableMessage, change_id, change_subject, change_type, encode_change
from services.contracts.decision_codec import (
    decision_id,
    decision_subject,
    decision_type,
    decode_decision,
    encode_decision,
)
from services.contracts.streams import PLACEMENT_STREAM, STREAMS
from services.contracts.subjects import PLACEMENT
from services.core.allocations import ClaimAllocation
from services.core.cluster import NEEDED_KINDS, OPTIONAL_KINDS
from services.core.decisions import Assignment, Decision, DecisionEvent, Proposed, Repairing, Victim
from services.core.objects import (
    Applied,
    ClusterChange,
    Deleted,
    GangId,
    Kind,
    Metadata,
    NodeName,
    TransactionId,
    Uid,
    WatchPhase,
    WatchState,
)
from services.core.reduce import reduce
from services.runtime.bus import Bus
from services.runtime.clock import SystemClock
from services.runtime.health import Readiness
from services.runtime.lifecycle import Runtime
from services.runtime.log import get
from services.sandbox import kubeconfig, table
from services.sandbox.app import RunningSandbox
from services.sandbox.deletion import DeleteOptions

if TYPE_CHECKING:
    from services.sandbox.watching import Change

E = TypeVar("E", bound=DecisionEvent)
Manifest = dict[str, Any]

LIMIT_S = 30.0
_FED = {"Node": Kind.NODE, "Pod": Kind.POD, "PodGroup": Kind.POD_GROUP}
_PATHS = {
    "Pod": "/api/v1/namespaces/team-a/pods",
    "PodGroup": "/apis/scheduling.k8s.io/v1beta1/namespaces/team-a/podgroups",
    "Job": "/apis/batch/v1/namespaces/team-a/jobs",
}


@dataclass(slots=True, kw_only=True)
class Binder:
    """One running binder."""

    runtime: Runtime
    task: asyncio.Task[None]

    async def kill(self) -> None:
        """End it as a crash would: nothing is finished."""
        await end_task(self.task)

    async def stop(self) -> None:
        """End it as an operator would."""
        self.runtime.stopping.set()
        async with asyncio.timeout(LIMIT_S):
            await self.task

    def count(self, name: str, **labels: str) -> float:
        """Return a metric's value."""
        return self.runtime.registry.get_sample_value(name, labels) or 0.0


@dataclass(slots=True, kw_only=True)
class Scene:
    """Everything that a test of the binder touches."""

    sandbox: RunningSandbox
    bus: Bus
    nats_url: str
    kubeconfig: Path
    spans: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    decisions: list[Decision] = field(default_factory=list)
    traceparents: list[str] = field(default_factory=list)
    revision: int = 0
    _changes: "asyncio.Queue[Change]" = field(default_factory=asyncio.Queue)
    _heard: asyncio.Condition = field(default_factory=asyncio.Condition)
    _binders: list[Binder] = field(default_factory=list)
    _fed: int = 0
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    async def open(self) -> None:
        """Start to play the watcher, and to listen to decisions."""
        await self.bus.ensure_streams(STREAMS)
        for number, kind in enumerate((*NEEDED_KINDS, *OPTIONAL_KINDS)):
            state = WatchState(
                metadata=Metadata(name=kind.value), phase=WatchPhase.SYNCED, resource_version=str(number + 1)
            )
            await self._feed(Applied(object=state))
        for plural, kind, group in (
            ("nodes", Kind.NODE, ""),
            ("pods", Kind.POD, ""),
            ("podgroups", Kind.POD_GROUP, "scheduling.k8s.io"),
        ):
            for manifest in self.sandbox.store.objects(plural, group=group):
                await self._feed(Applied(object=reduce(kind, manifest)))
        self.sandbox.store.listeners.append(self._changes.put_nowait)
        # Plain tasks: a fixture sets up and tears down in different tasks, which a task group does not allow.
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self._listen())]

    async def start_binder(self, **settings: Any) -> Binder:
        """Start a binder in this process."""
        registry = CollectorRegistry()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.spans))
        runtime = Runtime(
            service="binder",
            instance="test",
            readiness=Readiness(),
            registry=registry,
            tracer=provider.get_tracer("test"),
            log=get("test"),
            clock=SystemClock(),
            stopping=asyncio.Event(),
        )
        given: dict[str, Any] = {
            "nats_url": self.nats_url,
            "kubeconfig": self.kubeconfig,
            "grpc_address": "127.0.0.1:0",
        } | settings
        task = asyncio.create_task(bind(BinderSettings(**given), runtime))
        binder = Binder(runtime=runtime, task=task)
        self._binders.append(binder)
        return binder

    async def close(self) -> None:
        """End all binders; one that crashed fails the test."""
        for task in self._tasks:
            await end_task(task)
        for binder in self._binders:
            if not binder.task.done():
                await binder.kill()
            elif not binder.task.cancelled():
                binder.task.result()

    def create(self, kind: str, manifest: Manifest) -> Manifest:
        """Create an object in the sandbox, as a user."""
        cluster = self.sandbox.cluster
        # Of several kinds of one name Kubernetes' own is the first.
        table = {item.kind: item for item in reversed(cluster.store.kinds)}
        return cluster.writer.create(table[kind], manifest, namespace="team-a").obj

    def gang(self, name: str, *, size: int, min_count: int | None = None, **annotations: str) -> GangId:
        """Create a PodGroup."""
        self.create(
            "PodGroup",
            {
                "metadata": {"name": name, "annotations": annotations},
                "spec": {"schedulingPolicy": {"gang": {"minCount": min_count or size}}},
            },
        )
        return GangId(f"podgroup/team-a/{name}")

    def pods(self, group: str, *, size: int, gpus: int = 1, **metadata: Any) -> list[Manifest]:
        """Create members without a controller."""
        return [
            self.create(
                "Pod", {"metadata": {"name": f"{group}-{number}", **metadata}, "spec": pod_spec(group, gpus=gpus)}
            )
            for number in range(size)
        ]

    def job(self, group: str, *, size: int, gpus: int = 1, backoff_limit: int = 1000) -> None:
        """Create a Job whose pods are the group's members."""
        spec = pod_spec(group, gpus=gpus) | {"restartPolicy": "Never"}
        self.create(
            "Job",
            {
                "metadata": {"name": group},
                "spec": {
                    "parallelism": size,
                    "completions": size,
                    "backoffLimit": backoff_limit,
                    # Without it the Job would count an undo as failures, and wait longer each time.
                    "podFailurePolicy": {
                        "rules": [
                            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
                        ]
                    },
                    "template": {"metadata": {"labels": {"app": group}}, "spec": spec},
                },
            },
        )

    def pod_manifests(self) -> list[Manifest]:
        """Return all pods of the test's namespace."""
        return self.sandbox.store.objects("pods", namespace="team-a")

    def pod(self, name: str) -> Manifest | None:
        """Return one pod."""
        return self.sandbox.store.find("pods", namespace="team-a", name=name)

    def group(self, name: str) -> Manifest:
        """Return one PodGroup."""
        found = self.sandbox.store.find("podgroups", group="scheduling.k8s.io", namespace="team-a", name=name)
        assert found is not None
        return found

    def conditions(self, name: str) -> dict[str, tuple[str, str, str]]:
        """Return status, reason and message of a PodGroup's conditions, by type."""
        found = self.group(name).get("status", {}).get("conditions", ())
        return {one["type"]: (one["status"], one["reason"], one["message"]) for one in found}

    def events(self) -> list[tuple[str, str, str, int]]:
        """Return kind of object, type, reason and count of the events, sorted."""
        found = self.sandbox.store.objects("events", namespace="team-a")
        return sorted(
            (one["involvedObject"]["kind"], one["type"], one["reason"], one["count"])
            for one in found
            if one["source"]["component"] == "phalanx-binder"
        )

    def bound(self) -> dict[str, str]:
        """Return node by pod of the bound pods that are not being deleted."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self.pod_manifests()
            if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        }

    def running(self, name: str, *, node: str, gpus: int = 8) -> None:
        """Create a pod that runs on a node already."""
        spec = pod_spec("", gpus=gpus) | {"nodeName": node}
        del spec["schedulingGroup"]
        self.create("Pod", {"metadata": {"name": name, "namespace": "team-a"}, "spec": spec})

    async def replace(self, name: str, *, node: str) -> None:
        """Let a pod be gone at once, and another of its name run there."""
        cluster = self.sandbox.cluster
        stored = cluster.writer.require(table.POD, namespace="team-a", name=name)
        cluster.remover.delete(stored, DeleteOptions(grace_s=0))
        self.running(name, node=node)
        await self.settled()

    async def members(self, count: int) -> list[Manifest]:
        """Wait for so many unbound pods, and return them in name order."""

        def unbound() -> list[Manifest]:
            return [
                pod
                for pod in self.pod_manifests()
                if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
            ]

        await self.until(lambda: len(unbound()) >= count)
        return sorted(unbound(), key=lambda pod: str(pod["metadata"]["name"]))

    async def propose(
        self,
        gang: GangId,
        nodes: Mapping[str, str],
        *,
        transaction: str = "t1",
        min_count: int | None = None,
        round: int = 0,  # noqa: A002 - as the field is called
        deadline_s: float = 30.0,
        repair_window_s: float = 30.0,
        already_placed: int = 0,
        traceparent: str = "",
        claims: tuple[ClaimAllocation, ...] = (),
        victims: tuple[str, ...] = (),
    ) -> TransactionId:
        """Publish a placement of pods by name, as the placer does, on everything that the cluster stream has."""
        await self.settled()
        uids = {name: Uid((self.pod(name) or {"metadata": {"uid": "gone"}})["metadata"]["uid"]) for name in nodes}
        now = datetime.now(UTC)
        decision = Decision(
            gang=gang,
            transaction=TransactionId(transaction),
            decided_at=now,
            event=Proposed(
                revision=self.revision,
                deadline=now + timedelta(seconds=deadline_s),
                min_count=len(nodes) if min_count is None else min_count,
                assignments=tuple(
                    Assignment(pod=name, uid=uids[name], node=NodeName(node)) for name, node in nodes.items()
                ),
                round=round,
                already_placed=already_placed,
                claims=claims,
                victims=tuple(self._victim(name) for name in victims),
                repair_window=timedelta(seconds=repair_window_s),
            ),
        )
        await self.publish(decision, traceparent=traceparent)
        return decision.transaction

    def _victim(self, name: str) -> Victim:
        pod = self.pod(name)
        assert pod is not None, f"no pod {name}"
        return Victim(
            namespace="team-a",
            pod=name,
            uid=Uid(pod["metadata"]["uid"]),
            node=NodeName(pod["spec"]["nodeName"]),
        )

    async def publish(self, decision: Decision, *, traceparent: str = "") -> None:
        """Publish any decision, as the placer does."""
        attributes = EventAttributes(
            id=decision_id(decision),
            source="/phalanx/placer/test",
            type=decision_type(decision),
            subject=decision.gang,
            time=decision.decided_at,
        )
        given = headers(attributes) | ({"traceparent": traceparent} if traceparent else {})
        await self.bus.publish(decision_subject(decision), data=encode_decision(decision), headers=given)

    async def answer(self, repairing: Repairing, *, gang: GangId, nodes: Mapping[str, str], **given: Any) -> None:
        """Publish the next round: what is bound is repeated, and `nodes` are the others."""
        repeated = {one.pod: str(one.node) for one in repairing.bound}
        await self.propose(
            gang, {**repeated, **nodes}, round=repairing.round + 1, min_count=repairing.min_count, **given
        )

    async def decision(
        self, kind: type[E], *, transaction: str = "t1", nth: int = 1, limit_s: float | None = LIMIT_S
    ) -> E:
        """Wait for the nth event of a kind in a transaction."""

        def found() -> list[E]:
            return [
                one.event for one in self.decisions if one.transaction == transaction and isinstance(one.event, kind)
            ]

        async with asyncio.timeout(limit_s), self._heard:
            await self._heard.wait_for(lambda: len(found()) >= nth)
        return found()[nth - 1]

    def endings(self, transaction: str = "t1") -> list[Decision]:
        """Return the decisions that ended a transaction; there must be one."""
        return [one for one in self.decisions if one.transaction == transaction and one.ends_transaction]

    async def until(self, holds: Callable[[], bool], *, limit_s: float = LIMIT_S) -> None:
        """Wait for something that can only be observed."""
        async with asyncio.timeout(limit_s):
            while not holds():  # noqa: ASYNC110 - an observable of the sandbox, which has no event to wait for
                await asyncio.sleep(0.005)

    async def settled(self) -> None:
        """Wait until the cluster stream has every change of the sandbox."""
        await self._changes.join()

    async def _watch(self) -> None:
        while True:
            change = await self._changes.get()
            kind = _FED.get(change.stored.kind.kind)
            if kind is not None:
                item = reduce(kind, change.stored.obj)
                deleted = Deleted(kind=kind, metadata=item.metadata)
                await self._feed(deleted if change.type == "DELETED" else Applied(object=item))
            self._changes.task_done()

    async def _feed(self, change: ClusterChange) -> None:
        self._fed += 1
        attributes = EventAttributes(
            id=f"{change_id(change)}/{self._fed}",
            source="/phalanx/watcher/test",
            type=change_type(change),
            subject=change.metadata.name,
            time=datetime.now(UTC),
        )
        self.revision = await self.bus.publish(
            change_subject(change), data=encode_change(change), headers=headers(attributes)
        )

    async def _listen(self) -> None:
        async for batch in self.bus.follow(PLACEMENT_STREAM.name, subjects=f"{PLACEMENT}.>", last_per_subject=False):
            async with self._heard:
                for message in batch.messages:
                    # Some tests publish what cannot be read.
                    with contextlib.suppress(UndecodableMessage):
                        self.decisions.append(decode_decision(message.data))
                        self.traceparents.append(message.headers.get("traceparent", ""))
                self._heard.notify_all()


async def end_task(task: "asyncio.Task[Any]") -> None:
    """Cancel until it has ended: before Python 3.12, a wait inside a library may swallow a cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.2)


def pod_spec(group: str, *, gpus: int) -> Manifest:
    """A pod that asks for GPUs, of our scheduler, stopping at once when asked."""
    return {
        "schedulerName": "phalanx",
        "schedulingGroup": {"podGroupName": group},
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "registry.example.com/none:1",
                "resources": {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}},
            }
        ],
    }


@contextlib.asynccontextmanager
async def staged(sandbox: RunningSandbox, *, nats_url: str, directory: Path) -> AsyncIterator[Scene]:
    """A scene over a running sandbox and NATS server."""
    path = directory / "kubeconfig"
    kubeconfig.write(path, url=sandbox.url)
    async with Bus(url=nats_url, name="test", readiness=Readiness()) as bus:
        scene = Scene(sandbox=sandbox, bus=bus, nats_url=nats_url, kubeconfig=path)
        scene.create("Namespace", {"metadata": {"name": "team-a"}})
        await scene.open()
        try:
            yield scene
        finally:
            await scene.close()
