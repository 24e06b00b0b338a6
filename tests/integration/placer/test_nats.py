"""The whole placer on a real NATS server, with a watcher and a binder that the test plays."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import grpc.aio
import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from services.contracts.cloudevents import EventAttributes, attributes_of, headers
from services.contracts.cluster_codec import change_id, change_subject, change_type, encode_change
from services.contracts.decision_codec import (
    decision_id,
    decision_subject,
    decision_type,
    decode_decision,
    encode_decision,
)
from services.contracts.pb.placement.v1 import placement_service_pb2 as pb
from services.contracts.pb.placement.v1.placement_service_pb2_grpc import PlacementServiceStub
from services.contracts.streams import PLACEMENT_STREAM, STREAMS
from services.core.cluster import NEEDED_KINDS, OPTIONAL_KINDS
from services.core.decisions import Committed, Decision, DecisionEvent, Proposed, Refused
from services.core.objects import Applied, ClusterChange, ClusterObject
from services.core.reasons import Reason, ReasonCode
from services.placer.app import place
from services.placer.settings import PlacerSettings
from services.runtime import addresses, health, log
from services.runtime.bus import Bus, Message
from services.runtime.clock import SystemClock
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.lifecycle import Runtime
from tests.builders import members, node, pod, pod_group, synced
from tests.contract.bus.sides import Reader, reading

pytest_plugins = ("tests.nats_server",)

WAIT_S = 15.0
BOTH = {"pod/team-a/before", "pod/team-a/after"}
TRACE = "0af7651916cd43dd8448eb211c80319c"


class World:
    """A watcher and a binder, played by the test, and the decisions that it hears."""

    def __init__(self, bus: Bus, reader: Reader) -> None:
        """Keep an open bus, and a reader of the placement stream."""
        self.bus = bus
        self.reader = reader

    async def show(self, *objects: ClusterObject, traceparent: str = "") -> None:
        """Publish objects as the watcher does."""
        await self.change(*(Applied(object=item) for item in objects), traceparent=traceparent)

    async def change(self, *changes: ClusterChange, traceparent: str = "") -> None:
        """Publish changes as the watcher does."""
        for one in changes:
            subject = change_subject(one)
            event = EventAttributes(
                id=change_id(one), source="/test", type=change_type(one), subject=subject, time=SystemClock().now()
            )
            extra = {"traceparent": traceparent} if traceparent else {}
            await self.bus.publish(subject, data=encode_change(one), headers=headers(event) | extra)

    async def end(self, decision: Decision, event: DecisionEvent) -> None:
        """Publish what became of a decision, as the binder does."""
        ended = replace(decision, event=event, decided_at=SystemClock().now())
        attributes = EventAttributes(
            id=decision_id(ended),
            source="/test",
            type=decision_type(ended),
            subject=ended.gang,
            time=ended.decided_at,
        )
        await self.bus.publish(decision_subject(ended), data=encode_decision(ended), headers=headers(attributes))

    @property
    def proposals(self) -> list[tuple[Message, Decision]]:
        """All proposals so far, with their messages."""
        decoded = [(message, decode_decision(message.data)) for message in self.reader.messages]
        return [(message, one) for message, one in decoded if isinstance(one.event, Proposed)]

    async def proposal(self, number: int = 0) -> tuple[Message, Decision, Proposed]:
        """Wait for a proposal."""
        await until(lambda: len(self.proposals) > number, what=f"proposal {number}")
        message, decision = self.proposals[number]
        assert isinstance(decision.event, Proposed)
        return message, decision, decision.event


class RunningPlacer:
    """A placer in this process."""

    def __init__(self, runtime: Runtime, task: "asyncio.Task[None]") -> None:
        """Keep its parts."""
        self.runtime = runtime
        self._task = task
        #: What was known each time when readiness changed.
        self.turns: list[set[str]] = []
        runtime.readiness.subscribe(lambda: self.turns.append({one.name for one in runtime.readiness.conditions}))

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.runtime.registry.get_sample_value(name, labels) or 0.0

    async def until_ready(self) -> None:
        """Wait until it may be given work."""
        await until(lambda: self.runtime.readiness.is_ready or self._task.done(), what="the placer is ready")
        if self._task.done():
            await self._task

    async def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._task.cancel()
        await asyncio.wait({self._task})


async def until(condition: Callable[[], bool], *, what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, f"waited {WAIT_S:g} s for {what}"
        await asyncio.sleep(0.005)


@pytest.fixture
async def world(nats_server: EmbeddedNats) -> AsyncIterator[World]:
    """Streams, and somebody who reads the decisions."""
    async with Bus(url=nats_server.url, name="world", readiness=Readiness()) as bus:
        await bus.ensure_streams(STREAMS)
        async with reading(bus, stream=PLACEMENT_STREAM, last_per_subject=False) as reader:
            yield World(bus, reader)


@asynccontextmanager
async def placing(
    nats_url: str, *, tracer_provider: TracerProvider | None = None, is_awaited: bool = True
) -> AsyncIterator[RunningPlacer]:
    """Run a placer with its settings, its own connection, and gRPC on a free port."""
    provider = tracer_provider or TracerProvider(shutdown_on_exit=False)
    settings = PlacerSettings(nats_url=nats_url, grpc_address="127.0.0.1:0", instance="placer-test")
    runtime = Runtime(
        service="placer",
        instance="placer-test",
        readiness=Readiness(),
        registry=CollectorRegistry(),
        tracer=provider.get_tracer("test"),
        log=log.get("placer"),
        clock=SystemClock(),
        stopping=asyncio.Event(),
    )
    running = RunningPlacer(runtime, asyncio.create_task(place(settings, runtime)))
    try:
        if is_awaited:
            await running.until_ready()
        yield running
    finally:
        await running.kill()


async def test_gang_from_the_stream_is_proposed(world: World, nats_server: EmbeddedNats) -> None:
    """Its message is a CloudEvent, and continues the trace of the last member's event."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    first, last = members("train", count=2)
    await world.change(*synced())
    async with placing(nats_server.url, tracer_provider=provider):
        await world.show(node("n1"), pod_group("train", min_count=2), first)
        await world.show(last, traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
        message, decision, event = await world.proposal()
        await until(lambda: bool(exporter.get_finished_spans()), what="the span has ended")
    assert message.subject == "phalanx.placement.v1.podgroup.team-a.train.proposed"
    attributes = attributes_of(message.headers)
    assert attributes.type == "phalanx.placement.v1.proposed"
    assert attributes.source == "/phalanx/placer/placer-test"
    assert attributes.subject == decision.gang == "podgroup/team-a/train"
    assert attributes.id == f"{decision.transaction}/proposed/0"
    assert attributes.time == decision.decided_at
    assert {one.node for one in event.assignments} == {"n1"}
    (span,) = exporter.get_finished_spans()
    context = span.get_span_context()
    assert context is not None
    assert message.headers["traceparent"] == f"00-{TRACE}-{context.span_id:016x}-01"
    assert span.parent is not None
    assert span.parent.span_id == int("b7ad6b7169203331", 16)


async def test_restart_in_the_middle_proposes_nothing_twice(world: World, nats_server: EmbeddedNats) -> None:
    """A new placer knows from the stream what is promised, and goes on with what is not."""
    await world.change(*synced())
    await world.show(node("n1", gpus=4), pod_group("train", min_count=3), *members("train", count=3))
    async with placing(nats_server.url):
        await world.proposal()
    await world.show(pod("late", gpus=1), pod("later", gpus=1))
    async with placing(nats_server.url) as second:
        _, decision, _ = await world.proposal(1)
        await until(lambda: second.metric("phalanx_placer_waiting_gangs") == 1, what="the other waits")
    assert [one.gang for _, one in world.proposals] == ["podgroup/team-a/train", decision.gang]
    assert decision.gang in {"pod/team-a/late", "pod/team-a/later"}


async def test_killed_again_and_again_it_proposes_each_gang_once(world: World, nats_server: EmbeddedNats) -> None:
    """Wherever it dies, also between deciding and publishing."""
    await world.change(*synced())
    await world.show(*(node(f"n{index}") for index in range(8)))
    for turn in range(4):
        async with placing(nats_server.url):
            await world.show(*(pod(f"p-{turn}-{index}") for index in range(15)))
            await world.proposal(turn * 15 + 3)
    async with placing(nats_server.url):
        await world.proposal(59)
    gangs = [one.gang for _, one in world.proposals]
    assert len(gangs) == len(set(gangs)) == 60


async def test_refused_and_committed_gangs(world: World, nats_server: EmbeddedNats) -> None:
    """A refusal leads to another try; a commit frees nothing until the binding is seen, and is final."""
    await world.change(*synced())
    async with placing(nats_server.url) as placer:
        await world.show(node("n1", gpus=1), pod("w-0"))
        _, decision, _ = await world.proposal()
        await world.end(decision, Refused(reasons=(Reason(code=ReasonCode.PLACEMENT_STALE, message="try again"),)))
        _, second, event = await world.proposal(1)
        assert second.transaction != decision.transaction
        await world.end(second, Committed(members=event.assignments))
        await until(lambda: placer.metric("phalanx_placer_open_transactions") == 0, what="it is over")
        await world.show(pod("w-1"))
        await until(lambda: placer.metric("phalanx_placer_waiting_gangs") == 1, what="the next one waits")
        bound = pod("w-0", node="n1", version="2")
        await world.show(bound)
        await world.show(replace(bound, phase="Succeeded", metadata=replace(bound.metadata, resource_version="3")))
        _, third, _ = await world.proposal(2)
        assert third.gang == "pod/team-a/w-1"


async def test_it_goes_on_after_an_outage_of_nats(world: World, nats_server: EmbeddedNats) -> None:
    """Everything is read again, and nothing is proposed twice."""
    await world.change(*synced())
    async with placing(nats_server.url) as placer:
        await world.show(node("n1"), pod("before"))
        await world.proposal()
        await nats_server.kill()
        await until(lambda: not placer.runtime.readiness.is_ready, what="the outage is noticed")
        await nats_server.start()
        # A crash may cost the cluster stream what it had not synced; the watcher would write it again.
        await world.change(*synced())
        await world.show(node("n1"), pod("before"), pod("after"))
        await placer.until_ready()
        _, decision, _ = await world.proposal(1)
        assert decision.gang == "pod/team-a/after"
        assert [one.gang for _, one in world.proposals] == ["pod/team-a/before", "pod/team-a/after"]


async def test_a_deleted_stream_of_decisions_is_made_again(world: World, nats_server: EmbeddedNats) -> None:
    """The placer forgets what it read there, and decides again what no stream says any more; no restart is needed."""
    await world.change(*synced())
    async with placing(nats_server.url) as placer:
        await world.show(node("n1"), pod("before"))
        await world.proposal()
        await world.bus._jetstream.delete_stream(PLACEMENT_STREAM.name)
        await world.reader.until_restarted()
        await placer.until_ready()
        await world.show(pod("after"))
        await until(lambda: {one.gang for _, one in world.proposals} >= BOTH, what="both are proposed anew")
        assert [message.sequence for message, _ in world.proposals] == [1, 2]


async def test_grpc_answers_about_the_same_state(
    world: World, nats_server: EmbeddedNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service runs beside the loop, and its answers are about what the stream says."""
    ports = tmp_path / "ports.json"
    monkeypatch.setenv("PHALANX_PORT_FILE", str(ports))
    await world.change(*synced())
    await world.show(node("n1", gpus=0), pod("w-0"))
    async with placing(nats_server.url) as placer:
        await until(lambda: placer.metric("phalanx_placer_waiting_gangs") == 1, what="it waits")
        async with grpc.aio.insecure_channel(f"127.0.0.1:{orjson.loads(ports.read_bytes())['grpc']}") as channel:
            stub = PlacementServiceStub(channel)
            answer = await stub.Explain(pb.ExplainRequest(gang="pod/team-a/w-0"))
    assert (answer.state, answer.position) == ("waiting", 1)


async def test_connection_alone_is_not_readiness(world: World, nats_server: EmbeddedNats) -> None:
    """The first moment in which it is ready is one in which the cluster is known; before that nobody is sent to it."""
    await world.change(*synced())
    async with placing(nats_server.url) as placer:
        assert placer.turns
        assert all("cluster" in names for names in placer.turns)
        assert len(placer.turns) == 1


async def test_health_names_what_is_waited_for(world: World, nats_server: EmbeddedNats) -> None:
    """`/readyz` of a placer on an empty cluster says that the watcher is missing."""
    async with placing(nats_server.url, is_awaited=False) as running:
        await until(
            lambda: any("waiting for the watcher" in one.detail for one in running.runtime.readiness.conditions),
            what="the reason",
        )
        async with (
            health.serve("127.0.0.1:0", running.runtime.readiness, running.runtime.registry) as port,
            aiohttp.ClientSession() as session,
            session.get(f"http://{addresses.join_address('127.0.0.1', port=port)}/readyz?format=json") as answer,
        ):
            document = orjson.loads(await answer.read())
        assert answer.status == 503
    details = {one["name"]: one["detail"] for one in document["conditions"]}
    kinds = ", ".join((*NEEDED_KINDS, *OPTIONAL_KINDS))
    assert details["cluster"] == f"waiting for the watcher to follow: {kinds}"
    assert details["nats"].startswith("connected to")
    assert world.proposals == []
