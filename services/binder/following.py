"""Reading both streams into the world, and waking whoever waits for what they say."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from services.binder.metrics import BinderMetrics
from services.binder.ports import DecisionBus
from services.binder.world import World
from services.contracts.cluster_codec import UndecodableMessage, UnknownKind, read_change
from services.contracts.dead_letter_box import DeadLetterBox
from services.contracts.decision_codec import read_decision
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM
from services.contracts.subjects import CLUSTER, PLACEMENT
from services.core.cluster import Cluster
from services.core.decisions import Decision
from services.core.objects import ClusterChange, GangId
from services.runtime.bus import Batch, Message
from services.runtime.clock import Clock
from services.runtime.health import Readiness

CLUSTER_CONDITION = "cluster state"
PLACEMENT_CONDITION = "open transactions"

OnGangs = Callable[[frozenset[GangId]], None]
OnDecision = Callable[[Decision], None]


class Follower:
    """Keeps the world current. Nothing is decided before both streams were read to their ends once."""

    def __init__(
        self,
        bus: DecisionBus,
        *,
        world: World,
        readiness: Readiness,
        metrics: BinderMetrics,
        letters: DeadLetterBox,
        clock: Clock,
    ) -> None:
        """Keep the parts."""
        self._bus = bus
        self._letters = letters
        self._world = world
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock
        self._advanced = asyncio.Condition()
        self._is_cluster_read = False
        readiness.set(CLUSTER_CONDITION, ready=False, detail="reading the cluster stream")
        readiness.set(PLACEMENT_CONDITION, ready=False, detail="reading the placement stream")

    @property
    def is_cluster_ready(self) -> bool:
        """True where the cluster is known whole: the stream was read, and the watcher had listed everything."""
        return self._is_cluster_read and not self._world.cluster.unsynced()

    async def wait_for_revision(self, revision: int, *, until: datetime | None) -> bool:
        """Wait until the cluster is known at or past a revision; False where that took too long."""
        limit_s = None if until is None else max((until - self._clock.now()).total_seconds(), 0.0)
        try:
            async with asyncio.timeout(limit_s), self._advanced:
                await self._advanced.wait_for(
                    lambda: self.is_cluster_ready and self._world.cluster.revision >= revision
                )
        except TimeoutError:
            return False
        return True

    async def wait_until(self, holds: Callable[[], bool], *, until: datetime) -> bool:
        """Wait until something holds of what is followed; False where that took too long."""
        limit_s = max((until - self._clock.now()).total_seconds(), 0.0)
        try:
            async with asyncio.timeout(limit_s), self._advanced:
                await self._advanced.wait_for(holds)
        except TimeoutError:
            return False
        return True

    async def wait_for_decisions(self, sequence: int) -> None:
        """Wait until the placement stream is folded up to a sequence."""
        async with self._advanced:
            await self._advanced.wait_for(lambda: self._world.placed_up_to >= sequence)

    async def follow_cluster(self, on_gangs: OnGangs) -> None:
        """Fold the cluster stream for ever; `on_gangs` hears which gangs a batch touched."""
        fresh: Cluster | None = Cluster()
        async for batch in self._bus.follow(CLUSTER_STREAM.name, subjects=f"{CLUSTER}.>"):
            if batch.restarted:
                # Folded aside until it is whole: half a cluster would look like many deleted pods.
                fresh = Cluster()
            touched: set[GangId] = set()
            for message in batch.messages:
                change = self._change(message)
                if change is None:
                    continue
                if fresh is not None:
                    fresh.apply(change, revision=message.sequence)
                else:
                    touched |= self._world.observe_change(change, revision=message.sequence).gangs
            if fresh is not None and not batch.pending:
                self._world.adopt(fresh)
                touched |= fresh.gang_ids()
                fresh = None
                self._is_cluster_read = True
            await self._tell_advance()
            if fresh is None:
                on_gangs(frozenset(touched))

    async def follow_placement(
        self, on_decision: OnDecision, *, on_caught_up: Callable[[], None], on_reread: Callable[[], None]
    ) -> None:
        """Fold the placement stream for ever.

        `on_caught_up` is called once, when what was stored is folded; `on_decision` hears of each decision after that.
        `on_reread` is called when everything was read again, which may be less than before: the stream may have been
        deleted, or lost.
        """
        is_caught_up = False
        fresh: World | None = None
        async for batch in self._bus.follow(PLACEMENT_STREAM.name, subjects=f"{PLACEMENT}.>"):
            if batch.restarted:
                # Folded aside until it is whole: half of the decisions would look like lost transactions.
                fresh = World()
                # Nothing is published on what was folded of the stream before.
                self._world.placed_up_to = 0
            world = fresh or self._world
            for decision in self._fold(batch, into=world):
                if is_caught_up and fresh is None:
                    on_decision(decision)
            if fresh is not None and not batch.pending:
                self._world.adopt_decisions(fresh)
                fresh = None
                if is_caught_up:
                    on_reread()
            if not batch.pending and not is_caught_up:
                is_caught_up = True
                self._readiness.set(PLACEMENT_CONDITION, ready=True, detail="known")
                on_caught_up()
            async with self._advanced:
                self._advanced.notify_all()

    def _fold(self, batch: Batch, *, into: World) -> list[Decision]:
        """Fold a batch of decisions, and return those that could be read."""
        decisions: list[Decision] = []
        for message in batch.messages:
            # Also past what cannot be read.
            into.placed_up_to = max(into.placed_up_to, message.sequence)
            try:
                decision = read_decision(message.subject, message.data)
            except UndecodableMessage as error:
                self._skip(message, error, stream=PLACEMENT_STREAM.name)
                continue
            traceparent = message.headers.get("traceparent", "")
            is_current = into.observe_decision(
                decision,
                sequence=message.sequence,
                at=self._clock.now(),
                size_bytes=len(message.data),
                traceparent=traceparent,
            )
            if not is_current:
                self._metrics.sharing.superseded_proposals.inc()
            decisions.append(decision)
        return decisions

    async def _tell_advance(self) -> None:
        unsynced = self._world.cluster.unsynced()
        if not self._is_cluster_read:
            detail = "reading the cluster stream"
        elif unsynced:
            detail = f"the watcher has not listed all of {', '.join(unsynced)} yet"
        else:
            detail = f"known up to revision {self._world.cluster.revision}"
        self._readiness.set(CLUSTER_CONDITION, ready=self.is_cluster_ready, detail=detail)
        self._metrics.revision.set(self._world.cluster.revision)
        async with self._advanced:
            self._advanced.notify_all()

    def _change(self, message: Message) -> ClusterChange | None:
        try:
            return read_change(message.subject, message.data)
        except UnknownKind:
            return None
        except UndecodableMessage as error:
            self._skip(message, error, stream=CLUSTER_STREAM.name)
            return None

    def _skip(self, message: Message, error: Exception, *, stream: str) -> None:
        self._metrics.unreadable.inc()
        self._letters.put(message, stream=stream, problem=str(error))
