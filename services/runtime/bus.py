"""The bus: NATS JetStream as Phalanx uses it. No subjects, no domain.

Writing is compare-and-set on the last sequence of a subject. Reading is a pull consumer without acknowledgements: it
brings back-pressure for free, and its delivery counter shows a gap, upon which the reader starts again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.runtime.health import Readiness

WRONG_LAST_SEQUENCE = 10071
"""JetStream's error code for a failed compare-and-set."""
STREAM_NAME_IN_USE = 10058
EXPECTED_LAST_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
MESSAGE_TTL = "Nats-TTL"

FETCH_MESSAGES = 1000
FETCH_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 5.0
CONSUMER_IDLE_S = 60.0


class StaleWrite(Exception):
    """The subject's last message is not the one that the writer knew: somebody else wrote meanwhile."""


class BusUnavailable(Exception):
    """The server cannot be reached or did not answer in time; whether a write happened is unknown."""


class StreamDefinition(Protocol):
    """A stream as data; `services.contracts.streams.Stream` is one. Sizes in bytes, ages in seconds, -1 unlimited."""

    @property
    def name(self) -> str:
        """Name of the stream."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subjects it keeps."""

    @property
    def max_age_s(self) -> float:
        """Age after which messages go; 0 never."""

    @property
    def max_bytes(self) -> int:
        """Size above which the oldest messages go."""

    @property
    def max_messages_per_subject(self) -> int:
        """How many messages of one subject are kept."""

    @property
    def can_be_rebuilt(self) -> bool:
        """True if writes need not wait for the disk."""

    @property
    def has_message_ttl(self) -> bool:
        """True if single messages may expire."""


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

    def __init__(self, *, url: str, name: str, readiness: Readiness) -> None:
        """Keep what `connect` needs; nothing is opened yet."""
        self._url = url
        self._name = name
        self._readiness = readiness
        self._client = Client()
        self._context: JetStreamContext | None = None

    async def __aenter__(self) -> Self:
        """Connect, waiting for the server as long as it takes."""
        self._readiness.set("nats", ready=False, detail=f"connecting to {self._url}")
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception_type((OSError, nats.errors.Error, TimeoutError)),
        )
        async for attempt in patient:
            with attempt:
                await self._connect()
        self._context = self._client.jetstream(timeout=REQUEST_TIMEOUT_S)
        self._readiness.set("nats", ready=True, detail=f"connected to {self._url}")
        return self

    async def _connect(self) -> None:
        try:
            await self._client.connect(
                servers=[self._url],
                name=self._name,
                max_reconnect_attempts=-1,
                allow_reconnect=True,
                reconnect_time_wait=0.2,  # type: ignore[arg-type]  # the library sleeps for it; fractions work
                connect_timeout=2,
                ping_interval=10,
                max_outstanding_pings=2,
                pending_size=64 * 2**20,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
            )
        except (OSError, nats.errors.Error, TimeoutError) as error:
            self._readiness.set("nats", ready=False, detail=f"waiting for {self._url}: {error}")
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush what is pending where the server still answers, and close."""
        with contextlib.suppress(nats.errors.Error, TimeoutError, OSError):
            if self._client.is_connected:
                await self._client.flush(timeout=1)
        await self._client.close()

    async def _on_error(self, error: Exception) -> None:
        if not self._client.is_connected:
            self._readiness.set("nats", ready=False, detail=f"waiting for {self._url}: {error}")

    async def _on_disconnected(self) -> None:
        self._readiness.set("nats", ready=False, detail=f"waiting for {self._url}: disconnected")

    async def _on_reconnected(self) -> None:
        self._readiness.set("nats", ready=True, detail=f"connected to {self._url}")

    @property
    def _jetstream(self) -> JetStreamContext:
        if self._context is None:
            raise RuntimeError("the bus is not open: use `async with Bus(...)`")
        return self._context

    async def ensure_streams(self, streams: Sequence[StreamDefinition]) -> None:
        """Create the streams that do not exist, waiting for a server that is still starting JetStream.

        A stream that exists with other settings is left as its operator made it.
        """
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception_type(BusUnavailable),
        )
        for stream in streams:
            async for attempt in patient:
                with attempt:
                    await self._ensure_stream(stream)

    async def _ensure_stream(self, stream: StreamDefinition) -> None:
        config = api.StreamConfig(
            name=stream.name,
            subjects=list(stream.subjects),
            max_age=stream.max_age_s,
            max_bytes=stream.max_bytes,
            max_msgs_per_subject=stream.max_messages_per_subject,
            storage=api.StorageType.FILE,
            allow_direct=True,
            allow_msg_ttl=stream.has_message_ttl or None,
            persist_mode=api.PersistMode.ASYNC if stream.can_be_rebuilt else None,
            duplicate_window=120,
        )
        try:
            await self._jetstream.add_stream(config)
        except APIError as error:
            if error.err_code != STREAM_NAME_IN_USE:
                raise BusUnavailable(f"stream {stream.name} cannot be created: {error}") from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise BusUnavailable(f"stream {stream.name} cannot be created: {error}") from error

    async def publish(
        self,
        subject: str,
        *,
        data: bytes,
        headers: Mapping[str, str],
        expected_sequence: int | None = None,
        ttl_s: float | None = None,
    ) -> int:
        """Store a message and return its sequence.

        `expected_sequence` is the sequence of the subject's last message that the writer knows, 0 for none; where it is
        another, StaleWrite is raised and nothing is stored. Raises BusUnavailable where the answer did not come: the
        message may or may not be stored.
        """
        given = dict(headers)
        if expected_sequence is not None:
            given[EXPECTED_LAST_SEQUENCE] = str(expected_sequence)
        if ttl_s is not None:
            given[MESSAGE_TTL] = f"{int(ttl_s)}s"
        try:
            answer = await self._jetstream.publish(subject, data, headers=given)
        except APIError as error:
            if error.err_code == WRONG_LAST_SEQUENCE:
                raise StaleWrite(f"{subject}: expected last sequence {expected_sequence}: {error}") from error
            raise BusUnavailable(f"{subject}: {error}") from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise BusUnavailable(f"{subject}: {error or type(error).__name__}") from error
        return int(answer.seq)

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject, or None. Raises BusUnavailable."""
        try:
            found = await self._jetstream.get_last_msg(stream, subject)
        except NotFoundError:
            return None
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise BusUnavailable(f"{subject}: {error or type(error).__name__}") from error
        return Message(
            subject=found.subject or subject,
            data=found.data or b"",
            headers=dict(found.headers or {}),
            sequence=int(found.seq or 0),
        )

    async def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield the stored messages, then each new one as it comes, for ever.

        `last_per_subject` starts with the last message of each subject instead of all of them. An empty batch is
        yielded once where nothing is stored. After a gap or an expired consumer everything is delivered again, and
        the first batch says `restarted`.
        """
        restarted = False
        while True:
            try:
                async for batch in self._consume(stream, subjects=subjects, last_per_subject=last_per_subject):
                    yield Batch(messages=batch.messages, pending=batch.pending, restarted=restarted)
                    restarted = False
            except (nats.errors.Error, APIError, OSError, TimeoutError) as error:
                self._readiness.set("nats", ready=False, detail=f"reading {stream} from {self._url}: {error}")
                await asyncio.sleep(0.2)
            else:
                self._readiness.set("nats", ready=self._client.is_connected, detail=f"reading {stream} again")
            restarted = True

    async def _consume(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool
    ) -> AsyncIterator[Batch]:
        """Yield batches of one consumer until a gap shows."""
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT if last_per_subject else api.DeliverPolicy.ALL,
            ack_policy=api.AckPolicy.NONE,
            inactive_threshold=CONSUMER_IDLE_S,
            mem_storage=True,
        )
        if isinstance(subjects, str):
            config.filter_subject = subjects
        else:
            config.filter_subjects = list(subjects)
        info = await self._jetstream.add_consumer(stream, config)
        subscription = await self._jetstream.pull_subscribe_bind(consumer=info.name, stream=stream)
        self._readiness.set("nats", ready=True, detail=f"connected to {self._url}")
        try:
            delivered = 0
            if not info.num_pending:
                yield Batch(messages=(), pending=0)
            while True:
                try:
                    raw = await subscription.fetch(FETCH_MESSAGES, timeout=FETCH_TIMEOUT_S)
                except TimeoutError:
                    # Nothing came; the consumer must still exist, else we would wait for ever.
                    held = await self._jetstream.consumer_info(stream, info.name)
                    if held.delivered is not None and held.delivered.consumer_seq != delivered:
                        return
                    continue
                if not raw:
                    # The server ended the request: the consumer, or its stream, was deleted.
                    return
                counters = [message.metadata.sequence.consumer for message in raw]
                if counters != list(range(delivered + 1, delivered + 1 + len(raw))):
                    return
                delivered += len(raw)
                yield Batch(
                    messages=tuple(_received(message) for message in raw),
                    pending=raw[-1].metadata.num_pending,
                )
        finally:
            with contextlib.suppress(nats.errors.Error, APIError, OSError, TimeoutError):
                await subscription.unsubscribe()
                await self._jetstream.delete_consumer(stream, info.name)


def _received(message: Msg) -> Message:
    return Message(
        subject=message.subject,
        data=message.data,
        headers=message.headers or {},
        sequence=message.metadata.sequence.stream,
    )
