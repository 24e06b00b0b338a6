"""Carries out what `publication` decides: many objects in parallel, a bounded queue in front.

A full queue makes lists and watches wait, so memory stays bounded while the bus is slow or away, and nothing is lost:
versions that wait coalesce per object.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.core.objects import Kind
from services.runtime.clock import Clock
from services.watcher.metrics import Metrics
from services.watcher.ports import ClusterStream, StreamRefused, StreamUnavailable
from services.watcher.publication import Instruction, Outgoing, Publication, Publish, Relist, Reread, Stored, Verdict

LONGEST_WAIT_S = 2.0

MESSAGE_LOST = "message_lost"
"""The stream does not hold a message any more that it had acknowledged."""
OUTDATED_WRITE = "outdated_write"
"""Somebody replaced a message by an older one."""


@dataclass(slots=True, kw_only=True)
class _Channel:
    """One kind's publication, and who waits for it."""

    kind: Kind
    publication: Publication
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    since_s: dict[str, float] = field(default_factory=dict)
    """When the oldest version of an object was seen that is not yet stored, oldest first."""


class Publisher:
    """All kinds' publications in front of one stream.

    `lost` is called with kind and reason when the stream turns out to hold less than it was told.
    """

    def __init__(
        self,
        stream: ClusterStream,
        *,
        kinds: tuple[Kind, ...],
        clock: Clock,
        metrics: Metrics,
        lost: Callable[[Kind, str], None],
        worker_count: int = 256,
        queue_size: int = 1024,
    ) -> None:
        """Start with nothing known; `work` does the writing."""
        self._stream = stream
        self._clock = clock
        self._metrics = metrics
        self._lost = lost
        self._worker_count = worker_count
        self._queue: asyncio.Queue[tuple[_Channel, Instruction]] = asyncio.Queue()
        # A slot is taken before anything is decided: a caller that is cancelled while it waits leaves nothing behind.
        self._slots = asyncio.Semaphore(queue_size)
        self._channels = {kind: _Channel(kind=kind, publication=Publication()) for kind in kinds}
        metrics.queue_depth.set_function(self._queue.qsize)
        for channel in self._channels.values():
            channel.settled.set()
            self._show(channel)

    def publication(self, kind: Kind) -> Publication:
        """Return what is known of a kind."""
        return self._channels[kind].publication

    async def work(self) -> None:
        """Write, for ever."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._worker_count):
                group.create_task(self._worker(), name=f"publish-{number}")

    async def submit(self, kind: Kind, outgoing: Outgoing, *, is_listed: bool) -> Verdict:
        """Take a version; waits while the queue is full. The write itself is not awaited."""
        channel = self._channels[kind]
        await self._slots.acquire()
        take = channel.publication.listed if is_listed else channel.publication.watched
        step = take(outgoing)
        self._metrics.verdicts.labels(kind.value, step.verdict.value).inc()
        if step.verdict is Verdict.ACCEPTED:
            channel.since_s.setdefault(outgoing.subject, outgoing.seen_at_s)
        if step.instruction is None:
            self._slots.release()
        else:
            channel.settled.clear()
            self._queue.put_nowait((channel, step.instruction))
        return step.verdict

    async def echo(self, kind: Kind, stored: Stored) -> None:
        """Take a message that was read from the stream."""
        channel = self._channels[kind]
        await self._slots.acquire()
        instruction = channel.publication.echoed(stored)
        if instruction is None:
            self._slots.release()
        else:
            channel.settled.clear()
            self._queue.put_nowait((channel, instruction))

    async def settled(self, kind: Kind) -> None:
        """Wait until the stream holds everything of a kind that was seen."""
        await self._channels[kind].settled.wait()

    async def _worker(self) -> None:
        while True:
            channel, instruction = await self._queue.get()
            self._slots.release()
            following: Instruction | None = instruction
            while following is not None:
                subject = _subject(following)
                following = await self._carried_out(channel, following)
            channel.since_s.pop(subject, None)
            if channel.publication.is_settled:
                channel.settled.set()

    async def _carried_out(self, channel: _Channel, instruction: Instruction) -> Instruction | None:
        """Do it and return what follows, after a wait where the bus is away."""
        try:
            return await self._attempt(channel, instruction)
        except StreamUnavailable:
            return await self._patiently(channel, instruction)

    async def _patiently(self, channel: _Channel, instruction: Instruction) -> Instruction | None:
        """Repeat until the answer is definite; a write whose answer was lost may have become another meanwhile."""
        result: Instruction | None = instruction
        async for attempt in AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=LONGEST_WAIT_S),
            retry=retry_if_exception_type(StreamUnavailable),
            sleep=self._clock.sleep,
        ):
            with attempt:
                if attempt.retry_state.attempt_number == 1:
                    # The first attempt was made by the caller.
                    raise StreamUnavailable
                if isinstance(instruction, Publish):
                    again = channel.publication.unanswered(instruction.outgoing.subject)
                    assert again is not None, "a write without an answer is always followed by another"
                    instruction = again
                result = await self._attempt(channel, instruction)
        return result

    async def _attempt(self, channel: _Channel, instruction: Instruction) -> Instruction | None:
        if isinstance(instruction, Relist):
            self._lost(channel.kind, OUTDATED_WRITE)
            return None
        if isinstance(instruction, Reread):
            return await self._reread(channel, instruction)
        return await self._write(channel, instruction)

    async def _write(self, channel: _Channel, instruction: Publish) -> Instruction | None:
        outgoing = instruction.outgoing
        result = "unanswered"
        try:
            sequence = await self._stream.publish(outgoing, expected_sequence=instruction.expected_sequence)
            result = "stored"
        except StreamRefused:
            result = "refused"
            return channel.publication.refused(outgoing.subject)
        finally:
            self._metrics.writes.labels(channel.kind.value, result).inc()
        since_s = channel.since_s.get(outgoing.subject, outgoing.seen_at_s)
        self._metrics.latency.labels(channel.kind.value).observe(self._clock.monotonic() - since_s)
        following = channel.publication.acknowledged(outgoing.subject, sequence=sequence)
        if isinstance(following, Publish):
            # What coalesced behind this write is a matter of its own, and goes to the end of the line.
            channel.since_s.pop(outgoing.subject, None)
            channel.since_s[outgoing.subject] = following.outgoing.seen_at_s
        return following

    async def _reread(self, channel: _Channel, instruction: Reread) -> Instruction | None:
        stored = await self._stream.last(instruction.subject)
        if instruction.shows_loss(stored):
            self._lost(channel.kind, MESSAGE_LOST)
        return channel.publication.found(instruction.subject, stored=stored)

    def _show(self, channel: _Channel) -> None:
        """Let the gauges read the live state when they are scraped."""
        kind = channel.kind.value
        self._metrics.objects.labels(kind).set_function(lambda: channel.publication.object_count)
        self._metrics.unsettled.labels(kind).set_function(lambda: channel.publication.unsettled_count)
        self._metrics.lag.labels(kind).set_function(lambda: self._lag_s(channel))

    def _lag_s(self, channel: _Channel) -> float:
        oldest_s = next(iter(channel.since_s.values()), None)
        return 0.0 if oldest_s is None else max(0.0, self._clock.monotonic() - oldest_s)


def _subject(instruction: Instruction) -> str:
    return instruction.outgoing.subject if isinstance(instruction, Publish) else instruction.subject
