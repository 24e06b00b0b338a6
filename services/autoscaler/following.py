"""Follows the decisions about gangs: when the pods of a woken target had their places is a part of its cold start."""

from collections.abc import Callable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge

from services.autoscaler.ports import DecisionStream
from services.contracts.cluster_codec import UndecodableMessage
from services.contracts.dead_letter_box import DeadLetterBox
from services.contracts.decision_codec import EVENTS, read_decision
from services.contracts.streams import PLACEMENT_STREAM
from services.core.decisions import Proposed
from services.core.ledger import Ledger
from services.runtime.bus import Batch
from services.runtime.health import Readiness

CONDITION = "placements"
"""Name of the autoscaler's own condition of readiness."""


class AutoscalerMetrics:
    """What the autoscaler counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything, so that each series exists from the start."""
        self.decisions = Counter(
            "phalanx_autoscaler_decisions_seen_total", "Decisions read, by event.", ["event"], registry=registry
        )
        self.unreadable = Counter(
            "phalanx_autoscaler_unreadable_messages_total",
            "Messages that could not be decoded and were skipped.",
            registry=registry,
        )
        self.revision = Gauge(
            "phalanx_autoscaler_revision", "Sequence of the placement stream that was read last.", registry=registry
        )


def _nobody(_namespace: str, _uids: frozenset[str]) -> None:
    """Nobody measures a cold start."""


@dataclass(slots=True, kw_only=True)
class Follower:
    """Folds the placement stream until it is cancelled."""

    stream: DecisionStream
    readiness: Readiness
    metrics: AutoscalerMetrics
    letters: DeadLetterBox
    ledger: Ledger = field(default_factory=Ledger)
    #: Who is told which pods the placer had nodes for: the namespace, and their uids.
    placed: Callable[[str, frozenset[str]], None] = _nobody

    async def run(self) -> None:
        """Run for ever; a gap in the stream starts the fold over."""
        self.readiness.set(CONDITION, ready=False, detail="reading the placement stream")
        async for batch in self.stream.follow(PLACEMENT_STREAM.name, subjects=PLACEMENT_STREAM.subjects[0]):
            if batch.restarted:
                self.ledger = Ledger()
                self.readiness.set(CONDITION, ready=False, detail="reading the placement stream again")
            self._fold(batch)
            if batch.pending == 0:
                self.readiness.set(CONDITION, ready=True, detail="synced")

    def _fold(self, batch: Batch) -> None:
        for message in batch.messages:
            try:
                decision = read_decision(message.subject, message.data)
            except UndecodableMessage as error:
                self.metrics.unreadable.inc()
                self.letters.put(message, stream=PLACEMENT_STREAM.name, problem=str(error))
                continue
            self.ledger.apply(decision)
            self.metrics.decisions.labels(event=EVENTS[type(decision.event)]).inc()
            self.metrics.revision.set(message.sequence)
            if isinstance(decision.event, Proposed):
                namespace = decision.gang.split("/")[1]
                self.placed(namespace, frozenset(str(one.uid) for one in decision.event.assignments))
