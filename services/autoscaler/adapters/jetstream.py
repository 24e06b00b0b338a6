"""Lengths of JetStream queues: what a consumer has still to deliver, and what is being worked on.

The number is the consumer's own, told by its leader: other servers do not answer for it. Nothing is ever created on a
stream of somebody else. The hint that something came is a plain subscription to the subjects, which JetStream does not
see; it may come before the message is stored, so it says only that it is time to ask.
"""

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import APIError, NotFoundError

from services.autoscaler.ports import SourceFailed
from services.core.metric_readings import Sample
from services.core.metric_sources import JetStreamSource, SourceSpec
from services.runtime.backoff import connecting
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.nats_connection import LASTING, OPEN, NatsAccess, servers_of

CONDITION = "metric sources"
REQUEST_TIMEOUT_S = 5.0
STREAM_NOT_FOUND = 10059
_FAULTS = (nats.errors.Error, APIError, OSError, TimeoutError)


class JetStreamQueues:
    """Satisfies `services.autoscaler.ports.Queues` for JetStreamSource, on a connection of its own.

    After a lost connection each subscription is hinted at once: what was published meanwhile came without a hint.
    """

    def __init__(self, *, url: str, name: str, clock: Clock, readiness: Readiness, access: NatsAccess = OPEN) -> None:
        """Keep what connecting needs. `url` may be several, separated by commas."""
        self._urls = servers_of(url)
        self._name = name
        self._access = access
        self._clock = clock
        self._readiness = readiness
        self._client = Client()
        #: Messages delivered as of the last reading.
        self._delivered: dict[JetStreamSource, int] = {}
        self._hints: set[Callable[[], None]] = set()
        #: What the server refused lately: it answers such requests with silence, and says so beside them.
        self._refused: deque[str] = deque(maxlen=64)

    async def __aenter__(self) -> Self:
        """Connect, waiting for the server as long as it takes."""
        patient = connecting(
            self._readiness,
            condition=CONDITION,
            target="the NATS server",
            retry_on=(OSError, TimeoutError, nats.errors.Error),
            clock=self._clock,
        )
        async for attempt in patient:
            with attempt:
                await self._client.connect(
                    servers=self._urls,
                    name=self._name,
                    **LASTING,
                    **self._access.options,
                    ping_interval=3,
                    error_cb=self._on_error,
                    reconnected_cb=self._on_reconnected,
                )
        self._readiness.remove(CONDITION)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection, and with it every subscription."""
        self._readiness.remove(CONDITION)
        with contextlib.suppress(*_FAULTS):
            await self._client.close()

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return pending and unacknowledged messages together. Raises SourceFailed."""
        assert isinstance(source, JetStreamSource)
        jetstream = self._client.jetstream(timeout=REQUEST_TIMEOUT_S)
        try:
            held = await jetstream.consumer_info(source.stream, source.consumer)
        except _FAULTS as error:
            raise SourceFailed(self._why(error, source=source)) from error
        if held.delivered is not None:
            self._delivered[source] = held.delivered.consumer_seq
        if held.num_pending is None or held.num_ack_pending is None:
            return ()
        return (Sample(value=float(held.num_pending + held.num_ack_pending), taken_at=self._clock.now()),)

    async def delivered(self, source: JetStreamSource) -> int | None:
        """Return how many messages the consumer has delivered so far, some more than once. Raises SourceFailed."""
        jetstream = self._client.jetstream(timeout=REQUEST_TIMEOUT_S)
        try:
            held = await jetstream.consumer_info(source.stream, source.consumer)
        except _FAULTS as error:
            raise SourceFailed(self._why(error, source=source)) from error
        return None if held.delivered is None else held.delivered.consumer_seq

    def last_delivered(self, source: JetStreamSource) -> int | None:
        """Return the same as of the last reading; None before there was one."""
        return self._delivered.get(source)

    @contextlib.asynccontextmanager
    async def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """Subscribe to the subjects that the consumer filters, or to all of its stream. Raises SourceFailed."""
        assert isinstance(source, JetStreamSource)

        async def came(_message: Msg) -> None:
            hint()

        async with contextlib.AsyncExitStack() as stack:
            try:
                for subject in await self._subjects(source):
                    subscription = await self._client.subscribe(subject, cb=came)
                    stack.push_async_callback(_ended, subscription.unsubscribe)
                # Only when the server knows of it, nothing is missed any more.
                await self._client.flush(timeout=int(REQUEST_TIMEOUT_S))
            except _FAULTS as error:
                raise SourceFailed(self._why(error, source=source)) from error
            self._hints.add(hint)
            stack.callback(self._hints.discard, hint)
            yield True

    async def _subjects(self, source: JetStreamSource) -> Sequence[str]:
        jetstream = self._client.jetstream(timeout=REQUEST_TIMEOUT_S)
        config = (await jetstream.consumer_info(source.stream, source.consumer)).config
        if config is not None and (
            filters := config.filter_subjects or [one for one in [config.filter_subject] if one]
        ):
            return filters
        return (await jetstream.stream_info(source.stream)).config.subjects or ()

    async def _on_reconnected(self) -> None:
        for hint in tuple(self._hints):
            hint()

    async def _on_error(self, error: Exception) -> None:
        self._refused.append(str(error))

    def _why(self, error: BaseException, *, source: JetStreamSource) -> str:
        consumer, stream = f"consumer {source.consumer} of stream {source.stream}", f"stream {source.stream}"
        if isinstance(error, NotFoundError):
            what = stream if error.err_code == STREAM_NOT_FOUND else consumer
            return f"does not exist ({what}); create it, for it is never created by Phalanx"
        # The library passes the server's words on in lower case.
        about = f".{source.stream}".lower()
        refusal = next((one for one in reversed(self._refused) if about in one.lower()), "")
        if refusal:
            return f"may not be read ({consumer}): {refusal}"
        return f"gave no answer ({consumer}): {str(error) or type(error).__name__}"


async def _ended(unsubscribe: Callable[[], object]) -> None:
    with contextlib.suppress(*_FAULTS):
        ending = unsubscribe()
        if hasattr(ending, "__await__"):
            await ending
