"""What the binder knows: the cluster, the open transactions and their promises, as folds of both streams.

No I/O and no waiting: `services.binder.following` feeds it messages and tells whoever waits.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime

from services.contracts.streams import MAX_MESSAGE_BYTES
from services.core.allocations import ClaimAllocation
from services.core.cluster import Cluster
from services.core.decisions import (
    Committed,
    Decision,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Waiting,
    written_members,
)
from services.core.effects import Effects
from services.core.holding import hold, recall, still_there
from services.core.ledger import Ledger, OpenTransaction
from services.core.objections import EPOCH, Circumstances, objection_to
from services.core.objects import Applied, ClusterChange, GangId, NodeName, Pod, TransactionId, Uid
from services.core.reasons import Reason
from services.core.transaction_state import TransactionState

MAX_SETBACKS = 65_536
"""Gangs whose last transaction went wrong, and that are therefore tried with more care."""


@dataclass(slots=True, kw_only=True)
class World:
    """Both folds. `placed_up_to` is the sequence of the placement stream that is folded."""

    cluster: Cluster = field(default_factory=Cluster)
    ledger: Ledger = field(default_factory=Ledger)
    placed_up_to: int = 0
    last_repairings: dict[GangId, Decision] = field(default_factory=dict)
    traces: dict[TransactionId, str] = field(default_factory=dict)
    #: What speaks against open transactions that were not begun.
    objections: dict[TransactionId, Reason] = field(default_factory=dict)
    #: Highest epoch of the placers that decided so far.
    newest_epoch: int = 0
    #: Insertion-ordered, for bounded memory.
    setbacks: dict[GangId, None] = field(default_factory=dict)

    def has_node(self, node: NodeName) -> bool:
        """Tell whether the followed cluster has a node."""
        return self.cluster.inventory.node(node) is not None

    def observe_change(self, change: ClusterChange, *, revision: int) -> Effects:
        """Fold a change of the cluster."""
        effects = self.cluster.apply(change, revision=revision)
        if isinstance(change, Applied) and isinstance(change.object, Pod):
            recall(self.cluster, ledger=self.ledger, pod=change.object)
        for pod in effects.moved:
            recall(self.cluster, ledger=self.ledger, pod=pod)
        return effects

    def observe_decision(
        self, decision: Decision, *, sequence: int, at: datetime, size_bytes: int = 0, traceparent: str = ""
    ) -> bool:
        """Fold a decision, our own or another's. False for a proposal that was superseded when it came."""
        self.placed_up_to = max(self.placed_up_to, sequence)
        before = self.ledger.transaction(decision.transaction)
        self._object(decision, at=at, size_bytes=size_bytes)
        self.ledger.apply(decision)
        is_news = self.ledger.transaction(decision.transaction) is not before
        self._take(decision, is_news=is_news, traceparent=traceparent)
        return is_news or not isinstance(decision.event, Proposed)

    def _take(self, decision: Decision, *, is_news: bool, traceparent: str) -> None:
        match decision.event:
            case Proposed() if not self.ledger.has_ended(decision.transaction):
                self.traces[decision.transaction] = traceparent
                if decision.transaction not in self.objections:
                    self.promise(decision.transaction)
            case Repairing() as repairing:
                self._note_setback(decision.gang)
                # Also before the proposal that it belongs to: of each subject only the last message may be left.
                self.last_repairings[decision.gang] = decision
                # A repeated one, or one that a later round has answered, takes nothing back.
                for member in repairing.open if is_news else ():
                    self.cluster.withdraw(member.uid)
                    self.cluster.claims.leave([member.uid])
            case Committed() | Refused() | RolledBack():
                self._end(decision)
            case _:
                return

    def adopt(self, cluster: Cluster) -> None:
        """Replace the cluster by one that was folded anew, and charge it with what is promised."""
        self.cluster = cluster
        for transaction in self.ledger.open():
            self.promise(transaction.id)
        for gang in cluster.gang_ids():
            last = self.ledger.last(gang)
            if last is not None and last.ends_transaction:
                hold(cluster, gang, members=written_members(last.event), transaction=last.transaction)

    def adopt_decisions(self, other: "World") -> None:
        """Replace what is known of the decisions by what was folded anew; the cluster and its promises stay.

        Promises of transactions that the stream knows no longer are kept: their bindings may be on their way, and
        `services.binder.sweeping` finds out.
        """
        self.ledger = other.ledger
        self.placed_up_to = other.placed_up_to
        self.last_repairings = other.last_repairings
        self.traces = other.traces
        self.objections = other.objections
        self.newest_epoch = other.newest_epoch
        for gang in other.setbacks:
            self._note_setback(gang)
        for transaction in self.ledger.open():
            self.promise(transaction.id)

    def _object(self, decision: Decision, *, at: datetime, size_bytes: int) -> None:
        """Note what speaks against a proposal, at its place in the stream."""
        event = decision.event
        if isinstance(event, Proposed) and not self.ledger.has_ended(decision.transaction):
            known = self.ledger.of_gang(decision.gang)
            given = Circumstances(
                now=at,
                size_bytes=size_bytes,
                most_bytes=MAX_MESSAGE_BYTES,
                newest_epoch=self.newest_epoch,
                open_transaction=None if known is None else known.id,
            )
            objection = objection_to(decision, event, given=given)
            if objection is not None:
                self.objections[decision.transaction] = objection
        is_placers = isinstance(event, Waiting) or (isinstance(event, Proposed) and not event.is_reopened)
        if is_placers:
            self.newest_epoch = max(self.newest_epoch, decision.epoch)

    def restart_epochs(self, epoch: int) -> None:
        """Take an epoch for the newest although it is lower: they begin anew where the bucket of leaders was lost."""
        self.newest_epoch = epoch
        for transaction in self.ledger.open():
            found = self.objections.get(transaction.id)
            if found is not None and found.subject == EPOCH and transaction.proposed.epoch >= epoch:
                del self.objections[transaction.id]
                self.promise(transaction.id)

    def drop_lost_promises(self, live: Container[Uid]) -> None:
        """Give up promises of transactions that nobody knows any more; those of bound members await the stream."""
        for promise in tuple(self.cluster.promises().values()):
            is_known = self.ledger.transaction(promise.transaction) is not None
            is_known = is_known or self.ledger.has_ended(promise.transaction)
            if not is_known and promise.uid not in live:
                self.cluster.withdraw(promise.uid)
                self.cluster.claims.leave([promise.uid])

    def promise(self, transaction: TransactionId) -> None:
        """Hold what the transaction still promises, as far as its pods are known and not yet bound."""
        found = self.ledger.transaction(transaction)
        if found is not None:
            claims = found.proposal.claims
            hold(self.cluster, found.gang, members=found.held, transaction=transaction, claims=claims)

    def claims_of(self, transaction: TransactionId) -> tuple[ClaimAllocation, ...]:
        """Return the devices that the last round of a transaction promised."""
        found = self.ledger.transaction(transaction)
        return () if found is None else found.proposal.claims

    def has_ended(self, transaction: TransactionId) -> bool:
        """Tell whether the stream, as it is known now, says that the transaction has ended."""
        return self.ledger.has_ended(transaction)

    def has_passed(self, entry: TransactionState) -> bool:
        """Tell whether a transaction has ended.

        Of each subject only the last message may be left, so an ending may be hidden by that of a later transaction of
        the gang; but the placer begins a later one only when the one before has ended.
        """
        if self.ledger.has_ended(entry.id):
            return True
        return self.ledger.transaction(entry.id) is None and self.ledger.last(entry.gang) is not None

    def repairing(self, transaction: OpenTransaction) -> Repairing | None:
        """Return the last Repairing of a transaction, also where the placer has answered it since."""
        decision = self.last_repairings.get(transaction.gang)
        if decision is None or decision.transaction != transaction.id or not isinstance(decision.event, Repairing):
            return None
        return decision.event

    def traceparent(self, transaction: TransactionId) -> str:
        """Return the trace context of the transaction's last proposal."""
        return self.traces.get(transaction, "")

    def had_setback(self, gang: GangId) -> bool:
        """Tell whether the gang's last transaction was refused, repaired or undone."""
        return gang in self.setbacks

    def _end(self, decision: Decision) -> None:
        self.traces.pop(decision.transaction, None)
        self.objections.pop(decision.transaction, None)
        self.last_repairings.pop(decision.gang, None)
        event = decision.event
        if isinstance(event, Committed) and not event.open and not event.repaired:
            self.setbacks.pop(decision.gang, None)
        else:
            self._note_setback(decision.gang)
        # Bound members are released when the cluster stream shows them bound: a message alone could come before it.
        members = written_members(event)
        hold(self.cluster, decision.gang, members=members, transaction=decision.transaction)
        written = {one.uid for one in members}
        for promise in [one for one in self.cluster.promises().values() if one.transaction == decision.transaction]:
            if promise.uid not in written:
                self.cluster.withdraw(promise.uid)
        self.cluster.claims.end(decision.transaction, kept=still_there(self.cluster, decision.gang, members))

    def _note_setback(self, gang: GangId) -> None:
        self.setbacks[gang] = None
        if len(self.setbacks) > MAX_SETBACKS:
            del self.setbacks[next(iter(self.setbacks))]
