"""The placer's loop: read both streams, think, publish, wait for the next event or the next moment that matters.

A standby does the same, but decides nothing. A new leader decides once it has folded everything that the placement
stream held when it took over, so that nothing is promised twice. A leader that loses its epoch forgets what it knows
and reads it again: whether its last decisions were stored is for the stream to say.
"""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.contracts.dead_letter_box import DeadLetterBox
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM
from services.core.attention import Outcome
from services.core.decider import Decider
from services.core.decisions import Proposed
from services.placer.metrics import PlacerMetrics
from services.placer.mind import Mind, Thought
from services.placer.ports import DecisionBus
from services.placer.publishing import Answer, LeadershipLost, Publisher
from services.runtime.bus import Batch, BusUnavailable, Message
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.leadership import Leadership
from services.runtime.log import get

_log = get("placer.deciding")

QUEUED_BATCHES = 64
"""Batches read ahead of the mind; beyond it the readers wait, and the bus keeps what they have not asked for."""
CONDITION = "cluster"
"""Name of the placer's own condition of readiness."""
HEARTBEAT_LIMIT_S = 30.0
IDLE_S = 5.0


class Source(Enum):
    """Which stream a batch is from."""

    CLUSTER = CLUSTER_STREAM
    PLACEMENT = PLACEMENT_STREAM


class StateLost(Exception):
    """A stream had a gap: everything is read again."""


@dataclass(slots=True, kw_only=True)
class Loop:
    """Reads, thinks and publishes until it is cancelled."""

    bus: DecisionBus
    mind: Mind
    publisher: Publisher
    letters: DeadLetterBox
    readiness: Readiness
    metrics: PlacerMetrics
    clock: Clock
    sequences: dict[str, int]
    leadership: Leadership
    _queue: asyncio.Queue[tuple[Source, Batch]] = field(default_factory=lambda: asyncio.Queue(QUEUED_BATCHES))
    _is_cluster_read: asyncio.Event = field(default_factory=asyncio.Event)
    _caught_up: set[Source] = field(default_factory=set)
    _taken: int = 0
    """Sequence of the placement stream up to which it was handed to the mind."""
    _term: tuple[int, int] | None = None
    """The epoch that this process leads, and what it has to have folded before it decides."""
    _nudged: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Run for ever; a gap in a stream starts it over with an empty state."""
        while True:
            try:
                await self._run_once()
            except* StateLost:
                _log.warning("state.lost", detail="a stream had a gap or was interrupted; reading everything again")
            except* LeadershipLost:
                _log.warning("leadership.lost", detail="another may decide; reading everything again")
            await self.mind.forget()
            self.sequences.clear()
            self._queue = asyncio.Queue(QUEUED_BATCHES)
            self._is_cluster_read.clear()
            self._caught_up.clear()
            self._taken, self._term = 0, None

    async def _run_once(self) -> None:
        self.readiness.set(CONDITION, ready=False, detail="reading the cluster stream")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(Source.CLUSTER), name="read-cluster")
            group.create_task(self._read(Source.PLACEMENT), name="read-placement")
            group.create_task(self._think_for_ever(), name="think")
            group.create_task(self._follow_leadership(), name="follow-leadership")

    async def _follow_leadership(self) -> None:
        """Note when this process begins to lead, and raise LeadershipLost when it does no more."""
        epoch = await self.leadership.changed(since=None)
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.05, max=1), retry=retry_if_exception_type(BusUnavailable)
        )
        async for attempt in patient:
            with attempt:
                last = await self.bus.last(PLACEMENT_STREAM.name, subject=PLACEMENT_STREAM.subjects[0])
        if epoch is not None:
            self._term = (epoch, 0 if last is None else last.sequence)
            self._nudged.set()
        await self.leadership.changed(since=epoch)
        raise LeadershipLost

    def _deciding_epoch(self) -> int | None:
        """Return the epoch under which may be decided now, or None."""
        if self._term is None or len(self._caught_up) < len(Source):
            return None
        epoch, end = self._term
        return epoch if self._taken >= end and self.leadership.epoch == epoch else None

    async def _read(self, source: Source) -> None:
        """Put batches of a stream on the queue. Decisions are read once the cluster is known, which they refer to."""
        if source is Source.PLACEMENT:
            await self._is_cluster_read.wait()
        stream = source.value
        async for batch in self.bus.follow(stream.name, subjects=stream.subjects[0]):
            if batch.restarted:
                raise StateLost
            await self._queue.put((source, batch))

    async def _think_for_ever(self) -> None:
        due: datetime | None = None
        while True:
            self.readiness.beat("deciding", HEARTBEAT_LIMIT_S)
            changes, decisions = await self._next(due)
            started_ns, started = time.time_ns(), self.clock.monotonic()
            thought = await self.mind.think(
                changes=changes,
                decisions=decisions,
                now=self.clock.now(),
                epoch=self._deciding_epoch(),
            )
            self.metrics.thinking.observe(self.clock.monotonic() - started)
            self._note(thought)
            is_rejected = await self._publish(thought, started_ns=started_ns)
            await self._gauge()
            # What was taken back is tried again at once.
            due = self.clock.now() if is_rejected else thought.due

    async def _next(self, due: datetime | None) -> tuple[list[Message], list[Message]]:
        """Return everything that is queued, waiting for something to be, or until `due`."""
        changes: list[Message] = []
        decisions: list[Message] = []
        if self._queue.empty():
            wait_s = IDLE_S if due is None else min(max((due - self.clock.now()).total_seconds(), 0), IDLE_S)
            if (first := await self._first(wait_s)) is not None:
                self._take(first, changes=changes, decisions=decisions)
        while not self._queue.empty():
            self._take(self._queue.get_nowait(), changes=changes, decisions=decisions)
        return changes, decisions

    async def _first(self, wait_s: float) -> tuple[Source, Batch] | None:
        """Return what comes next on the queue, or None where nothing does for that long, or this process now leads."""
        getting = asyncio.create_task(self._queue.get(), name="next-batch")
        waiting = asyncio.create_task(self.clock.sleep(wait_s), name="next-due")
        leading = asyncio.create_task(self._nudged.wait(), name="next-epoch")
        try:
            await asyncio.wait({getting, waiting, leading}, return_when=asyncio.FIRST_COMPLETED)
            self._nudged.clear()
            return getting.result() if getting.done() else None
        finally:
            getting.cancel()
            waiting.cancel()
            leading.cancel()

    def _take(self, item: tuple[Source, Batch], *, changes: list[Message], decisions: list[Message]) -> None:
        source, batch = item
        self.metrics.messages.labels(stream=source.value.name).inc(len(batch.messages))
        if source is Source.CLUSTER:
            changes.extend(batch.messages)
        else:
            decisions.extend(batch.messages)
            for message in batch.messages:
                # The reader may be behind what was just written here.
                known = self.sequences.get(message.subject, 0)
                self.sequences[message.subject] = max(known, message.sequence)
                self._taken = max(self._taken, message.sequence)
        if batch.pending == 0:
            self._caught_up.add(source)
            if source is Source.CLUSTER:
                self._is_cluster_read.set()

    def _note(self, thought: Thought) -> None:
        for one in thought.unreadable:
            self.metrics.unreadable.inc()
            self.letters.put(one.message, stream=one.stream, problem=one.problem)
        if len(self._caught_up) < len(Source):
            self.readiness.set(CONDITION, ready=False, detail="reading the streams")
        elif thought.unsynced:
            kinds = ", ".join(thought.unsynced)
            self.readiness.set(CONDITION, ready=False, detail=f"waiting for the watcher to follow: {kinds}")
        else:
            self.readiness.set(CONDITION, ready=True, detail="synced")

    async def _publish(self, thought: Thought, *, started_ns: int) -> bool:
        """Publish what was decided, side by side: each decision has a subject of its own. True where one was rejected.

        That may take as long as the bus is away; this process is alive meanwhile.
        """
        if not thought.outcomes:
            return False
        publishing = asyncio.gather(
            *(self.publisher.publish(outcome, started_ns=started_ns) for outcome in thought.outcomes)
        )
        try:
            while not (await asyncio.wait({publishing}, timeout=IDLE_S))[0]:
                self.readiness.beat("deciding", HEARTBEAT_LIMIT_S)
        finally:
            publishing.cancel()
        rejected = [
            outcome.decision
            for outcome, answer in zip(thought.outcomes, publishing.result(), strict=True)
            if answer is Answer.STALE or (answer is Answer.TOO_LARGE and not _is_repair(outcome))
        ]
        for decision in rejected:
            await self.mind.reject(decision)
        return bool(rejected)

    async def _gauge(self) -> None:
        revision, waiting, transactions, degraded = await self.mind.ask(_sizes)
        self.metrics.degraded.set(degraded)
        self.metrics.revision.set(revision)
        self.metrics.waiting.set(waiting)
        self.metrics.open.set(transactions)


def _is_repair(outcome: Outcome) -> bool:
    """Tell whether a later round was decided: its transaction stays open until the binder's window is over."""
    return isinstance(outcome.decision.event, Proposed) and outcome.decision.event.round > 0


def _sizes(decider: Decider) -> tuple[int, int, int, int]:
    transactions = len(tuple(decider.ledger.open()))
    return decider.cluster.revision, decider.waiting_count, transactions, decider.mending.count
