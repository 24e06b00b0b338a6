"""One burst of bindings on a real API server: by the binder, by a bare loop in Go, by one in Python.

The binder is the installed process with a real nats-server; what the watcher and the placer would say is published by
hand, so that both sides share the machine with the API server and with nothing else.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from bench.binding_log import BindingLog, Entry
from services.cli.processes import ANY_PORT, LocalProcess
from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.cluster_codec import change_id, change_subject, change_type, encode_change
from services.contracts.decision_codec import (
    decision_id,
    decision_subject,
    decision_type,
    decode_decision,
    encode_decision,
)
from services.contracts.streams import PLACEMENT_STREAM, STREAMS
from services.core.decisions import Assignment, Committed, Decision, Proposed
from services.core.objects import (
    Applied,
    ClusterChange,
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
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from tests.builders import node_manifest, pod_group_manifest, pod_manifest
from tests.kubernetes.cluster import Cluster, ClusterConfig

NODES = 50
REST_S = 1.0
"""Between the pods and what is measured: the API server still works for those who watch."""
_FOLLOWED = tuple(kind for kind in Kind if kind is not Kind.WATCH)
_CREATING = 16
_GROUPS = "/apis/scheduling.k8s.io/v1beta1"

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What the API server saw of one burst."""

    members: int
    seconds: float
    processor_s: float = 0.0
    """Processor time of the process that bound, over the whole round."""

    @property
    def rate(self) -> float:
        """Bindings a second, first to last."""
        return self.members / self.seconds


@dataclass(slots=True, kw_only=True)
class Stage:
    """A control plane, a bus, and one binder."""

    cluster: Cluster
    client: KubeClient
    bus: Bus
    binder: LocalProcess
    log: BindingLog
    go_loop: Path
    revision: int = 0
    _rounds: int = 0
    _fed: int = 0
    _pods: list[Manifest] = field(default_factory=list)

    async def prepare(self) -> None:
        """Make the nodes, and say that everything is followed."""
        for kind in _FOLLOWED:
            state = WatchState(metadata=Metadata(name=kind.value), phase=WatchPhase.SYNCED, resource_version="1")
            await self._feed(Applied(object=state))
        for number in range(NODES):
            # Room enough for all rounds: no watcher says that earlier pods are gone.
            manifest = node_manifest(f"node-{number:03d}", gpus=0, cpu=10**9, memory=2**50, pods=10**6)
            made = (await self.client.request_ok("POST", "/api/v1/nodes", body=manifest)).json()
            # A new node is tainted until its kubelet reports; these have none.
            made["spec"].pop("taints", None)
            await self._feed(Applied(object=reduce(Kind.NODE, made)))

    async def by_binder(self, members: int) -> Burst:
        """Let the binder bind a new gang."""
        namespace, pods = await self._pending(members)
        await self._feed_all(Applied(object=reduce(Kind.POD, one)) for one in pods)
        before_s = self._binder_processor_s()
        await asyncio.sleep(REST_S)
        decision = await self._propose(namespace, pods)
        await self._ended(decision)
        return _burst(
            await self.log.bindings(namespace, count=members), processor_s=self._binder_processor_s() - before_s
        )

    async def by_go(self, members: int, *, connections: int) -> Burst:
        """Bind with the loop in Go."""
        return await self._by_loop([str(self.go_loop)], members=members, connections=connections)

    async def by_python(self, members: int, *, connections: int) -> Burst:
        """Bind with the loop in Python."""
        command = [sys.executable, "-m", "bench.bare_loop"]
        return await self._by_loop(command, members=members, connections=connections)

    async def _by_loop(self, command: list[str], *, members: int, connections: int) -> Burst:
        namespace, pods = await self._pending(members)
        process = await asyncio.create_subprocess_exec(
            *command,
            f"--kubeconfig={self.cluster.kubeconfig}",
            f"--namespace={namespace}",
            f"--connections={connections}",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        targets = [
            {
                "pod": one["metadata"]["name"],
                "node": _node_of(index),
                "uid": one["metadata"]["uid"],
                "version": one["metadata"]["resourceVersion"],
            }
            for index, one in enumerate(pods)
        ]
        process.stdin.write(orjson.dumps(targets) + b"\n")
        await process.stdout.readline()
        await asyncio.sleep(REST_S)
        process.stdin.write(b"go\n")
        output = orjson.loads(await process.stdout.readline())
        await process.wait()
        if output["bound"] != members:
            raise RuntimeError(f"{command[-1]} bound {output['bound']} of {members} pods: {output['problem']}")
        return _burst(await self.log.bindings(namespace, count=members))

    async def _pending(self, members: int) -> tuple[str, list[Manifest]]:
        """Create a namespace with a group and so many unbound pods, and let the machine come to rest."""
        self._rounds += 1
        namespace = f"round-{self._rounds}"
        await self.client.request_ok("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
        group = pod_group_manifest("gang", min_count=members, namespace=namespace)
        made = await self.client.request_ok("POST", f"{_GROUPS}/namespaces/{namespace}/podgroups", body=group)
        await self._feed(Applied(object=reduce(Kind.POD_GROUP, made.json())))
        pods: list[Manifest] = []
        waiting = iter(range(members))

        async def create() -> None:
            for number in waiting:
                manifest = pod_manifest(f"gang-{number:04d}", namespace=namespace, group="gang", gpus=0, cpu=100)
                path = f"/api/v1/namespaces/{namespace}/pods"
                pods.append((await self.client.request_ok("POST", path, body=manifest)).json())

        async with asyncio.TaskGroup() as group_of_tasks:
            for _ in range(_CREATING):
                group_of_tasks.create_task(create())
        pods.sort(key=lambda one: str(one["metadata"]["name"]))
        return namespace, pods

    async def _ended(self, proposal: Decision) -> None:
        """Wait until the binder has committed a proposal, at no cost to the machine meanwhile."""
        subjects = f"{decision_subject(proposal).rpartition('.')[0]}.*"
        async for batch in self.bus.follow(PLACEMENT_STREAM.name, subjects=subjects, last_per_subject=False):
            for message in batch.messages:
                found = decode_decision(message.data)
                if isinstance(found.event, Committed):
                    return
                if found.ends_transaction:
                    raise RuntimeError(f"the binder did not commit: {found}")

    async def _propose(self, namespace: str, pods: list[Manifest]) -> Decision:
        now = datetime.now(UTC)
        decision = Decision(
            gang=GangId(f"podgroup/{namespace}/gang"),
            transaction=TransactionId(f"transaction-{namespace}"),
            decided_at=now,
            event=Proposed(
                revision=self.revision,
                deadline=now + timedelta(seconds=60),
                min_count=len(pods),
                assignments=tuple(
                    Assignment(
                        pod=one["metadata"]["name"],
                        uid=Uid(one["metadata"]["uid"]),
                        node=NodeName(_node_of(index)),
                    )
                    for index, one in enumerate(pods)
                ),
            ),
        )
        attributes = EventAttributes(
            id=decision_id(decision),
            source="/phalanx/placer/bench",
            type=decision_type(decision),
            subject=decision.gang,
            time=now,
        )
        await self.bus.publish(decision_subject(decision), data=encode_decision(decision), headers=headers(attributes))
        return decision

    async def _feed_all(self, changes: Iterable[ClusterChange]) -> None:
        for change in changes:
            await self._feed(change)

    async def _feed(self, change: ClusterChange) -> None:
        self._fed += 1
        attributes = EventAttributes(
            id=f"{change_id(change)}/{self._fed}",
            source="/phalanx/watcher/bench",
            type=change_type(change),
            subject=change.metadata.name,
            time=datetime.now(UTC),
        )
        self.revision = await self.bus.publish(
            change_subject(change), data=encode_change(change), headers=headers(attributes)
        )

    def _binder_processor_s(self) -> float:
        """Processor time of the binder since it began."""
        fields = Path(f"/proc/{self.binder.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@asynccontextmanager
async def staged(folder: Path, *, go_loop: Path, connections: int) -> AsyncIterator[Stage]:
    """Run everything until the block ends."""
    log = BindingLog.within(folder)
    async with contextlib.AsyncExitStack() as stack:
        nats = await stack.enter_async_context(EmbeddedNats())
        config = ClusterConfig(controller_manager=False, apiserver_args=log.apiserver_args)
        cluster = await stack.enter_async_context(Cluster(config))
        client = await stack.enter_async_context(await KubeClient.open(cluster.kubeconfig))
        bus = await stack.enter_async_context(Bus(url=nats.url, name="bench", readiness=Readiness()))
        await bus.ensure_streams(STREAMS)
        binder = LocalProcess(
            name="binder",
            folder=folder,
            environment={
                "PHALANX_NATS_URL": nats.url,
                "PHALANX_HTTP_ADDRESS": ANY_PORT,
                "PHALANX_GRPC_ADDRESS": ANY_PORT,
                "PHALANX_KUBECONFIG": str(cluster.kubeconfig),
                "PHALANX_BIND_CONCURRENCY": str(connections),
            },
        )
        stage = Stage(cluster=cluster, client=client, bus=bus, binder=binder, log=log, go_loop=go_loop)
        await stage.prepare()
        binder.start()
        stack.push_async_callback(binder.stop)
        await binder.wait_ready()
        yield stage


def _node_of(index: int) -> str:
    return f"node-{index % NODES:03d}"


def _burst(bindings: list[Entry], *, processor_s: float = 0.0) -> Burst:
    first, last = min(one.received_at for one in bindings), max(one.answered_at for one in bindings)
    return Burst(members=len(bindings), seconds=(last - first).total_seconds(), processor_s=processor_s)
