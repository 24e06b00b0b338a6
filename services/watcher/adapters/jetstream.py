"""The cluster stream on JetStream: messages as CloudEvents, fingerprints of what is stored."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from typing import cast

from opentelemetry import trace

from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.cluster_codec import change_id, change_subject, change_type, encode_change
from services.contracts.streams import CLUSTER_STREAM, TOMBSTONE_TTL_S
from services.contracts.subjects import CLUSTER
from services.core.objects import Applied, Kind, WatchState
from services.runtime import telemetry
from services.runtime.bus import Batch, Bus, BusUnavailable, Message, StaleWrite
from services.runtime.clock import Clock
from services.watcher.observation import version_of_message
from services.watcher.ports import StoredBatch, StreamRefused, StreamUnavailable
from services.watcher.publication import Outgoing, Stored

MESSAGE_ID = "Nats-Msg-Id"


class JetStreamCluster:
    """The stream PHALANX_CLUSTER."""

    def __init__(self, bus: Bus, *, instance: str, clock: Clock, tracer: trace.Tracer) -> None:
        """Use an open bus; `instance` names this process as the source of its messages."""
        self._bus = bus
        self._source = f"/phalanx/watcher/{instance}"
        self._clock = clock
        self._tracer = tracer
        self._is_tracing = not isinstance(tracer, trace.NoOpTracer)
        self._state_sequences: dict[str, int] = {}

    async def ensure(self) -> None:
        """Create the stream where it does not exist."""
        await self._bus.ensure_streams([CLUSTER_STREAM])

    async def follow(self, kind: Kind) -> AsyncGenerator[StoredBatch, None]:
        """Yield the last message of every subject of a kind, then each new one, for ever.

        The stream is written asynchronously, so a crash of the server loses acknowledged messages. A consumer that
        lives in the server's memory is lost in the same moment, and the bus notices that.
        """
        batches = self._bus.follow(CLUSTER_STREAM.name, subjects=f"{CLUSTER}.{kind.value}.>")
        async with contextlib.aclosing(cast("AsyncGenerator[Batch, None]", batches)):
            async for batch in batches:
                _heed_cancellation()
                yield StoredBatch(
                    messages=tuple(_stored(message) for message in batch.messages),
                    is_caught_up=not batch.pending,
                    is_restarted=batch.restarted,
                )

    async def last(self, subject: str) -> Stored | None:
        """Return the last message of a subject, or None."""
        with _told():
            message = await self._bus.last(CLUSTER_STREAM.name, subject=subject)
        return None if message is None else _stored(message)

    async def publish(self, outgoing: Outgoing, *, expected_sequence: int) -> int:
        """Write if the subject's last sequence is the expected one; returns the new one."""
        if not (self._is_tracing and outgoing.is_traced):
            return await self._write(outgoing, expected_sequence=expected_sequence, trace_headers={})
        span = self._tracer.start_span(
            telemetry.SPAN_WATCH_EVENT,
            start_time=outgoing.seen_at_ns,
            attributes={telemetry.ATTR_SUBJECT: outgoing.subject, telemetry.ATTR_EVENT: outgoing.event_type},
        )
        with trace.use_span(span, end_on_exit=True):
            sequence = await self._write(
                outgoing, expected_sequence=expected_sequence, trace_headers=telemetry.inject()
            )
            span.set_attribute(telemetry.ATTR_REVISION, sequence)
        return sequence

    async def _write(self, outgoing: Outgoing, *, expected_sequence: int, trace_headers: dict[str, str]) -> int:
        attributes = EventAttributes(
            id=outgoing.event_id,
            source=self._source,
            type=outgoing.event_type,
            subject=outgoing.subject,
            time=datetime.fromtimestamp(outgoing.seen_at_ns / 1e9, tz=UTC),
        )
        with _told():
            return await self._bus.publish(
                outgoing.subject,
                data=outgoing.data,
                headers=_ordered_by_sequence(attributes) | trace_headers,
                expected_sequence=expected_sequence,
                ttl_s=TOMBSTONE_TTL_S if outgoing.version.is_deleted else None,
            )

    async def publish_state(self, state: WatchState) -> None:
        """Write how far a kind is followed; a late copy of an earlier state is refused by the sequence."""
        change = Applied(object=state)
        subject = change_subject(change)
        attributes = EventAttributes(
            id=change_id(change),
            source=self._source,
            type=change_type(change),
            subject=subject,
            time=self._clock.now(),
        )
        with _told():
            while True:
                expected = self._state_sequences.get(subject)
                if expected is None:
                    last = await self._bus.last(CLUSTER_STREAM.name, subject=subject)
                    expected = last.sequence if last else 0
                try:
                    self._state_sequences[subject] = await self._bus.publish(
                        subject,
                        data=encode_change(change),
                        headers=_ordered_by_sequence(attributes),
                        expected_sequence=expected,
                    )
                except StaleWrite:
                    self._state_sequences.pop(subject, None)
                else:
                    return


def _ordered_by_sequence(attributes: EventAttributes) -> dict[str, str]:
    """Return the event's headers without the message id.

    The server would drop a repetition that is meant, as of a state that comes back or of a message that a crash
    lost, and acknowledge it all the same. What must not be written twice is refused by its expected sequence.
    """
    given = headers(attributes)
    given.pop(MESSAGE_ID, None)
    return given


def _stored(message: Message) -> Stored:
    return Stored(subject=message.subject, sequence=message.sequence, version=version_of_message(message.data))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except StaleWrite as error:
        _heed_cancellation()
        raise StreamRefused(str(error)) from error
    except BusUnavailable as error:
        _heed_cancellation()
        raise StreamUnavailable(str(error)) from error
    _heed_cancellation()


def _heed_cancellation() -> None:
    """Raise CancelledError where the task was cancelled.

    The client waits with `asyncio.wait_for`, which in Python 3.11 drops a cancellation that meets an answer.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
