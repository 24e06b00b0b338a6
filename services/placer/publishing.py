"""From a decision to its message on the bus, with the trace that leads to it."""

import asyncio
from collections.abc import Mapping
from enum import Enum

from opentelemetry.trace import Link, Tracer
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.decision_codec import (
    EVENTS,
    decision_id,
    decision_subject,
    decision_type,
    encode_decision,
)
from services.contracts.streams import MAX_MESSAGE_BYTES, PLACEMENT_STREAM
from services.core.attention import Outcome
from services.core.decisions import Proposed, Waiting
from services.placer.metrics import PlacerMetrics
from services.placer.ports import DecisionBus
from services.runtime import telemetry
from services.runtime.bus import BusUnavailable, StaleWrite
from services.runtime.leadership import Leadership
from services.runtime.log import get

_log = get("placer.publishing")

PUBLISHING_AT_ONCE = 64
"""Decisions on their way to the bus at the same time: a bound on memory, far above what it needs to be busy."""


class LeadershipLost(Exception):
    """This process leads no more: what it decided, and what became of that, is for others to say."""


class Answer(Enum):
    """What became of a decision: written; stale, where another placer wrote first; or too large for any message."""

    WRITTEN = "written"
    STALE = "stale"
    TOO_LARGE = "too_large"


class Publisher:
    """Writes decisions, each on the condition that nobody wrote to its subject meanwhile.

    `sequences` is the last sequence of each subject, shared with the reader of the stream. A sequence that somebody
    else wrote enters it only by the reader: nothing may be written over a decision that has not been folded.
    """

    def __init__(
        self,
        bus: DecisionBus,
        *,
        instance: str,
        tracer: Tracer,
        metrics: PlacerMetrics,
        sequences: dict[str, int],
        leadership: Leadership,
    ) -> None:
        """Keep the parts."""
        self._leadership = leadership
        self._bus = bus
        self._source = f"/phalanx/placer/{instance}"
        self._tracer = tracer
        self._metrics = metrics
        self._sequences = sequences
        self._slots = asyncio.Semaphore(PUBLISHING_AT_ONCE)

    async def publish(self, outcome: Outcome, *, started_ns: int) -> Answer:
        """Write a decision, waiting for the bus as long as it takes."""
        decision = outcome.decision
        event = EVENTS[type(decision.event)]
        attributes = {
            telemetry.ATTR_GANG: decision.gang,
            telemetry.ATTR_TRANSACTION: decision.transaction,
            telemetry.ATTR_EVENT: event,
        }
        if isinstance(decision.event, Proposed | Waiting):
            attributes[telemetry.ATTR_REVISION] = str(decision.event.revision)
        if isinstance(decision.event, Waiting):
            attributes[telemetry.ATTR_REASON] = ",".join(reason.code for reason in decision.event.reasons)
        with self._tracer.start_as_current_span(
            telemetry.SPAN_GANG_DECIDE,
            context=telemetry.extract({"traceparent": outcome.cause}),
            links=_links(outcome.links),
            attributes=attributes,
            start_time=started_ns,
        ):
            async with self._slots:
                answer = await self._write(outcome, trace_headers=telemetry.inject())
            is_written = answer is Answer.WRITTEN
            level = _log.info if is_written else _log.warning
            level(
                f"gang.{event}",
                gang=decision.gang,
                transaction=decision.transaction,
                is_written=is_written,
                **_summary(outcome),
            )
        if is_written:
            self._metrics.decisions.labels(event=event).inc()
            if isinstance(decision.event, Waiting):
                for reason in decision.event.reasons:
                    self._metrics.reasons.labels(code=reason.code.value).inc()
        elif answer is Answer.STALE:
            self._metrics.stale.inc()
        return answer

    async def _write(self, outcome: Outcome, *, trace_headers: Mapping[str, str]) -> Answer:
        decision = outcome.decision
        subject = decision_subject(decision)
        data = encode_decision(decision)
        if len(data) > MAX_MESSAGE_BYTES:
            _log.error("gang.too_large", gang=decision.gang, bytes=len(data), most=MAX_MESSAGE_BYTES)
            return Answer.TOO_LARGE
        attributes = EventAttributes(
            id=decision_id(decision),
            source=self._source,
            type=decision_type(decision),
            subject=decision.gang,
            time=decision.decided_at,
        )
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.05, max=2), retry=retry_if_exception_type(BusUnavailable)
        )
        async for attempt in patient:
            with attempt:
                if self._leadership.epoch != decision.epoch:
                    # Asked before each try: an earlier one may have waited long for the bus.
                    raise LeadershipLost
                return await self._write_once(
                    subject, data=data, message_headers={**headers(attributes), **trace_headers}
                )
        raise AssertionError("retried for ever, and yet ended")

    async def _write_once(self, subject: str, *, data: bytes, message_headers: Mapping[str, str]) -> Answer:
        expected = self._sequences.get(subject, 0)
        try:
            self._sequences[subject] = await self._bus.publish(
                subject, data=data, headers=message_headers, expected_sequence=expected
            )
        except StaleWrite:
            last = await self._bus.last(PLACEMENT_STREAM.name, subject=subject)
            if last is None and expected:
                # What was known has grown too old and is gone: nobody wrote first.
                del self._sequences[subject]
                return await self._write_once(subject, data=data, message_headers=message_headers)
            if last is None or last.headers.get("ce-id") != message_headers["ce-id"]:
                return Answer.STALE
            # The answer to an earlier try was lost, and the last message is our own.
            self._sequences[subject] = last.sequence
        return Answer.WRITTEN


def _links(traceparents: tuple[str, ...]) -> list[Link]:
    found = (telemetry.link({"traceparent": traceparent}) for traceparent in traceparents)
    return [link for link in found if link is not None]


def _summary(outcome: Outcome) -> dict[str, object]:
    match outcome.decision.event:
        case Proposed() as event:
            nodes = {assignment.node for assignment in event.assignments}
            return {"members": len(event.assignments), "nodes": len(nodes), "round": event.round}
        case Waiting() as event:
            return {
                "reasons": [reason.code.value for reason in event.reasons],
                "detail": "; ".join(reason.message for reason in event.reasons),
            }
        case _:
            return {}
