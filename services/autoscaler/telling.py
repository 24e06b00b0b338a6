"""What was decided, told: on PHALANX_SCALING, as an Event of the HPA, and in its condition."""

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.ports import HpaApi, Leading, ScalingStream
from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.scaling_codec import (
    SCALING_EVENTS,
    encode_scaling,
    scaling_decision_id,
    scaling_decision_subject,
    scaling_decision_type,
)
from services.core.scaling import (
    Autoscaler,
    Held,
    Refused,
    ScalingDecision,
    ScalingEvent,
    ShownCondition,
    Started,
    Verdict,
    Woken,
)
from services.core.scaling_reports import told_of, told_of_start
from services.runtime import telemetry
from services.runtime.bus import BusUnavailable
from services.runtime.clock import Clock
from services.runtime.log import get

_log = get("autoscaler.telling")


class Teller:
    """Tells each verdict once, for as long as it stays the same."""

    def __init__(
        self,
        api: HpaApi,
        *,
        stream: ScalingStream,
        instance: str,
        metrics: WakingMetrics,
        clock: Clock,
        leadership: Leading,
    ) -> None:
        """Keep the parts."""
        self._leadership = leadership
        self._api = api
        self._stream = stream
        self._source = f"/phalanx/autoscaler/{instance}"
        self._metrics = metrics
        self._clock = clock
        #: What was shown last on each HPA, by uid, for a watch may be behind.
        self._shown: dict[str, ShownCondition] = {}

    async def woken(self, hpa: Autoscaler, *, woken: Woken) -> None:
        """Tell that a target was started. Raises ApiFailed where only the Event is missing."""
        await self._publish(hpa, event=woken)
        message = f"{hpa.target} from 0 to {woken.replicas} replicas: {woken.why}"
        await self._api.tell(hpa, reason="Woken", message=message, is_warning=False)
        for warning in woken.warnings:
            await self._api.tell(hpa, reason=warning.code.value, message=warning.message, is_warning=True)

    async def started(self, hpa: Autoscaler, *, started: Started) -> None:
        """Publish how long the cold start took."""
        await self._publish(hpa, event=started)

    async def show_started(self, hpa: Autoscaler, *, started: Started) -> None:
        """Tell the same by an Event. Raises ApiFailed."""
        message = told_of_start(started, target=hpa.target)
        await self._api.tell(hpa, reason="ColdStart", message=message, is_warning=False)

    async def tell(self, hpa: Autoscaler, *, verdict: Verdict) -> None:
        """Tell a verdict that is another than the one shown. Raises ApiFailed, and is asked again then.

        The condition is written last: what is told before it may be told twice, and never not at all.
        """
        told = told_of(verdict, shown=self._shown.get(hpa.uid, hpa.shown))
        if told is None:
            return
        if isinstance(verdict, Held | Refused):
            await self._publish(hpa, event=verdict)
        await self._api.tell(hpa, reason=told.condition.reason, message=told.message, is_warning=told.is_warning)
        await self._api.show(hpa, told=told)
        self._shown[hpa.uid] = told.condition

    def forget(self, hpa: Autoscaler) -> None:
        """Forget what was shown on an HPA that is gone."""
        self._shown.pop(hpa.uid, None)

    def forget_all(self) -> None:
        """Forget what was shown: somebody else may have led meanwhile, and the watch says what he showed."""
        self._shown.clear()

    async def _publish(self, hpa: Autoscaler, *, event: ScalingEvent) -> None:
        """Store a decision, waiting for the bus as long as it takes."""
        decision = ScalingDecision(
            namespace=hpa.namespace,
            hpa=hpa.name,
            decided_at=self._clock.now(),
            event=event,
            epoch=self._leadership.epoch or 0,
        )
        token = SCALING_EVENTS[type(event)]
        _log.info(f"scaling.{token}", namespace=hpa.namespace, hpa=hpa.name, **_fields(event))
        attributes = EventAttributes(
            id=scaling_decision_id(decision),
            source=self._source,
            type=scaling_decision_type(decision),
            subject=hpa.key,
            time=decision.decided_at,
        )
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.05, max=2),
            retry=retry_if_exception_type(BusUnavailable),
            sleep=self._clock.sleep,
        )
        async for attempt in patient:
            with attempt:
                await self._stream.publish(
                    scaling_decision_subject(decision),
                    data=encode_scaling(decision),
                    headers={**headers(attributes), **telemetry.inject()},
                )
        self._metrics.told.labels(event=token).inc()


def _fields(event: ScalingEvent) -> dict[str, object]:
    """What a log line says of a decision."""
    match event:
        case Woken():
            warnings = [one.message for one in event.warnings]
            return {"replicas": event.replicas, "why": event.why, "warnings": warnings}
        case Held():
            return {"replicas": event.replicas, "reasons": [one.message for one in event.reasons]}
        case Refused():
            return {"wanted": event.wanted_replicas, "reasons": [one.message for one in event.reasons]}
        case Started():
            ends_s = {f"{phase}_s": round(at_s, 3) for phase, at_s in event.ends_s.items()}
            return {"replicas": event.replicas, "missing": event.missing, **ends_s}
