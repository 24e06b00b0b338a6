"""The bus: NATS JetStream as Phalanx uses it. No subjects, no domain.

Writing is compare-and-set on the last sequence of a subject. Reading is a pull consumer without acknowledgements: it
brings back-pressure for free, and its delivery counter shows a gap, upon which the reader starts again.

Requests wait for a lost connection to come back, and are given up in the moment in which it is lost: an answer that was
on its way never arrives, and whoever waits for it learns at once that the outcome is unknown.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from services.runtime.health import Readiness
from services.runtime.log import get
from services.runtime.nats_connection import LASTING, OPEN, NatsAccess, servers_of
from services.runtime.pulling import Puller, Silence
from services.runtime.stopping import heeding_cancellation
from services.runtime.stream_definition import StreamDefinition, configuration_of

WRONG_LAST_SEQUENCE = 10071
"""JetStream's error code for a failed compare-and-set."""
STREAM_NAME_IN_USE, STREAM_NOT_FOUND = 10058, 10059
EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
MESSAGE_TTL = "Nats-TTL"

REQUEST_TIMEOUT_S = 5.0
FOLLOW_PAUSE_S = 0.2
"""Between two tries to read a stream that does not exist, or not yet again."""
CONSUMER_IDLE_S, CLOSE_TIMEOUT_S = 60.0, 1.0

_log = get("runtime.bus")

_FAULTS = (nats.errors.Error, APIError, OSError, TimeoutError)
_PASSWORD = re.compile(r"(?<=://)[^/@]*@")


class StaleWrite(Exception):
    """The subject's last message is not the one that the writer knew: somebody else wrote meanwhile."""


class BusUnavailable(Exception):
    """The server cannot be reached or did not answer in time; whether a write happened is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One stored message. `sequence` is its place in the stream."""

    subject: str
    data: bytes
    headers: Mapping[str, str]
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Messages in stream order.

    `pending` is how many more are stored already: 0 means caught up. `restarted` means that everything read before is
    void, because a gap was found: the reader forgets its state and folds again, starting with this batch.
    """

    messages: tuple[Message, ...]
    pending: int
    restarted: bool = False


class Bus:
    """A connection to NATS that outlives interruptions of the server.

    `readiness` shows `nats` as not ready while the connection is down.
    """

    def __init__(self, *, url: str, name: str, readiness: Readiness, access: NatsAccess = OPEN) -> None:
        """Keep what `connect` needs; nothing is opened yet. `url` may be several, separated by commas."""
        self._urls = servers_of(url)
        self._shown = _PASSWORD.sub("", ", ".join(self._urls))
        self._name = name
        self._access = access
        self._readiness = readiness
        self._client = Client()
        self._context: JetStreamContext | None = None
        self._connected = asyncio.Event()
        self._requests: set[asyncio.Timeout] = set()
        self._pullers: set[Puller] = set()
        self._kept: Sequence[StreamDefinition] = ()
        self._is_closing = False

    async def __aenter__(self) -> Self:
        """Connect, waiting for the server as long as it takes."""
        self._readiness.set("nats", ready=False, detail=f"connecting to {self._shown}")
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception_type((OSError, nats.errors.Error, TimeoutError)),
        )
        async for attempt in patient:
            with attempt:
                await self._connect()
        self._context = self._client.jetstream(timeout=REQUEST_TIMEOUT_S)
        await self._on_connected()
        return self

    async def _connect(self) -> None:
        try:
            await self._client.connect(
                servers=self._urls,
                name=self._name,
                **LASTING,
                **self._access.options,
                ping_interval=3,
                pending_size=64 * 2**20,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_connected,
            )
        except (OSError, nats.errors.Error, TimeoutError) as error:
            self._readiness.set("nats", ready=False, detail=f"waiting for {self._shown}: {error}")
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what readers left on the server and flush what is pending, where it still answers, and close."""
        self._is_closing = True
        with contextlib.suppress(*_FAULTS):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                for puller in tuple(self._pullers):
                    await self._drop(puller)
                if self._client.is_connected:
                    await self._client.flush(timeout=1)
        # The client flushes once more, also where the connection broke a moment ago.
        with contextlib.suppress(*_FAULTS):
            await self._client.close()
        self._wake()

    async def _on_error(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            # Such a request is answered with silence: nothing else says why.
            _log.error("bus.refused", detail=str(error))
        if not self._client.is_connected:
            self._readiness.set("nats", ready=False, detail=f"waiting for {self._shown}: {error}")

    async def _on_disconnected(self) -> None:
        if self._is_closing:
            return
        self._connected.clear()
        self._readiness.set("nats", ready=False, detail=f"waiting for {self._shown}: disconnected")
        for request in self._requests:
            if not request.expired():
                request.reschedule(0.0)

    async def _on_connected(self) -> None:
        self._readiness.set("nats", ready=True, detail=f"connected to {self._shown}")
        self._wake()

    def _wake(self) -> None:
        """Let everybody look again who waits for the connection, or for something on it."""
        self._connected.set()
        for puller in self._pullers:
            puller.interrupt()

    @property
    def _jetstream(self) -> JetStreamContext:
        if self._context is None:
            raise RuntimeError("the bus is not open: use `async with Bus(...)`")
        return self._context

    @contextlib.asynccontextmanager
    async def _request(self) -> AsyncIterator[JetStreamContext]:
        """Wait for the connection and allow one request on it, as long as it holds. Raises TimeoutError."""
        jetstream = self._jetstream
        with heeding_cancellation():
            async with asyncio.timeout(REQUEST_TIMEOUT_S) as limit:
                await self._connected.wait()
                self._requests.add(limit)
                try:
                    yield jetstream
                finally:
                    self._requests.discard(limit)

    async def ensure_streams(self, streams: Sequence[StreamDefinition]) -> None:
        """Create the streams that do not exist, waiting for a server that is still starting JetStream.

        A stream that exists with other settings is left as its operator made it.
        """
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception_type(BusUnavailable),
            before_sleep=self._tell_missing,
        )
        for stream in streams:
            async for attempt in patient:
                with attempt:
                    await self._ensure_stream(stream)
        self._readiness.remove("streams")

    async def keep_streams(self, streams: Sequence[StreamDefinition]) -> None:
        """Create the streams that do not exist, and from now on each that is found missing when it is used.

        An operator may delete a stream, or the server lose its volume, at any time. Whoever reads is told `restarted`;
        whoever writes learns from its expected sequence that what it knew is void.
        """
        self._kept = tuple(streams)
        await self.ensure_streams(streams)

    async def _restore(self, name: str) -> None:
        """Create a kept stream again. Raises BusUnavailable."""
        for stream in self._kept:
            if stream.name == name:
                _log.warning("stream.missing", stream=name, detail="it was deleted or lost, and is made again")
                await self._ensure_stream(stream)

    async def _restore_for(self, subject: str) -> None:
        """Create the kept stream of a subject, where no stream answers for it. Raises BusUnavailable."""
        for stream in self._kept:
            if any(subject.startswith(pattern.removesuffix(">")) for pattern in stream.subjects):
                await self._restore(stream.name)

    def _tell_missing(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        self._readiness.set("streams", ready=False, detail=str(error))

    async def _ensure_stream(self, stream: StreamDefinition) -> None:
        try:
            async with self._request() as jetstream:
                await jetstream.add_stream(configuration_of(stream))
        except _FAULTS as error:
            if not (isinstance(error, APIError) and error.err_code == STREAM_NAME_IN_USE):
                raise BusUnavailable(f"stream {stream.name} cannot be created: {error or 'no answer'}") from error

    async def publish(
        self,
        subject: str,
        *,
        data: bytes,
        headers: Mapping[str, str],
        expected_sequence: int | None = None,
        expected_subject: str = "",
        ttl_s: float | None = None,
    ) -> int:
        """Store a message and return its sequence.

        `expected_sequence` is the sequence of the subject's last message that the writer knows, 0 for none; where it is
        another, StaleWrite is raised and nothing is stored. With `expected_subject`, which may be a pattern that the
        subject matches, the last message of that one counts. Raises BusUnavailable where the answer did not come: the
        message may or may not be stored.
        """
        given = dict(headers)
        if expected_sequence is not None:
            given[EXPECTED_LAST_SEQUENCE] = str(expected_sequence)
            if expected_subject:
                given[EXPECTED_SUBJECT] = expected_subject
        if ttl_s is not None:
            given[MESSAGE_TTL] = f"{int(ttl_s)}s"
        try:
            async with self._request() as jetstream:
                answer = await jetstream.publish(subject, data, headers=given)
        except APIError as error:
            if error.err_code == WRONG_LAST_SEQUENCE:
                raise StaleWrite(f"{subject}: expected last sequence {expected_sequence}: {error}") from error
            raise BusUnavailable(f"{subject}: {error}") from error
        except NoStreamResponseError as error:
            await self._restore_for(subject)
            raise BusUnavailable(f"{subject}: no stream keeps this subject") from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise BusUnavailable(f"{subject}: {error or type(error).__name__}") from error
        return int(answer.seq)

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject or pattern, or None.

        Raises BusUnavailable, also where there is no such stream.
        """
        try:
            async with self._request() as jetstream:
                found = await jetstream.get_last_msg(stream, subject)
        except NotFoundError as error:
            if error.err_code == STREAM_NOT_FOUND:
                await self._restore(stream)
                raise BusUnavailable(f"stream {stream} does not exist") from error
            return None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise BusUnavailable(f"{subject}: {error or type(error).__name__}") from error
        data, headers = found.data or b"", dict(found.headers or {})
        return Message(subject=found.subject or subject, data=data, headers=headers, sequence=int(found.seq or 0))

    async def purge(self, stream: str, *, subject: str) -> None:
        """Remove the messages of a subject or pattern; none may be there. Raises BusUnavailable."""
        try:
            async with self._request() as jetstream:
                await jetstream.purge_stream(stream, subject=subject)
        except _FAULTS as error:
            raise BusUnavailable(f"{subject}: {error or type(error).__name__}") from error

    async def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield the stored messages, then each new one as it comes, for ever.

        `last_per_subject` starts with the last message of each subject instead of all of them. An empty batch is
        yielded once where nothing is stored. After a gap or a lost consumer everything is delivered again, and the
        first batch says `restarted`. A stream that does not exist is waited for. Ends when the bus is closed.
        """
        config = _consumer(subjects, last_per_subject=last_per_subject)
        condition = f"stream {stream}"
        has_begun = must_restart = False
        while not self._is_closing:
            try:
                async with contextlib.aclosing(self._consume(stream, config)) as batches:
                    async for batch in batches:
                        self._readiness.remove(condition)
                        yield replace(batch, restarted=must_restart)
                        has_begun, must_restart = True, False
            except _FAULTS as error:
                self._readiness.set(condition, ready=False, detail=f"{self._shown}: {error or 'no answer'}")
                await asyncio.sleep(FOLLOW_PAUSE_S)
                await self._connected.wait()
                if isinstance(error, NotFoundError) and error.err_code == STREAM_NOT_FOUND:
                    with contextlib.suppress(BusUnavailable):
                        await self._restore(stream)
            must_restart = has_begun

    async def _consume(self, stream: str, config: api.ConsumerConfig) -> AsyncGenerator[Batch, None]:
        """Yield batches of one consumer until a gap shows."""
        async with self._request() as jetstream:
            info = await jetstream.add_consumer(stream, config)
        puller = Puller(self._client, stream=stream, consumer=info.name)
        self._pullers.add(puller)
        try:
            await puller.open()
            delivered, pending = 0, info.num_pending or 0
            if not pending:
                yield Batch(messages=(), pending=0)
            while True:
                try:
                    raw = await puller.next()
                except Silence:
                    if not await self._is_complete(puller):
                        return
                    continue
                if not raw:
                    # What was pending went away unread, as a tombstone whose time was over.
                    if pending:
                        pending = 0
                        yield Batch(messages=(), pending=0)
                    continue
                counters = [message.metadata.sequence.consumer for message in raw]
                if counters != list(range(delivered + 1, delivered + 1 + len(raw))):
                    return
                delivered, pending = counters[-1], raw[-1].metadata.num_pending
                yield Batch(messages=tuple(_received(message) for message in raw), pending=pending)
        finally:
            with contextlib.suppress(*_FAULTS):
                await self._drop(puller)

    async def _is_complete(self, puller: Puller) -> bool:
        """Tell whether everything that the consumer says it delivered has arrived. Raises where it is gone."""
        async with self._request() as jetstream:
            held = await jetstream.consumer_info(puller.stream, puller.consumer)
            # What was sent before the answer to a ping is here with it.
            await self._client.flush()
        return held.delivered is None or held.delivered.consumer_seq <= puller.received

    async def _drop(self, puller: Puller) -> None:
        """Remove a consumer from the server, where it answers; otherwise it expires by itself."""
        if puller not in self._pullers:
            return
        self._pullers.discard(puller)
        await puller.close()
        if self._client.is_connected:
            async with self._request() as jetstream:
                await jetstream.delete_consumer(puller.stream, puller.consumer)


def _consumer(subjects: str | Sequence[str], *, last_per_subject: bool) -> api.ConsumerConfig:
    return api.ConsumerConfig(
        deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT if last_per_subject else api.DeliverPolicy.ALL,
        ack_policy=api.AckPolicy.NONE,
        inactive_threshold=CONSUMER_IDLE_S,
        mem_storage=True,
        filter_subjects=[subjects] if isinstance(subjects, str) else list(subjects),
    )


def _received(message: Msg) -> Message:
    sequence = message.metadata.sequence.stream
    return Message(subject=message.subject, data=message.data, headers=message.headers or {}, sequence=sequence)
