"""HPAs, their targets and their queues in memory, with faults by script: the ports of waking."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from services.autoscaler.ports import ApiFailed, HpaEvent, PodSeen, Scale, SourceFailed, WriteConflict
from services.core.cold_start import PodStage
from services.core.fitting import Fit
from services.core.metric_readings import MetricKey, Sample
from services.core.metric_sources import JetStreamSource, SourceSpec
from services.core.reasons import Reason
from services.core.scaling import Autoscaler, TargetRef
from services.core.scaling_reports import Told
from services.runtime.clock import Clock


@dataclass(slots=True, kw_only=True)
class FakeHpas:
    """Satisfies `services.autoscaler.ports.HpaApi`; `hpas` is the live state, which a watch may be behind."""

    hpas: dict[str, Autoscaler] = field(default_factory=dict)
    replicas: dict[str, int] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    #: Called before each write of replicas, with the name of the target.
    before_scaling: Callable[[str], None] = lambda _name: None
    #: Writes that are stored and yet fail, and requests that fail before anything happened.
    lost_answers: int = 0
    outages: int = 0
    #: The moment at which whoever asks hears nothing any more: each request has one before its effect and one after.
    strike_at: int | None = None
    #: Called at each of these moments, with its number.
    before_moment: Callable[[int], None] = lambda _moment: None
    moments: int = 0
    struck: asyncio.Event = field(default_factory=asyncio.Event)
    lookups: int = 0

    async def listed(self) -> tuple[Sequence[Mapping[str, Any]], str]:
        """Nothing is listed: tests hand HPAs over themselves."""
        return (), "1"

    async def watched(self, version: str) -> AsyncIterator[HpaEvent]:
        """Nothing ever happens."""
        await asyncio.Event().wait()
        yield HpaEvent(is_deleted=False, is_bookmark=True, manifest={"metadata": {"resourceVersion": version}})

    async def scale_of(self, namespace: str, target: TargetRef) -> Scale | Reason:
        """Return the live replicas."""
        await self._asked()
        self.lookups += 1
        replicas = self.replicas[target.name]
        return Scale(
            path=f"{namespace}/{target.name}",
            replicas=replicas,
            document={"version": replicas, "status": {"selector": f"app={target.name}"}},
        )

    async def set_replicas(self, scale: Scale, *, replicas: int) -> Reason | None:
        """Ask for replicas, where they are as they were read."""
        await self._asked()
        name = scale.path.split("/")[1]
        self.before_scaling(name)
        if self.replicas[name] != scale.document["version"]:
            raise WriteConflict(name)
        self.replicas[name] = replicas
        self.writes.append(f"{name}={replicas}")
        if self.lost_answers:
            self.lost_answers -= 1
            raise ApiFailed("the answer was lost")
        await self._moment()
        return None

    async def hpa(self, autoscaler: Autoscaler) -> Autoscaler | None:
        """Return the live HPA."""
        await self._asked()
        return self.hpas.get(autoscaler.key)

    async def disarm(self, autoscaler: Autoscaler, *, is_fenced: bool) -> None:
        """Write False, where the HPA is the one that was seen."""
        await self._asked()
        live = self.hpas[autoscaler.key]
        if is_fenced and live.resource_version != autoscaler.resource_version:
            raise WriteConflict(autoscaler.key)
        self.hpas[autoscaler.key] = replace(live, is_scaled_to_zero=False, resource_version=live.resource_version + "+")
        self.writes.append(f"{autoscaler.name}:ScaledToZero=False")
        await self._moment()

    async def show(self, autoscaler: Autoscaler, *, told: Told) -> None:
        """Keep the condition."""
        self.hpas[autoscaler.key] = replace(self.hpas[autoscaler.key], shown=told.condition)

    async def tell(self, autoscaler: Autoscaler, *, reason: str, message: str, is_warning: bool) -> None:
        """Keep the Event."""
        await self._asked()
        self.events.append(f"{autoscaler.name} {'Warning' if is_warning else 'Normal'} {reason}: {message}")

    async def _asked(self) -> None:
        await self._moment()
        if self.outages:
            self.outages -= 1
            raise ApiFailed("away")

    async def _moment(self) -> None:
        await asyncio.sleep(0)
        self.moments += 1
        self.before_moment(self.moments)
        if self.moments == self.strike_at:
            self.struck.set()
            await asyncio.Event().wait()


@dataclass(slots=True, kw_only=True)
class FakePlacer:
    """Satisfies `services.autoscaler.ports.Placer`: the answer that a test gives, and the questions that came."""

    answer: Fit
    questions: list[str] = field(default_factory=list)

    async def fit(self, autoscaler: Autoscaler, *, scale: Scale, replicas: int) -> Fit:
        """Return the answer."""
        await asyncio.sleep(0)
        self.questions.append(f"{autoscaler.target} at {scale.path}: {replicas}")
        return self.answer


@dataclass(slots=True, kw_only=True)
class FakePods:
    """Satisfies `services.autoscaler.ports.TargetPods`: the pods that a test lets be seen."""

    #: What is not allowed; empty where everything is.
    refusal: str = ""
    watches: list[str] = field(default_factory=list)
    _seen: list[PodSeen] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def pods(self, namespace: str, *, selector: str) -> AsyncGenerator[PodSeen, None]:
        """Yield everything from the beginning."""
        self.watches.append(f"{namespace} {selector}")
        if self.refusal:
            raise ApiFailed(self.refusal)
        number = 0
        while True:
            while len(self._seen) <= number:
                self._changed.clear()
                await self._changed.wait()
            yield self._seen[number]
            number += 1

    def see(self, *uids: str, stage: PodStage | None) -> None:
        """Let pods be seen at a stage, or be gone."""
        self._seen += [PodSeen(uid=uid, stage=stage) for uid in uids]
        self._changed.set()


@dataclass(slots=True, kw_only=True)
class FakeDeliveries:
    """Satisfies `services.autoscaler.ports.Deliveries`: one count for all, None where nothing tells it."""

    count: int | None = None

    def last_delivered(self, key: MetricKey) -> int | None:
        """Return the count."""
        assert key.name
        return self.count

    async def delivered(self, key: MetricKey) -> int | None:
        """Return the count."""
        assert key.name
        await asyncio.sleep(0)
        return self.count


@dataclass(slots=True, kw_only=True)
class FakeQueues:
    """Satisfies `services.autoscaler.ports.Queues`: one number for each consumer, or a sentence why there is none.

    Without `has_hints` nobody is told when something comes.
    """

    clock: Clock
    lengths: dict[str, float | str] = field(default_factory=dict)
    readings: int = 0
    hints: dict[str, Callable[[], None]] = field(default_factory=dict)
    has_hints: bool = True

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the number."""
        assert isinstance(source, JetStreamSource)
        self.readings += 1
        length = self.lengths[source.consumer]
        if isinstance(length, str):
            raise SourceFailed(length)
        return (Sample(value=length, taken_at=self.clock.now()),)

    @contextlib.asynccontextmanager
    async def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """Keep who is to be hinted."""
        assert isinstance(source, JetStreamSource)
        self.hints[source.consumer] = hint
        try:
            yield self.has_hints
        finally:
            del self.hints[source.consumer]
