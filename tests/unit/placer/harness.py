"""A placer on a bus in memory, with a clock that the test moves."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from opentelemetry.trace import NoOpTracer, Tracer
from prometheus_client import CollectorRegistry

from services.contracts.cluster_codec import change_id, change_subject, encode_change
from services.contracts.decision_codec import decision_id, decision_subject, decode_decision, encode_decision
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM
from services.core.attention import DecisionPolicy
from services.core.decider import Decider
from services.core.decisions import Decision, DecisionEvent, Proposed
from services.core.objects import Applied, ClusterChange, ClusterObject, Deleted, kind_of
from services.placer.deciding import Loop
from services.placer.metrics import PlacerMetrics
from services.placer.mind import Mind, Thought
from services.placer.publishing import Publisher
from services.runtime.bus import Message
from services.runtime.election import Candidacy, Terms
from services.runtime.health import Readiness
from services.runtime.leadership import Leadership
from tests.builders import START, synced
from tests.fakes.bus import FakeBus
from tests.fakes.clock import FakeClock
from tests.fakes.letters import letter_box

SETTLE_S = 0.05
WAIT_S = 10.0


class WatchedMind(Mind):
    """A mind that counts how often it thinks, and can be made to wait before it does."""

    def __init__(self, *, policy: DecisionPolicy) -> None:
        """Think at once, unless told otherwise."""
        super().__init__(policy=policy)
        self.gate = asyncio.Event()
        self.gate.set()
        #: How many messages each thought was about.
        self.sizes: list[int] = []
        self.is_waiting = False

    async def think(
        self, *, changes: Sequence[Message], decisions: Sequence[Message], now: datetime, epoch: int | None
    ) -> Thought:
        """Note it, and think."""
        self.sizes.append(len(changes) + len(decisions))
        self.is_waiting = not self.gate.is_set()
        await self.gate.wait()
        self.is_waiting = False
        return await super().think(changes=changes, decisions=decisions, now=now, epoch=epoch)


class Placer:
    """One running placer, and what the world would show it."""

    def __init__(
        self, bus: FakeBus, *, clock: FakeClock, mind: WatchedMind, tracer: Tracer, is_standby: bool = False
    ) -> None:
        """Put the parts together as `services.placer.app` does."""
        self.bus = bus
        self.clock = clock
        self.mind = mind
        self.registry = CollectorRegistry()
        self.readiness = Readiness(clock=clock)
        metrics = PlacerMetrics(self.registry)
        self.leadership = Leadership.unopposed(clock=clock, readiness=self.readiness)
        sequences: dict[str, int] = {}
        if is_standby:
            self.leave()
        publisher = Publisher(
            bus,
            instance="test",
            tracer=tracer,
            metrics=metrics,
            sequences=sequences,
            leadership=self.leadership,
        )
        self.letters = letter_box(bus, service="placer", clock=clock)
        self.loop = Loop(
            bus=bus,
            mind=mind,
            publisher=publisher,
            letters=self.letters,
            readiness=self.readiness,
            metrics=metrics,
            clock=clock,
            sequences=sequences,
            leadership=self.leadership,
        )

    def lead(self, epoch: int) -> None:
        """Let it win the election."""
        self._elect(epoch)

    def leave(self) -> None:
        """Let another win the election."""
        self._elect(None)

    def _elect(self, epoch: int | None) -> None:
        until_s = 0.0 if epoch is None else float("inf")
        self.leadership.adopt(
            Candidacy(candidate="test", terms=Terms(), epoch=epoch, until_s=until_s, leader="placer-2")
        )
        self.leadership.tell()

    def show(self, *objects: ClusterObject, traceparent: str = "") -> None:
        """Publish objects as the watcher would."""
        self.change(*(Applied(object=item) for item in objects), traceparent=traceparent)

    def lose(self, *objects: ClusterObject) -> None:
        """Publish that objects are gone."""
        self.change(*(Deleted(kind=kind_of(item), metadata=item.metadata) for item in objects))

    def change(self, *changes: ClusterChange, traceparent: str = "") -> None:
        """Publish changes."""
        for one in changes:
            headers = {"ce-id": change_id(one)} | ({"traceparent": traceparent} if traceparent else {})
            self.bus.write(change_subject(one), data=encode_change(one), headers=headers)

    def sync(self) -> None:
        """Publish that the watcher follows everything."""
        self.change(*synced())

    def end(self, decision: Decision, event: DecisionEvent) -> None:
        """Publish what became of a decision, as the binder would."""
        self.tell(replace(decision, event=event, decided_at=self.clock.now()))

    def tell(self, decision: Decision) -> None:
        """Publish a decision of somebody else."""
        headers = {"ce-id": decision_id(decision)}
        self.bus.write(decision_subject(decision), data=encode_decision(decision), headers=headers)

    @property
    def decisions(self) -> list[Decision]:
        """Everything on the placement stream."""
        return [decode_decision(message.data) for message in self.bus.stored(PLACEMENT_STREAM.name)]

    @property
    def proposals(self) -> list[Decision]:
        """The proposals on the placement stream."""
        return [one for one in self.decisions if isinstance(one.event, Proposed)]

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.registry.get_sample_value(name, labels) or 0.0

    @property
    def detail(self) -> str:
        """What readiness says about the cluster."""
        return next((one.detail for one in self.readiness.conditions if one.name == "cluster"), "")

    @property
    def is_ready(self) -> bool:
        """What readiness says."""
        return self.readiness.is_ready

    async def until(self, condition: Callable[[], bool], *, what: str) -> None:
        """Wait until something holds."""
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, f"waited {WAIT_S:g} s for {what}; decided {self.decisions}"
            await asyncio.sleep(0.001)

    async def until_read(self) -> None:
        """Wait until everything that was published has been thought about."""
        await self.until(lambda: self.is_ready, what="readiness")
        await self.until(self.is_idle, what="everything is read")

    async def settle(self) -> None:
        """Let everything be read, and let the time pass after which groups count as complete."""
        await self.until_read()
        self.clock.advance(SETTLE_S)

    async def ask(self, question: Callable[[Decider], object]) -> object:
        """Ask the mind."""
        return await self.mind.ask(question)

    def is_idle(self) -> bool:
        """Tell whether all of the cluster is folded, and the loop waits for what comes next."""
        cluster = self.bus.stored(CLUSTER_STREAM.name)
        newest = cluster[-1].sequence if cluster else 0
        is_folded = self.metric("phalanx_placer_revision") == newest
        has_begun = not self.leadership.is_leading or (self.loop._term is not None and not self.loop._nudged.is_set())
        return is_folded and has_begun and self.loop._queue.empty() and self.clock.sleeper_count > 0


@asynccontextmanager
async def placing(
    bus: FakeBus | None = None,
    *,
    clock: FakeClock | None = None,
    tracer: Tracer | None = None,
    is_standby: bool = False,
) -> AsyncIterator[Placer]:
    """Run a placer while the block runs."""
    policy = DecisionPolicy(settle=timedelta(seconds=SETTLE_S))
    async with WatchedMind(policy=policy) as mind:
        placer = Placer(
            bus or FakeBus(),
            clock=clock or FakeClock(start=START),
            mind=mind,
            tracer=tracer or NoOpTracer(),
            is_standby=is_standby,
        )
        running = [asyncio.create_task(work) for work in (placer.loop.run(), placer.letters.run())]
        try:
            yield placer
        finally:
            mind.gate.set()
            for task in running:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
