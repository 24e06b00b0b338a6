"""Everything that was said on the bus, in order: what a test judges the services by.

It reads both streams as any other subscriber does, keeps every decision, and folds what placer and binder fold.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.contracts.cluster_codec import decode_change
from services.contracts.decision_codec import decode_decision
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM
from services.core.cluster import Cluster
from services.core.decisions import Committed, Decision, DecisionEvent, Proposed, Refused, RolledBack
from services.core.ledger import Ledger, OpenTransaction
from services.core.objects import Applied, ClusterChange, GangId, Kind, TransactionId, WatchPhase, WatchState
from services.runtime.bus import Batch, Bus, Message

KIND_TOKEN = 3
ENDINGS = (Committed, Refused, RolledBack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One decision as it stands in the stream."""

    sequence: int
    decision: Decision
    headers: Mapping[str, str]

    @property
    def event(self) -> DecisionEvent:
        """What was decided."""
        return self.decision.event


@dataclass(slots=True, kw_only=True)
class Recorder:
    """Reads until it is cancelled."""

    bus: Bus
    seen: list[Seen] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    cluster: Cluster = field(default_factory=Cluster)
    #: The last message of each subject of the cluster stream.
    objects: dict[str, ClusterChange] = field(default_factory=dict)
    #: Every phase that a kind's watch was in, with its sequence in the cluster stream.
    phases: list[tuple[int, Kind, WatchPhase]] = field(default_factory=list)
    cluster_sequence: int = 0
    placement_sequence: int = 0

    async def run(self) -> None:
        """Follow both streams."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_cluster(), name="record-cluster")
            group.create_task(self._follow_placement(), name="record-placement")

    def forget(self) -> None:
        """Begin anew, because the stream is lost and its numbers begin anew."""
        self.seen.clear()
        self.ledger, self.placement_sequence = Ledger(), 0

    def of(self, gang: GangId) -> list[Seen]:
        """Return the decisions about a gang, in order."""
        return [one for one in self.seen if one.decision.gang == gang]

    def last(self, gang: GangId) -> DecisionEvent | None:
        """Return the last decision about a gang."""
        found = self.of(gang)
        return found[-1].event if found else None

    def proposals(self, gang: GangId) -> list[Proposed]:
        """Return every placement that was proposed for a gang."""
        return [one.event for one in self.of(gang) if isinstance(one.event, Proposed)]

    def endings(self) -> Mapping[TransactionId, list[DecisionEvent]]:
        """Return the endings of each transaction that was proposed."""
        found: dict[TransactionId, list[DecisionEvent]] = {}
        for one in self.seen:
            if isinstance(one.event, Proposed):
                found.setdefault(one.decision.transaction, [])
            elif isinstance(one.event, ENDINGS):
                found.setdefault(one.decision.transaction, []).append(one.event)
        return found

    def open(self) -> tuple[OpenTransaction, ...]:
        """Return the open transactions."""
        return tuple(self.ledger.open())

    def watch_states(self) -> Iterable[WatchState]:
        """Return how far each kind is followed."""
        for change in self.objects.values():
            if isinstance(change, Applied) and isinstance(change.object, WatchState):
                yield change.object

    async def _follow_cluster(self) -> None:
        stream = CLUSTER_STREAM
        async for batch in self.bus.follow(stream.name, subjects=stream.subjects[0], last_per_subject=False):
            self._take_cluster(batch)

    def _take_cluster(self, batch: Batch) -> None:
        if batch.restarted:
            self.objects.clear()
            self.cluster = Cluster()
        for message in batch.messages:
            change = decode_change(Kind(message.subject.split(".")[KIND_TOKEN]), message.data)
            self.objects[message.subject] = change
            self.cluster.apply(change, revision=message.sequence)
            self.cluster_sequence = max(self.cluster_sequence, message.sequence)
            if isinstance(change, Applied) and isinstance(change.object, WatchState):
                self.phases.append((message.sequence, Kind(change.object.metadata.name), change.object.phase))

    async def _follow_placement(self) -> None:
        stream = PLACEMENT_STREAM
        async for batch in self.bus.follow(stream.name, subjects=stream.subjects[0], last_per_subject=False):
            for message in batch.messages:
                self._take_decision(message)

    def _take_decision(self, message: Message) -> None:
        # After an interruption everything is delivered again.
        if message.sequence <= self.placement_sequence:
            return
        self.placement_sequence = message.sequence
        decision = decode_decision(message.data)
        self.seen.append(Seen(sequence=message.sequence, decision=decision, headers=message.headers))
        self.ledger.apply(decision)
