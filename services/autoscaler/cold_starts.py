"""Measures the cold start after each wake: watches the pods until they are ready and an item is taken.

Nothing waits for a measurement, and none is repeated: an autoscaler that dies in the middle of one leaves it untold.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.context import Context
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.autoscaler.metrics import StartOutcome, WakingMetrics
from services.autoscaler.ports import ApiFailed, Deliveries, Scale, SourceFailed, TargetPods
from services.autoscaler.telling import Teller
from services.core.cold_start import PHASES, TOTAL, ColdStart, Phase, took_s, total_s
from services.core.metric_readings import MetricKey
from services.core.scaling import Autoscaler, Started
from services.runtime import telemetry
from services.runtime.clock import Clock
from services.runtime.log import get

MOST_AT_ONCE = 32
"""Each holds a watch; of a storm of wakes the first ones tell as much as all would."""
LONGEST_S = 900.0
LOOK_FOR_ITEMS_S = 0.25

_NS = 1e9
_log = get("autoscaler.cold_starts")


@dataclass(slots=True, kw_only=True)
class Measurement:
    """One cold start under way. `signal_s` is on the monotonic clock, `signal_ns` the same moment since the epoch."""

    hpa: Autoscaler
    start: ColdStart
    signal_s: float
    signal_ns: int
    span: trace.Span
    delivered: dict[MetricKey, int] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    is_expired: bool = False

    def at_s(self, clock: Clock) -> float:
        """Return the seconds since the signal."""
        return clock.monotonic() - self.signal_s

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to wait for."""
        return self.start.is_complete or self.start.is_abandoned or self.is_expired


class ColdStarts:
    """All measurements that are under way. Everything is called on one event loop."""

    def __init__(
        self,
        pods: TargetPods,
        *,
        deliveries: Deliveries,
        teller: Teller,
        metrics: WakingMetrics,
        tracer: trace.Tracer,
        clock: Clock,
    ) -> None:
        """Keep the parts; `run` does the work."""
        self._pods = pods
        self._deliveries = deliveries
        self._teller = teller
        self._metrics = metrics
        self._tracer = tracer
        self._clock = clock
        self._open: dict[str, Measurement] = {}
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run the measurements for ever."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            await asyncio.Event().wait()

    def begin(self, hpa: Autoscaler, *, replicas: int, signal_s: float | None) -> Measurement:
        """Return a measurement of a wake that has just been decided, before anything is written for it."""
        now_s, now_ns = self._clock.monotonic(), int(self._clock.now().timestamp() * _NS)
        signal_s = now_s if signal_s is None else min(signal_s, now_s)
        signal_ns = now_ns - int((now_s - signal_s) * _NS)
        attributes: dict[str, str | int] = {telemetry.ATTR_HPA: hpa.key, telemetry.ATTR_REPLICAS: replicas}
        # A trace of its own: nothing that came before has one.
        span = self._tracer.start_span(
            telemetry.SPAN_WAKE, context=Context(), start_time=signal_ns, attributes=attributes
        )
        measurement = Measurement(
            hpa=hpa, start=ColdStart(replicas=replicas), signal_s=signal_s, signal_ns=signal_ns, span=span
        )
        measurement.start.ended(Phase.DECIDED, at_s=measurement.at_s(self._clock))
        # As of the reading that asked for the wake, so that what the very first pod takes counts.
        for metric in hpa.metrics:
            count = self._deliveries.last_delivered(metric.key)
            if count is not None:
                measurement.delivered[metric.key] = count
        measurement.start.counts_items = bool(measurement.delivered)
        return measurement

    def replicas_set(self, measurement: Measurement, *, scale: Scale) -> None:
        """Go on with a measurement whose replicas the API server has."""
        measurement.start.ended(Phase.REPLICAS_SET, at_s=measurement.at_s(self._clock))
        key = measurement.hpa.key
        if (before := self._open.pop(key, None)) is not None:
            # Asleep and woken again in the meantime: what is to come belongs to the later wake.
            before.is_expired = True
            before.changed.set()
        if self._tasks is None or not scale.selector or len(self._open) >= MOST_AT_ONCE:
            self._metrics.starts.labels(outcome=StartOutcome.UNMEASURED).inc()
            measurement.span.end()
            return
        self._open[key] = measurement
        self._tasks.create_task(self._measure(measurement, selector=scale.selector), name=f"measuring {key}")

    def placed(self, namespace: str, uids: frozenset[str]) -> None:
        """Take note of pods that the placer had nodes for."""
        for measurement in self._open.values():
            if measurement.hpa.namespace == namespace:
                measurement.start.pods_placed(uids, at_s=measurement.at_s(self._clock))
                measurement.changed.set()

    @contextlib.contextmanager
    def within(self, measurement: Measurement) -> Iterator[None]:
        """Let requests and messages in the block belong to the trace of the wake."""
        with trace.use_span(measurement.span, end_on_exit=False):
            yield

    async def _measure(self, measurement: Measurement, *, selector: str) -> None:
        working = (
            self._watch(measurement, selector=selector),
            self._look_for_items(measurement),
            self._expire(measurement),
        )
        tasks = [asyncio.create_task(one) for one in working]
        try:
            while not measurement.is_over:
                await measurement.changed.wait()
                measurement.changed.clear()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._open.get(measurement.hpa.key) is measurement:
                del self._open[measurement.hpa.key]
            # Also where the process stops: what was seen so far is shown.
            self._record_trace(measurement)
        self._record(measurement)
        await self._tell(measurement)

    async def _watch(self, measurement: Measurement, *, selector: str) -> None:
        try:
            async with contextlib.aclosing(self._pods.pods(measurement.hpa.namespace, selector=selector)) as pods:
                async for pod in pods:
                    if pod.stage is None:
                        measurement.start.pod_gone(pod.uid)
                    else:
                        at_s = measurement.at_s(self._clock)
                        measurement.start.pod_seen(pod.uid, stage=pod.stage, at_s=at_s)
                    measurement.changed.set()
        except ApiFailed as error:
            _log.warning("cold_start.unmeasured", hpa=measurement.hpa.key, detail=str(error))
            measurement.is_expired = True
            measurement.changed.set()

    async def _look_for_items(self, measurement: Measurement) -> None:
        """Wait until some queue has delivered more than before the wake, when nobody was there to take anything."""
        while measurement.delivered and Phase.FIRST_ITEM not in measurement.start.ends_s:
            await self._clock.sleep(LOOK_FOR_ITEMS_S)
            if not measurement.start.has_running:
                continue
            for key, before in measurement.delivered.items():
                with contextlib.suppress(SourceFailed):
                    if (await self._deliveries.delivered(key) or 0) > before:
                        measurement.start.ended(Phase.FIRST_ITEM, at_s=measurement.at_s(self._clock))
                        measurement.changed.set()

    async def _expire(self, measurement: Measurement) -> None:
        await self._clock.sleep(LONGEST_S)
        measurement.is_expired = True
        measurement.changed.set()

    def _record(self, measurement: Measurement) -> None:
        is_complete = measurement.start.is_complete
        self._metrics.starts.labels(outcome=StartOutcome.COMPLETE if is_complete else StartOutcome.INCOMPLETE).inc()
        if not is_complete:
            # Where half of it is missing, the rest would make the averages look better than they are.
            return
        for phase, duration_s in took_s(measurement.start.ends_s).items():
            self._metrics.phases.labels(phase=phase).observe(duration_s)
        self._metrics.phases.labels(phase=TOTAL).observe(total_s(measurement.start.ends_s))

    def _record_trace(self, measurement: Measurement) -> None:
        ends_s, took = measurement.start.ends_s, took_s(measurement.start.ends_s)
        context = trace.set_span_in_context(measurement.span)
        for phase in (one for one in PHASES if one in ends_s):
            end_ns = measurement.signal_ns + int(ends_s[phase] * _NS)
            span = self._tracer.start_span(
                telemetry.SPAN_WAKE_PHASE,
                context=context,
                start_time=end_ns - int(took[phase] * _NS),
                attributes={telemetry.ATTR_PHASE: phase},
            )
            span.end(end_ns)
        measurement.span.end(measurement.signal_ns + int(total_s(ends_s) * _NS))

    async def _tell(self, measurement: Measurement) -> None:
        start = measurement.start
        started = Started(replicas=start.replicas, ends_s=dict(start.ends_s), missing=start.missing)
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=5),
            retry=retry_if_exception_type(ApiFailed),
            sleep=self._clock.sleep,
        )
        with self.within(measurement):
            await self._teller.started(measurement.hpa, started=started)
            async for attempt in patient:
                with attempt:
                    await self._teller.show_started(measurement.hpa, started=started)
