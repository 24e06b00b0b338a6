"""Open transactions as a fold of the placement stream.

Placer and binder fold the same stream, so a restarted one of either knows what is promised, what is being repaired, and
which gangs wait and why, from the last message of each subject alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from services.core.decisions import Assignment, Committed, Decision, Degraded, Proposed, Repairing, Waiting
from services.core.objects import GangId, TransactionId

MAX_ENDED = 65_536
"""Ended transactions that are remembered, so that a late message cannot open one again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that has not ended.

    `proposed` is its last round. `repairing` is set while the placer owes it the next round.
    """

    id: TransactionId
    gang: GangId
    proposed: Decision
    proposal: Proposed
    repairing: Repairing | None = None
    #: What it was before the last round, until that round is published.
    previous: "OpenTransaction | None" = None

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """What the last round promised."""
        return self.proposal.assignments

    @property
    def held(self) -> tuple[Assignment, ...]:
        """What is promised still: what the last round promised, without the members that were refused since."""
        if self.repairing is None:
            return self.assignments
        settled = {one.uid for one in self.repairing.open} | {one.uid for one in self.repairing.bound}
        return (*self.repairing.bound, *(one for one in self.assignments if one.uid not in settled))


@dataclass(slots=True, kw_only=True)
class Ledger:
    """Transactions and waiting gangs, by what the placement stream says."""

    _open: dict[TransactionId, OpenTransaction] = field(default_factory=dict)
    _by_gang: dict[GangId, TransactionId] = field(default_factory=dict)
    #: Insertion-ordered, for bounded memory.
    _ended: dict[TransactionId, None] = field(default_factory=dict)
    _waiting: dict[GangId, Decision] = field(default_factory=dict)
    _last: dict[GangId, Decision] = field(default_factory=dict)
    _degraded: dict[GangId, Decision] = field(default_factory=dict)
    _committed: dict[GangId, Decision] = field(default_factory=dict)

    def apply(self, decision: Decision) -> None:
        """Fold one decision. Repeated and late ones change nothing."""
        known = self._last.get(decision.gang)
        if known is None or known.decided_at <= decision.decided_at:
            self._last[decision.gang] = decision
        if decision.ends_transaction:
            self._end(decision)
            return
        if isinstance(decision.event, Degraded):
            self._fall(decision, decision.event)
            return
        match decision.event:
            case Waiting():
                self._waiting[decision.gang] = decision
            case Proposed() as proposal:
                self._propose(decision, proposal)
            case Repairing() as repairing:
                self._repair(decision, repairing)
            case _:
                return

    def open(self) -> Iterable[OpenTransaction]:
        """Return the open transactions, oldest first."""
        return self._open.values()

    def transaction(self, transaction: TransactionId) -> OpenTransaction | None:
        """Return an open transaction, or None."""
        return self._open.get(transaction)

    def of_gang(self, gang: GangId) -> OpenTransaction | None:
        """Return the gang's open transaction, or None."""
        transaction = self._by_gang.get(gang)
        return None if transaction is None else self._open[transaction]

    def has_ended(self, transaction: TransactionId) -> bool:
        """Tell whether the transaction has ended."""
        return transaction in self._ended

    def waiting(self, gang: GangId) -> Decision | None:
        """Return what was last published about the gang's waiting, unless something else happened since."""
        return self._waiting.get(gang)

    def degraded(self, gang: GangId) -> Decision | None:
        """Return what was last published about the gang being degraded, unless that is over."""
        return self._degraded.get(gang)

    def degraded_gangs(self) -> frozenset[GangId]:
        """Return the gangs that were published as degraded."""
        return frozenset(self._degraded)

    def last_commit(self, gang: GangId) -> Decision | None:
        """Return the last Committed of a gang, or of one of the same name before it."""
        return self._committed.get(gang)

    def last(self, gang: GangId) -> Decision | None:
        """Return the last decision about a gang."""
        return self._last.get(gang)

    def discard(self, transaction: TransactionId) -> None:
        """Drop the last round of a transaction, which was decided here and could not be published."""
        known = self._open.get(transaction)
        if known is not None and known.previous is not None:
            self._open[transaction] = known.previous
            return
        self._open.pop(transaction, None)
        if known is not None:
            self._leave_gang(known)

    def unpublish(self, decision: Decision) -> None:
        """Drop a Waiting or Degraded that was decided here and could not be published."""
        for known in (self._waiting, self._degraded):
            if known.get(decision.gang) == decision:
                del known[decision.gang]

    def forget(self, gang: GangId) -> None:
        """Drop what is remembered of a gang that is gone and has no open transaction."""
        if gang not in self._by_gang:
            self._waiting.pop(gang, None)
            self._last.pop(gang, None)
            self._degraded.pop(gang, None)
            self._committed.pop(gang, None)

    def _propose(self, decision: Decision, proposal: Proposed) -> None:
        known = self._open.get(decision.transaction)
        if decision.transaction in self._ended or (known is not None and known.proposal.round >= proposal.round):
            return
        self._open[decision.transaction] = OpenTransaction(
            id=decision.transaction,
            gang=decision.gang,
            proposed=decision,
            proposal=proposal,
            previous=None if known is None else replace(known, previous=None),
        )
        # The one that was first stays the gang's until it has ended: a second one is refused.
        self._by_gang.setdefault(decision.gang, decision.transaction)
        self._waiting.pop(decision.gang, None)

    def _repair(self, decision: Decision, repairing: Repairing) -> None:
        known = self._open.get(decision.transaction)
        if known is not None and known.repairing != repairing and repairing.round >= known.proposal.round:
            self._open[decision.transaction] = replace(known, repairing=repairing)

    def _end(self, decision: Decision) -> None:
        self._ended[decision.transaction] = None
        if len(self._ended) > MAX_ENDED:
            del self._ended[next(iter(self._ended))]
        ended = self._open.pop(decision.transaction, None)
        if ended is not None:
            self._leave_gang(ended)
        self._waiting.pop(decision.gang, None)
        if isinstance(decision.event, Committed):
            known = self._committed.get(decision.gang)
            if known is None or known.decided_at <= decision.decided_at:
                self._committed[decision.gang] = decision
            self._recover(decision)

    def _fall(self, decision: Decision, event: Degraded) -> None:
        commit = self._committed.get(decision.gang)
        if event.is_over or (commit is not None and commit.decided_at > decision.decided_at):
            self._recover(decision)
        else:
            self._degraded[decision.gang] = decision

    def _recover(self, decision: Decision) -> None:
        known = self._degraded.get(decision.gang)
        if known is not None and known.decided_at <= decision.decided_at:
            del self._degraded[decision.gang]

    def _leave_gang(self, transaction: OpenTransaction) -> None:
        """Note that a transaction is the gang's no more; another that is open takes its place."""
        gang = transaction.gang
        if self._by_gang.get(gang) != transaction.id:
            return
        del self._by_gang[gang]
        other = next((one.id for one in self._open.values() if one.gang == gang), None)
        if other is not None:
            self._by_gang[gang] = other
