"""A waker with one source in memory."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from opentelemetry.trace import NoOpTracer, Tracer
from prometheus_client import CollectorRegistry

from services.autoscaler.cold_starts import ColdStarts
from services.autoscaler.fitting import FitQuestion
from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.sources import SourceBook
from services.autoscaler.telling import Teller
from services.autoscaler.waking import Waker
from services.contracts.scaling_codec import decode_scaling
from services.contracts.streams import SCALING_STREAM
from services.core.metric_readings import MetricKey
from services.core.metric_sources import JetStreamSource, MetricSource
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler, ScalingEvent, WhenItDoesNotFit
from tests.builders import START
from tests.fakes.bus import FakeBus
from tests.fakes.clock import FakeClock
from tests.fakes.hpas import FakeDeliveries, FakeHpas, FakePlacer, FakePods, FakeQueues
from tests.fakes.leadership import FakeLeadership
from tests.hpas import hpa_manifest

SOURCE = MetricSource(metric="queue_depth", jetstream=JetStreamSource(stream="S", consumer="infer"))


class Scene:
    """A waker with one source, on fakes."""

    def __init__(
        self,
        *,
        api: FakeHpas | None = None,
        bus: FakeBus | None = None,
        leadership: FakeLeadership | None = None,
        placer: FakePlacer | None = None,
        when: WhenItDoesNotFit = WhenItDoesNotFit.CREATE,
        tracer: Tracer | None = None,
    ) -> None:
        """Put it together as `services.autoscaler.app` does; with `api` and `bus` it is a successor of another."""
        self.leadership = leadership or FakeLeadership()
        self.clock = FakeClock(start=START)
        self.api, self.bus = api or FakeHpas(), bus or FakeBus()
        self.queues = FakeQueues(clock=self.clock, lengths={"infer": 0})
        self.registry = CollectorRegistry()
        metrics = WakingMetrics(self.registry)
        book = SourceBook(
            [SOURCE],
            queues=self.queues,
            clock=self.clock,
            metrics=metrics,
            interval_s=3600,
            asleep_interval_s=0.05,
            changed=self.read,
        )
        teller = Teller(
            self.api,
            stream=self.bus,
            instance="test",
            metrics=metrics,
            clock=self.clock,
            leadership=self.leadership,
        )
        self.pods, self.deliveries = FakePods(), FakeDeliveries()
        self.starts = ColdStarts(
            self.pods,
            deliveries=self.deliveries,
            teller=teller,
            metrics=metrics,
            tracer=tracer or NoOpTracer(),
            clock=self.clock,
        )
        self.waker = Waker(
            self.api,
            sources=book,
            teller=teller,
            metrics=metrics,
            clock=self.clock,
            leadership=self.leadership,
            fitting=FitQuestion(placer, default=when),
            starts=self.starts,
        )
        self.book = book

    def read(self, metric: MetricKey) -> None:
        """A source was read."""
        self.waker.metric_changed(metric)

    def add(self, name: str = "infer", *, replicas: int = 0, **given: Any) -> Autoscaler:
        """An HPA that is asleep by itself, live and as the watch tells it."""
        manifest = hpa_manifest(name, target=given.pop("target", name), **({"scaled_to_zero": "True"} | given))
        hpa = replace(reduce_autoscaler(manifest), uid=f"uid-{name}", resource_version="1")
        self.api.hpas[hpa.key] = hpa
        self.api.replicas.setdefault(hpa.target.name, replicas)
        self.waker.put(hpa)
        return hpa

    async def length(self, value: float | str) -> None:
        """The queue has another length, and whoever listens is hinted."""
        self.queues.lengths["infer"] = value
        await self.settled()
        if "infer" in self.queues.hints:
            self.queues.hints["infer"]()
        await self.settled()

    async def settled(self) -> None:
        """Let everything run that can, with the pauses of repetitions over."""
        for _ in range(3):
            await self.clock.run_for(10)

    def told(self) -> list[ScalingEvent]:
        """What was published."""
        return [decode_scaling(message.data).event for message in self.bus.stored(SCALING_STREAM.name)]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it; leaving is the death of the process."""
        parts = (self.starts.run(), self.waker.run(), self.book.run())
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
