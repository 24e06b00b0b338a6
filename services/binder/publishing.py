"""From a decision of the binder to its message on the bus: stored once, whatever happens to answers.

A transaction has one end, whoever writes it. Its possible ends have subjects of their own, so the condition of a write
is the last message about the *gang*, and everything up to that one must have been folded: where another binder has
ended the transaction, this one knows by then.
"""

from collections.abc import Callable

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.binder.ports import DecisionBus
from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.decision_codec import decision_id, decision_subject, decision_type, encode_decision
from services.contracts.streams import PLACEMENT_STREAM
from services.core.decisions import Committed, Decision, DecisionEvent, Refused, Repairing, RolledBack
from services.core.objects import TransactionId
from services.runtime import telemetry
from services.runtime.bus import BusUnavailable, StaleWrite
from services.runtime.log import get

_log = get("binder.publishing")

HasEnded = Callable[[TransactionId], bool]


class NotYet(Exception):
    """The decision cannot be written now: this process does not lead, or has not folded what others wrote."""


class Publisher:
    """Writes decisions, each on the condition that nobody wrote about its gang meanwhile."""

    def __init__(
        self,
        bus: DecisionBus,
        *,
        instance: str,
        has_ended: HasEnded,
        folded_up_to: Callable[[], int],
        may_write: Callable[[], bool],
    ) -> None:
        """`has_ended` and `folded_up_to` look into the followed stream: an ended transaction is never ended again."""
        self._bus = bus
        self._source = f"/phalanx/binder/{instance}"
        self._has_ended = has_ended
        self._folded_up_to = folded_up_to
        self._may_write = may_write

    async def publish(self, decision: Decision) -> None:
        """Store the decision, waiting for the bus as long as it takes.

        Returns also where the transaction has ended by another's message: its outcome is in the stream either way.
        """
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.05, max=2),
            retry=retry_if_exception_type((BusUnavailable, StaleWrite, NotYet)),
        )
        async for attempt in patient:
            with attempt:
                await self._publish_once(decision)

    async def publish_if(self, decision: Decision, *, holds: Callable[[], bool]) -> bool:
        """Try once to store the decision, where a condition still holds that rests on what is folded.

        False where it was not stored as far as is known: whoever asked looks again.
        """
        try:
            await self._publish_once(decision, holds=holds)
        except (BusUnavailable, StaleWrite, NotYet):
            return False
        return True

    async def _publish_once(self, decision: Decision, *, holds: Callable[[], bool] = lambda: True) -> None:
        subject = decision_subject(decision)
        identity = decision_id(decision)
        about_gang = f"{subject.rpartition('.')[0]}.>"
        last = await self._bus.last(PLACEMENT_STREAM.name, subject=about_gang)
        if last is not None and last.headers.get("ce-id") == identity:
            # An earlier try was stored, and only its answer was lost.
            return
        if self._has_ended(decision.transaction):
            _log.warning("transaction.ended_elsewhere", transaction=decision.transaction, gang=decision.gang)
            return
        if last is not None and last.sequence > self._folded_up_to():
            raise NotYet(f"{subject}: message {last.sequence} about the gang has not been folded")
        if not self._may_write():
            raise NotYet(f"{subject}: this binder does not lead")
        if not holds():
            raise NotYet(f"{subject}: what it rests on has changed")
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
            expected_subject=about_gang,
        )


def summary_of(event: DecisionEvent) -> dict[str, object]:
    """Return what a log line says of a decision."""
    match event:
        case Committed():
            return {"members": len(event.members), "repaired": event.repaired, "open": event.open}
        case Repairing():
            return {"round": event.round, "bound": len(event.bound), "open": len(event.open)}
        case RolledBack():
            return {"undone": len(event.undone), "reasons": [one.code.value for one in event.reasons]}
        case Refused():
            return {
                "reasons": [one.code.value for one in event.reasons],
                "detail": event.reasons[0].message if event.reasons else "",
            }
        case _:
            return {}
