"""A bus in memory: streams with sequences and compare-and-set, followers, and faults by script.

It satisfies the bus ports of placer, binder and autoscaler, and passes the same contract suite as the real one
(`tests/contract/bus`). Messages never expire, whatever TTL they are given.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from services.contracts.streams import STREAMS, Stream
from services.runtime.bus import Batch, BusUnavailable, Message, StaleWrite

MESSAGE_ID = "Nats-Msg-Id"
MAX_PAYLOAD_BYTES = 8 * 2**20


@dataclass(slots=True, kw_only=True)
class _Log:
    """One stream. `generation` changes when its followers have to start again."""

    definition: Stream
    messages: list[Message] = field(default_factory=list)
    ids: dict[str, int] = field(default_factory=dict)
    last_sequence: int = 0
    generation: int = 0

    def last(self, subject: str) -> Message | None:
        """The last message of a subject or pattern."""
        return next((message for message in reversed(self.messages) if _matches(message.subject, (subject,))), None)

    def store(self, subject: str, *, data: bytes, headers: Mapping[str, str]) -> int:
        """Append a message, and forget those of its subject that are too many."""
        self.last_sequence += 1
        self.messages.append(
            Message(subject=subject, data=data, headers=dict(headers), sequence=self.last_sequence),
        )
        most = self.definition.max_messages_per_subject
        same = [message for message in self.messages if message.subject == subject]
        if 0 < most < len(same):
            self.messages.remove(same[0])
        if MESSAGE_ID in headers:
            self.ids[headers[MESSAGE_ID]] = self.last_sequence
        return self.last_sequence


class FakeBus:
    """Satisfies `services.placer.ports.DecisionBus` and its like.

    `batch_size` is how many stored messages come in one batch.
    """

    def __init__(self, *, streams: Iterable[Stream] = STREAMS, batch_size: int = 1000) -> None:
        """Start with empty streams."""
        self._logs = {stream.name: _Log(definition=stream) for stream in streams}
        self._news = asyncio.Event()
        self._refusals = 0
        self._losses = 0
        self._is_window_over = False
        self._is_down = False
        self.batch_size = batch_size
        #: Publishes that were asked for, also those that failed.
        self.attempts: list[str] = []
        #: Streams of the followers that are reading now.
        self.following: list[str] = []
        self.publishing = 0
        self.most_publishing = 0
        #: Where set, publishes wait for it.
        self.gate: asyncio.Event | None = None
        self._held: dict[str, asyncio.Event] = {}

    def refuse_publishes(self, count: int) -> None:
        """Let that many publishes fail before anything is stored."""
        self._refusals = count

    def lose_answers(self, count: int, *, is_window_over: bool = False) -> None:
        """Let that many publishes be stored, and yet fail; `is_window_over` where the next one is no repetition."""
        self._losses, self._is_window_over = count, is_window_over

    def hold(self, stream: str) -> None:
        """Let followers of a stream hear nothing until it is released."""
        self._held[stream] = asyncio.Event()

    def release(self, stream: str) -> None:
        """Let followers of a stream hear what they have missed."""
        self._held.pop(stream).set()

    def write(self, subject: str, *, data: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Store a message as somebody else would, whatever was scripted."""
        log = next(log for log in self._logs.values() if _matches(subject, log.definition.subjects))
        sequence = log.store(subject, data=data, headers=headers or {})
        self._tell()
        return sequence

    def stop(self) -> None:
        """Let the server be away: every request fails, and followers hear nothing."""
        self._is_down = True

    def restart(self) -> None:
        """Let the server come back, or be exchanged: every follower is told everything again."""
        self._is_down = False
        for log in self._logs.values():
            log.generation += 1
        self._tell()

    def delete_stream(self, name: str) -> None:
        """Remove a stream with all that it holds."""
        self._logs.pop(name).generation += 1
        self._tell()

    def create_stream(self, stream: Stream) -> None:
        """Create a stream."""
        self._logs.setdefault(stream.name, _Log(definition=stream))
        self._tell()

    def _forget_ids(self) -> None:
        for log in self._logs.values():
            log.ids.clear()

    def forget_subject(self, stream: str, *, subject: str) -> None:
        """Let the messages of a subject grow too old."""
        log = self._logs[stream]
        log.messages = [message for message in log.messages if message.subject != subject]

    def stored(self, stream: str) -> tuple[Message, ...]:
        """What a stream holds."""
        return tuple(self._logs[stream].messages)

    async def publish(
        self,
        subject: str,
        *,
        data: bytes,
        headers: Mapping[str, str],
        expected_sequence: int | None = None,
        expected_subject: str = "",
        ttl_s: float | None = None,  # noqa: ARG002 - nothing expires here
    ) -> int:
        """Store a message if the subject's last sequence is the expected one."""
        self.attempts.append(subject)
        self.publishing += 1
        self.most_publishing = max(self.most_publishing, self.publishing)
        try:
            # Requests to a server leave and come back: others run meanwhile.
            await asyncio.sleep(0)
            if self.gate is not None:
                await self.gate.wait()
            return self._publish(
                subject,
                data=data,
                headers=headers,
                expected_sequence=expected_sequence,
                expected_subject=expected_subject or subject,
            )
        finally:
            self.publishing -= 1

    def _publish(
        self,
        subject: str,
        *,
        data: bytes,
        headers: Mapping[str, str],
        expected_sequence: int | None,
        expected_subject: str,
    ) -> int:
        if self._is_down or self._refusals:
            self._refusals = max(self._refusals - 1, 0)
            raise BusUnavailable(f"{subject}: the fake was told to refuse")
        log = next((log for log in self._logs.values() if _matches(subject, log.definition.subjects)), None)
        if log is None:
            raise BusUnavailable(f"{subject}: no stream keeps this subject")
        if len(data) > MAX_PAYLOAD_BYTES:
            raise BusUnavailable(f"{subject}: maximum payload exceeded")
        last = log.last(expected_subject)
        if expected_sequence is not None and (0 if last is None else last.sequence) != expected_sequence:
            raise StaleWrite(f"{subject}: expected last sequence {expected_sequence}")
        known = log.ids.get(headers.get(MESSAGE_ID, ""))
        if known is not None:
            return known
        sequence = log.store(subject, data=data, headers=headers)
        self._tell()
        if self._losses:
            self._losses -= 1
            if self._is_window_over:
                self._forget_ids()
            raise BusUnavailable(f"{subject}: the fake was told to lose the answer")
        return sequence

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject."""
        await asyncio.sleep(0)
        if self._is_down or stream not in self._logs:
            raise BusUnavailable(f"stream {stream} does not exist")
        return self._logs[stream].last(subject)

    async def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""
        patterns = (subjects,) if isinstance(subjects, str) else tuple(subjects)
        self.following.append(stream)
        has_begun = False
        try:
            while True:
                log = await self._existing(stream)
                is_restarted = has_begun
                async for batch in self._generation(log, patterns=patterns, last_per_subject=last_per_subject):
                    while (held := self._held.get(stream)) is not None:
                        await held.wait()
                    yield Batch(messages=batch.messages, pending=batch.pending, restarted=is_restarted)
                    has_begun, is_restarted = True, False
        finally:
            self.following.remove(stream)

    async def _existing(self, stream: str) -> _Log:
        while stream not in self._logs or self._is_down:
            await self._news.wait()
        return self._logs[stream]

    async def _generation(
        self, log: _Log, *, patterns: tuple[str, ...], last_per_subject: bool
    ) -> AsyncIterator[Batch]:
        """Yield batches until the followers of the log have to start again."""
        generation, cursor = log.generation, log.last_sequence
        unread = [message for message in log.messages if _matches(message.subject, patterns)]
        if last_per_subject:
            newest = {message.subject: message.sequence for message in unread}
            unread = [message for message in unread if newest[message.subject] == message.sequence]
        if not unread:
            yield Batch(messages=(), pending=0)
        while log.generation == generation:
            while unread and log.generation == generation:
                given, unread = unread[: self.batch_size], unread[self.batch_size :]
                yield Batch(messages=tuple(given), pending=len(unread))
            news = self._news
            unread = [
                message for message in log.messages if message.sequence > cursor and _matches(message.subject, patterns)
            ]
            cursor = log.last_sequence
            if log.generation == generation and (not unread or self._is_down):
                await news.wait()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


def _matches(subject: str, patterns: Iterable[str]) -> bool:
    return any(_matches_one(subject.split("."), pattern.split(".")) for pattern in patterns)


def _matches_one(tokens: list[str], pattern: list[str]) -> bool:
    for index, wanted in enumerate(pattern):
        if wanted == ">":
            return len(tokens) > index
        if index >= len(tokens) or wanted not in {"*", tokens[index]}:
            return False
    return len(tokens) == len(pattern)
