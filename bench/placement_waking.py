"""How a placer that holds a large cluster wakes: memory, restart, and pods that finish while many gangs wait.

    python -m bench.placement_waking [--nodes 5000] [--pods 50000] [--gangs 1000] [--finished 1000] [--rate 250]

The stream is a real nats-server that syncs every write, filled with what a watcher publishes of objects of realistic
size; the placer is the process that is installed. All GPUs are in use, and gangs of four wait for one, two, four or
eight GPUs a member. Pods finish one after the other on different nodes, so that each fourth one lets a gang of four
GPUs run, and all others are woken in vain or not at all. Results are printed beside their goals and written to
`build/bench-placement-waking.json`.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import click
import nats
from nats.aio.client import Client

from bench.cluster_server import node_manifest, pod_manifest
from bench.measures import Measure, show, write
from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.cluster_codec import change_id, change_subject, change_type, encode_change
from services.contracts.decision_codec import decode_decision
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM
from services.contracts.subjects import PLACEMENT
from services.core.decisions import Proposed, Waiting
from services.core.objects import (
    Applied,
    ClusterChange,
    GangId,
    Kind,
    Metadata,
    Pod,
    PodGroup,
    Uid,
    WatchPhase,
    WatchState,
)
from services.core.reduce import reduce
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness

RESULT = Path("build/bench-placement-waking.json")
TIMEOUT_S = 300.0
GPU = "nvidia.com/gpu"
GPUS_PER_NODE = 8
MEMBERS = 4
MEMBER_GPUS = (1, 2, 4, 8)
NAMESPACE = "team-0"
CREATED = datetime(2026, 7, 1, tzinfo=UTC)
FLUSHED = 500
"""Messages that are published between two looks whether the server has them all."""

MEMORY_GOAL_MIB = 400.0
RESTART_GOAL_S = 15.0
RATE_GOAL = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How large everything is. `pods` counts the members of waiting gangs too."""

    nodes: int
    pods: int
    gangs: int
    finished: int
    rate: int

    def running(self) -> Iterator[Pod]:
        """Return the pods that run: one for each GPU, and the rest without."""
        for number in range(self.pods - MEMBERS * self.gangs):
            pod = reduce(Kind.POD, pod_manifest(number, node_count=self.nodes))
            assert isinstance(pod, Pod)
            has_gpu = number < GPUS_PER_NODE * self.nodes
            yield pod if has_gpu else replace(pod, requests={"cpu": 1000, "memory": 2**30, "pods": 1})

    def gang(self, number: int, *, requests: dict[str, int]) -> Iterator[ClusterChange]:
        """Return a PodGroup and its members."""
        name = f"gang-{number:05d}"
        yield Applied(object=PodGroup(metadata=_metadata(name), min_count=MEMBERS))
        template = reduce(Kind.POD, pod_manifest(number, node_count=0))
        assert isinstance(template, Pod)
        for member in range(MEMBERS):
            yield Applied(
                object=replace(
                    template,
                    metadata=replace(_metadata(f"{name}-{member}"), labels=template.metadata.labels),
                    group=name,
                    phase="Pending",
                    requests={"cpu": 1000, "memory": 2**30, "pods": 1, **requests},
                )
            )

    def changes(self) -> Iterator[ClusterChange]:
        """Return everything that the cluster stream holds."""
        for number in range(self.nodes):
            yield Applied(object=reduce(Kind.NODE, node_manifest(number)))
        for pod in self.running():
            yield Applied(object=pod)
        for number in range(self.gangs):
            yield from self.gang(number, requests={GPU: MEMBER_GPUS[number % len(MEMBER_GPUS)]})
        for kind in Kind:
            if kind is not Kind.WATCH:
                yield Applied(object=WatchState(metadata=Metadata(name=kind.value), phase=WatchPhase.SYNCED))


class Stream:
    """Writes to the cluster stream as a watcher does, without waiting for each answer."""

    def __init__(self, client: Client) -> None:
        """Use a connection."""
        self._client = client

    async def publish(self, changes: Iterator[ClusterChange]) -> int:
        """Publish changes, and return how many they were."""
        count = 0
        for change in changes:
            attributes = EventAttributes(
                id=change_id(change),
                source="/phalanx/watcher/bench",
                type=change_type(change),
                subject=f"{change.metadata.namespace}/{change.metadata.name}",
                time=CREATED,
            )
            sent = {name: value for name, value in headers(attributes).items() if name != "Nats-Msg-Id"}
            await self._client.publish(change_subject(change), encode_change(change), headers=sent)
            count += 1
            if count % FLUSHED == 0:
                await self._client.flush()
        await self._client.flush()
        return count

    async def length(self) -> int:
        """Return how many messages the stream holds."""
        return (await self._client.jetstream().stream_info(CLUSTER_STREAM.name)).state.messages


@click.command(help=__doc__)
@click.option("--nodes", default=5_000, show_default=True)
@click.option("--pods", default=50_000, show_default=True)
@click.option("--gangs", default=1_000, show_default=True)
@click.option("--finished", default=1_000, show_default=True, help="pods that finish")
@click.option("--rate", default=250, show_default=True, help="of them in a second")
def main(nodes: int, pods: int, gangs: int, finished: int, rate: int) -> None:
    """Measure, print and write; exit with 1 where a goal is missed."""
    load = Load(nodes=nodes, pods=pods, gangs=gangs, finished=finished, rate=rate)
    measures = asyncio.run(_measured(load))
    show(measures, title="placer, waking")
    write(measures, inputs=asdict(load), path=RESULT)
    raise SystemExit(0 if all(measure.is_met is not False for measure in measures) else 1)


async def _measured(load: Load) -> list[Measure]:
    async with EmbeddedNats() as server, Bus(url=server.url, name="bench", readiness=Readiness()) as bus:
        await bus.ensure_streams([CLUSTER_STREAM, PLACEMENT_STREAM])
        client = await nats.connect(server.url)
        stream = Stream(client)
        count = await stream.publish(load.changes())
        async with asyncio.timeout(TIMEOUT_S):
            while await stream.length() < count:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.1)
        with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as name:
            async with _placer(Path(name), nats_url=server.url) as placer:
                measures = await _first(bus, placer=placer, load=load)
            await stream.publish(load.gang(load.gangs, requests={}))
            async with _placer(Path(name), nats_url=server.url) as placer:
                measures += await _restart(bus, placer=placer)
                measures += await _finishing(bus, placer=placer, stream=stream, load=load)
        await client.close()
    return measures


async def _first(bus: Bus, *, placer: "_Process", load: Load) -> list[Measure]:
    """Wait until every gang was told why it waits."""
    await _decided(bus, event="waiting", count=load.gangs)
    return [
        Measure(name="start to all gangs told why they wait", value=placer.age_s(), unit="s"),
        Measure(name="peak memory by then", value=placer.memory_mib("VmHWM"), unit="MiB", goal=MEMORY_GOAL_MIB),
        Measure(name="processor time by then", value=placer.processor_s(), unit="s"),
    ]


async def _restart(bus: Bus, *, placer: "_Process") -> list[Measure]:
    """Wait until the gang that came meanwhile, and fits, is placed."""
    await _decided(bus, event="proposed", count=1)
    return [
        Measure(name="restart to first decision", value=placer.age_s(), unit="s", goal=RESTART_GOAL_S),
        Measure(name="peak memory by then", value=placer.memory_mib("VmHWM"), unit="MiB", goal=MEMORY_GOAL_MIB),
        Measure(name="memory then", value=placer.memory_mib("VmRSS"), unit="MiB", goal=MEMORY_GOAL_MIB),
        Measure(name="processor time by then", value=placer.processor_s(), unit="s"),
    ]


async def _finishing(bus: Bus, *, placer: "_Process", stream: Stream, load: Load) -> list[Measure]:
    """Let pods finish at a rate, and wait until every gang was placed that they let run."""
    candidates = len(range(0, load.gangs, len(MEMBER_GPUS)))
    helped = min(load.finished // MEMBERS, candidates)
    # Each on another node, and so that no node gets room for two.
    finished = [
        Applied(
            object=replace(
                pod, phase="Succeeded", metadata=replace(pod.metadata, uid=pod.metadata.uid, resource_version="2")
            )
        )
        for pod in _first_of_each_node(load)
    ]
    reading = asyncio.create_task(_decided(bus, event="proposed", count=1 + helped))
    before_s, started_s = placer.processor_s(), time.monotonic()
    for number, change in enumerate(finished):
        await stream.publish(iter([change]))
        await asyncio.sleep(max(started_s + (number + 1) / load.rate - time.monotonic(), 0))
    sent_s = time.monotonic() - started_s
    await reading
    took_s = time.monotonic() - started_s
    return [
        Measure(
            name=f"{load.gangs - helped} to {load.gangs} gangs waiting: finish events handled",
            value=len(finished) / took_s,
            unit="events/s",
            goal=min(RATE_GOAL, load.rate),
            is_floor=True,
        ),
        Measure(name="last event sent to last gang placed", value=1000 * (took_s - sent_s), unit="ms"),
        Measure(name="processor of the placer", value=(placer.processor_s() - before_s) / took_s, unit="cores"),
        Measure(name="memory in the end", value=placer.memory_mib("VmHWM"), unit="MiB", goal=MEMORY_GOAL_MIB),
    ]


def _first_of_each_node(load: Load) -> list[Pod]:
    running = load.running()
    return [next(running) for _ in range(min(load.finished, load.nodes))]


async def _decided(bus: Bus, *, event: str, count: int) -> None:
    """Wait until so many gangs have been decided with this event."""
    wanted = {"waiting": Waiting, "proposed": Proposed}[event]
    gangs: set[GangId] = set()
    async with asyncio.timeout(TIMEOUT_S):
        async for batch in bus.follow(PLACEMENT_STREAM.name, subjects=f"{PLACEMENT}.*.*.*.{event}"):
            for message in batch.messages:
                decision = decode_decision(message.data)
                if isinstance(decision.event, wanted):
                    gangs.add(decision.gang)
            if len(gangs) >= count:
                return


def _metadata(name: str) -> Metadata:
    uid = Uid(str(uuid.uuid5(uuid.NAMESPACE_OID, name)))
    return Metadata(name=name, namespace=NAMESPACE, uid=uid, resource_version="1", created_at=CREATED)


@dataclass(slots=True, kw_only=True)
class _Process:
    """A placer of its own."""

    process: asyncio.subprocess.Process
    started_s: float

    def age_s(self) -> float:
        """Return the time since it was started."""
        return time.monotonic() - self.started_s

    def memory_mib(self, name: str) -> float:
        """Return the resident size: VmRSS now, VmHWM the largest so far."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith(name))
        return int(line.split()[1]) / 1024

    def processor_s(self) -> float:
        """Return the processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.asynccontextmanager
async def _placer(directory: Path, *, nats_url: str) -> AsyncIterator[_Process]:
    environ = os.environ | {
        "PHALANX_NATS_URL": nats_url,
        "PHALANX_HTTP_ADDRESS": "127.0.0.1:0",
        "PHALANX_GRPC_ADDRESS": "127.0.0.1:0",
        "PHALANX_PORT_FILE": str(directory / "ports.json"),
        "PHALANX_LOG_LEVEL": "warning",
        # Nobody binds here: what is proposed must stand until everything has been measured.
        "PHALANX_DEADLINE_S": "3600",
    }
    started_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "services.placer", env=environ)
    try:
        yield _Process(process=process, started_s=started_s)
    finally:
        process.terminate()
        await process.wait()


if __name__ == "__main__":
    main()
