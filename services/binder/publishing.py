"""From a decision of the binder to its message on the bus: stored once, whatever happens to answers."""

from collections.abc import Callable

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.binder.ports import DecisionBus
from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.decision_codec import decision_id, decision_subject, decision_type, encode_decision
from services.contracts.streams import PLACEMENT_STREAM
from services.core.decisions import Decision
from services.core.objects import TransactionId
from services.runtime import telemetry
from services.runtime.bus import BusUnavailable, StaleWrite
from services.runtime.log import get

_log = get("binder.publishing")

HasEnded = Callable[[TransactionId], bool]


class Publisher:
    """Writes decisions, each on the condition that nobody wrote to its subject meanwhile."""

    def __init__(self, bus: DecisionBus, *, instance: str, has_ended: HasEnded) -> None:
        """`has_ended` looks into the followed stream: an ended transaction is never ended again."""
        self._bus = bus
        self._source = f"/phalanx/binder/{instance}"
        self._has_ended = has_ended

    async def publish(self, decision: Decision) -> None:
        """Store the decision, waiting for the bus as long as it takes.

        Returns also where the transaction has ended by another's message: its outcome is in the stream either way.
        """
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.05, max=2),
            retry=retry_if_exception_type((BusUnavailable, StaleWrite)),
        )
        async for attempt in patient:
            with attempt:
                await self._publish_once(decision)

    async def _publish_once(self, decision: Decision) -> None:
        subject = decision_subject(decision)
        identity = decision_id(decision)
        last = await self._bus.last(PLACEMENT_STREAM.name, subject=subject)
        if last is not None and last.headers.get("ce-id") == identity:
            # An earlier try was stored, and only its answer was lost.
            return
        if self._has_ended(decision.transaction):
            _log.warning("transaction.ended_elsewhere", transaction=decision.transaction, gang=decision.gang)
            return
        attributes = EventAttributes(
            id=identity,
            source=self._source,
            type=decision_type(decision),
            subject=decision.gang,
            time=decision.decided_at,
        )
        await self._bus.publish(
            subject,
            data=encode_decision(decision),
            headers={**headers(attributes), **telemetry.inject()},
            expected_sequence=0 if last is None else last.sequence,
        )
