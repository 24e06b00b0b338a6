"""Which gangs are tried when, and what is decided: events in, decisions out.

The decider folds both streams and knows why each gang waits, so an event wakes the gangs that it can help, at once
and no others. It never reads a clock: moments are arguments, and `next_due` says when time alone makes a difference.
Decisions take effect here when they are made; `reject` takes one back that could not be published.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from services.core.attention import DecisionPolicy, GangRecord, Outcome, backing_off, transaction_id
from services.core.cluster import Cluster
from services.core.decisions import (
    Decision,
    Degraded,
    DegradedPolicy,
    Proposed,
    Repairing,
    Waiting,
    written_members,
)
from services.core.degraded import release, stand_ins
from services.core.effects import Promise
from services.core.gangs import Gang
from services.core.holding import hold, recall, still_there
from services.core.kin import kin_in
from services.core.ledger import Ledger, OpenTransaction
from services.core.mending import Mending
from services.core.objects import Applied, ClusterChange, GangId, NodeName, Pod, TransactionId, Uid
from services.core.proposing import is_unseen, proposal_of
from services.core.quorum import crowd_reason
from services.core.reasons import Reason
from services.core.rejections import Rejections, is_rejected
from services.core.repairing import HELD, Unplaced, hold_room, next_round, room_for
from services.core.solver import Placement, Refusal
from services.core.trying import Hopeless, try_gang
from services.core.waking import Opening, Wants, is_arrival, is_complete, note_refusal


@dataclass(slots=True, kw_only=True)
class Decider:
    """The placer's mind."""

    policy: DecisionPolicy = field(default_factory=DecisionPolicy)
    cluster: Cluster = field(default_factory=Cluster)
    ledger: Ledger = field(default_factory=Ledger)
    rejections: Rejections = field(init=False)
    mending: Mending = field(init=False)
    _records: dict[GangId, GangRecord] = field(default_factory=dict)
    _awake: set[GangId] = field(default_factory=set)
    _roomier: set[NodeName] = field(default_factory=set)
    _wants: Wants = field(default_factory=Wants)
    _room_cause: str = ""
    #: Members and nodes for which repairs held room when it was decided last.
    _held: frozenset[tuple[Uid, NodeName]] = frozenset()
    _decided_at: datetime | None = None
    _serial: int = 0

    def __post_init__(self) -> None:
        """Take the policy's terms."""
        self.rejections = Rejections(memory=self.policy.rejection_memory, gang_of=self.cluster.gang_id_of)
        self.mending = Mending(terms=self.policy.degraded)

    def observe_change(self, change: ClusterChange, *, revision: int, at: datetime, cause: str = "") -> None:
        """Fold a change of the cluster; `cause` is its trace context."""
        arrives = is_arrival(change, cluster=self.cluster)
        effects = self.cluster.apply(change, revision=revision)
        if isinstance(change, Applied) and isinstance(change.object, Pod):
            recall(self.cluster, ledger=self.ledger, pod=change.object)
            if is_rejected(change.object) and effects.gangs:
                self.rejections.note(change.object, at=at)
        if not arrives:
            self.mending.touch(effects.gangs)
        for pod in effects.moved:
            recall(self.cluster, ledger=self.ledger, pod=pod)
        for gang in effects.gangs:
            record = self._records.setdefault(gang, GangRecord())
            self._awake.add(gang)
            record.cause = cause
            record.doubted_at = None
            if arrives:
                record.note_arrival(change.metadata.uid, at=at, cause=cause)
        if effects.roomier_nodes:
            self._roomier |= effects.roomier_nodes
            self._room_cause = cause
        self._awake |= self._wants.opened(effects)

    def observe_decision(self, decision: Decision, *, at: datetime) -> None:
        """Fold a decision, our own or another's."""
        if self.ledger.has_ended(decision.transaction) and decision.transaction:
            return
        before = self.ledger.transaction(decision.transaction)
        self.ledger.apply(decision)
        if decision.gang not in self._records:
            # Perhaps it is gone, and nothing else will bring it to mind.
            self._records[decision.gang] = GangRecord()
            self._awake.add(decision.gang)
        match decision.event:
            case Proposed():
                after = self.ledger.transaction(decision.transaction)
                if after is not None and after is not before:
                    self._roomier |= hold(
                        self.cluster,
                        after.gang,
                        members=after.held,
                        transaction=after.id,
                        claims=after.proposal.claims,
                    )
            case Repairing() as repairing:
                after = self.ledger.transaction(decision.transaction)
                if after is not before:
                    for member in repairing.open:
                        self._withdraw(member.uid)
            case Waiting() | Degraded():
                return
            case _:
                self._settle_end(decision, before, at=at)
                self.mending.touch({decision.gang})

    def decide(self, now: datetime) -> tuple[Outcome, ...]:
        """Try every gang that something may have helped, repairs first, and return what was decided."""
        if self.cluster.unsynced():
            return ()
        self._follow_clock(now)
        self._awake |= self.rejections.forget(now) & self._records.keys()
        outcomes: list[Outcome] = []
        held: list[Promise] = []
        try:
            for transaction in [one for one in self.ledger.open() if one.repairing is not None]:
                outcomes += self._repair(transaction, held=held, now=now)
            outcomes += self._mend(now, held=held)
            places = frozenset((promise.uid, promise.node) for promise in held)
            # What is held no longer has never been promised, so that no withdrawal tells of it.
            self._roomier |= {node for _, node in self._held - places}
            self._held = places
            outcomes += self._decide_newcomers(now, opening=self._wake_helped())
        finally:
            for promise in held:
                self.cluster.inventory.leave(promise.uid)
            self.cluster.claims.end(HELD)
        return tuple(outcomes)

    def next_due(self, now: datetime) -> datetime | None:
        """Return when a gang is due that nothing but time holds back, or None."""
        if self.cluster.unsynced():
            return None
        due = [moment for gang in self._awake if (moment := self._records[gang].not_before(self.policy)) is not None]
        ahead = [self._records[gang].not_before(self.policy) for gang in self.mending.ahead(now)]
        moments = (*ahead, self.mending.next_due(now), self.rejections.next_due())
        due += [moment for moment in moments if moment is not None and moment > now]
        return max(min(due), now) if due else None

    def adopt(self, policy: DecisionPolicy) -> None:
        """Decide by another policy from now on; where other levels of topology count, every gang is tried by them."""
        self._awake |= self._records.keys() if policy.topology != self.policy.topology else set()
        self.policy = policy

    def reject(self, decision: Decision) -> None:
        """Take a decision back that could not be published, because another placer wrote first."""
        if isinstance(decision.event, Proposed):
            known = self.ledger.transaction(decision.transaction)
            if known is not None and known.proposed == decision:
                self.ledger.discard(decision.transaction)
                before = self.ledger.transaction(decision.transaction)
                held = before.held if before is not None else ()
                for assignment in decision.event.assignments:
                    if assignment not in held:
                        self._withdraw(assignment.uid)
        else:
            self.ledger.unpublish(decision)
            if isinstance(decision.event, Degraded):
                self.mending.take_back(decision.gang)
        self._awake |= {decision.gang} & self._records.keys()

    def answer(self, gang: GangId) -> tuple[Waiting | None, datetime | None]:
        """Return the last answer, and since when its reasons hold; on a standby, that tries none, what was told."""
        record = self._records.get(gang, GangRecord())
        known = self.ledger.waiting(gang) if record.answer is None and gang in self._awake else None
        if known is not None and isinstance(known.event, Waiting):
            return known.event, known.decided_at
        return record.answer, record.since

    @property
    def waiting_count(self) -> int:
        """Number of gangs that wait."""
        answered = self._wants.answered
        return len(answered) + sum(self.answer(gang)[0] is not None for gang in self._awake - answered)

    def records(self) -> Mapping[GangId, GangRecord]:
        """Return what is remembered of each gang; nobody else changes it."""
        return self._records

    def _follow_clock(self, now: datetime) -> None:
        """Where the clock was set back, let nobody wait for it to come to where it was."""
        if self._decided_at is not None and now < self._decided_at:
            for record in self._records.values():
                record.shift(now - self._decided_at)
            self.mending.shift(self._decided_at, now=now)
        self._decided_at = now

    def _decide_newcomers(self, now: datetime, *, opening: Opening) -> list[Outcome]:
        outcomes: list[Outcome] = []
        due: list[tuple[tuple[int, datetime, str], GangId, Gang | None]] = []
        for gang_id in list(self._awake):
            record = self._records[gang_id]
            moment = record.not_before(self.policy)
            if moment is not None and moment > now and not is_complete(self.cluster, gang_id, record=record, now=now):
                outcomes += self._tell_backoff(gang_id, now=now)
                continue
            self._awake.discard(gang_id)
            if (crowd := self.cluster.crowd(gang_id)) and self.ledger.of_gang(gang_id) is None:
                outcomes += self._refuse_crowd(gang_id, crowd=crowd, now=now)
            elif gang_id in opening.gangs and record.order is not None:
                # Nothing else has changed for it: whether it is worth a look is seen when its turn comes.
                due.append((record.order, gang_id, None))
            elif (gang := self._triable(gang_id, now=now)) is not None:
                due.append((gang.order, gang_id, gang))
        for _, gang_id, known in sorted(due, key=lambda one: one[0]):
            if known is None and opening.is_over_for(self._wants.of(gang_id)):
                continue
            gang = known or self._triable(gang_id, now=now)
            tried = self._try(gang, now=now) if gang is not None else []
            if any(isinstance(one.decision.event, Proposed) for one in tried):
                opening.look()
            outcomes += tried
        return outcomes

    def _tell_backoff(self, gang_id: GangId, *, now: datetime) -> list[Outcome]:
        """Say of a gang whose transactions failed when it is tried again."""
        record = self._records[gang_id]
        if record.retry_at is None or record.retry_at <= now or self._is_busy(gang_id, now=now):
            return []
        gang, why = self.cluster.gang(gang_id), backing_off(record, last=self.ledger.last(gang_id))
        return [] if gang is None or not gang.open else self._wait(gang, (why,), placeable=0, now=now)

    def _refuse_crowd(self, gang_id: GangId, *, crowd: int, now: datetime) -> list[Outcome]:
        """Refuse a gang by the number of its pods: at no event it is put together, whatever comes to it."""
        record, reasons = self._records[gang_id], (crowd_reason(crowd),)
        record.first_at = record.least = None
        gang = None if record.has_answer(reasons, existing=crowd) else self.cluster.gang(gang_id, is_crowd=True)
        return [] if gang is None else self._wait(gang, reasons, placeable=0, existing=crowd, now=now)

    def _is_busy(self, gang_id: GangId, *, now: datetime) -> bool:
        return self.ledger.of_gang(gang_id) is not None or self.mending.is_ahead(gang_id, now=now)

    def _triable(self, gang_id: GangId, *, now: datetime) -> Gang | None:
        """Return a gang that has to be tried now, or None."""
        if self._is_busy(gang_id, now=now):
            return None
        record, gang = self._records[gang_id], self.cluster.gang(gang_id)
        if gang is not None and is_unseen(self.cluster, gang):
            return None
        if gang is not None and not gang.open and gang.unverified and record.doubted_at is None:
            record.doubted_at = now  # Mostly the owner, which is followed beside the pods, is but a moment behind.
            self._awake.add(gang_id)
            return None
        if gang is None or not (gang.open or gang.is_short):
            self._rest(gang_id, is_gone=gang is None)
            return None
        return gang

    def _try(self, gang: Gang, *, now: datetime) -> list[Outcome]:
        record = self._records[gang.id]
        record.first_at = None
        snapshot = self.cluster.snapshot(gang.open)
        excluded = self.rejections.excluded(gang.open)
        kin_of = kin_in(self.cluster, is_busy=lambda one: self._is_busy(one, now=now)) if self.policy.preempts else None
        match try_gang(gang, snapshot, excluded_nodes=excluded, topology=self.policy.topology, kin_of=kin_of):
            case Placement() as placement:
                event = proposal_of(gang, placement, cluster=self.cluster, policy=self.policy, now=now)
                return [self._propose(gang.id, self._transaction_id(gang.id, now), event, now=now)]
            case Refusal() as refusal:
                note_refusal(record, gang.open, needed=gang.needed, devices=snapshot.devices)
                return self._wait(gang, refusal.reasons, placeable=refusal.placeable, now=now)
            case Hopeless(reasons=reasons):
                record.least = None
                return self._wait(gang, reasons, placeable=0, now=now)

    def _repair(self, transaction: OpenTransaction, *, held: list[Promise], now: datetime) -> list[Outcome]:
        """Return the next round of a transaction, or hold what could be had of it against newcomers."""
        gang = self.cluster.gang(transaction.gang)
        if transaction.repairing is None or gang is None:
            return []
        match next_round(self.cluster, transaction, gang=gang, rejections=self.rejections, policy=self.policy):
            case Proposed() as proposal:
                return [self._propose(gang.id, transaction.id, proposal, now=now)]
            case Unplaced() as unplaced:
                held += hold_room(self.cluster, unplaced, gang=gang.id, transaction=transaction.id)
        return []

    def _mend(self, now: datetime, *, held: list[Promise]) -> list[Outcome]:
        """Place what is missing of degraded gangs, or hold what could be had of it, and tell what there is to tell."""
        found = self.mending.look(self.cluster, self.ledger, now=now)
        told = [self._tell(gang, event, now=now) for gang, event in found.over]
        return [*told, *(one for gang in found.degraded for one in self._mend_one(gang, now=now, held=held))]

    def _mend_one(self, gang: Gang, *, now: datetime, held: list[Promise]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        moment = self._records[gang.id].not_before(self.policy)
        is_due = moment is None or moment <= now
        fall = self.mending.fall(gang.id)
        if self.mending.is_ahead(gang.id, now=now):
            if gang.open and is_due:
                outcomes += self._try(gang, now=now)
            if self.ledger.of_gang(gang.id) is not None:
                return outcomes
            missing = (*gang.open, *stand_ins(gang))
            rejections, policy = self.rejections, self.policy
            room = room_for(self.cluster, gang=gang, members=missing, rejections=rejections, policy=policy)
            held += hold_room(self.cluster, room, gang=gang.id)
        elif fall is not None and fall.told is not None and fall.told.policy is DegradedPolicy.RELEASE and is_due:
            proposal = release(gang, revision=self.cluster.revision, deadline=now + self.policy.deadline)
            if proposal is not None:
                return [self._propose(gang.id, self._transaction_id(gang.id, now), proposal, now=now)]
        word = self.mending.word(gang, revision=self.cluster.revision, now=now)
        if word is None:
            return outcomes
        self._awake.add(gang.id)  # Where its time is over, it waits as others do.
        return [*outcomes, self._tell(gang.id, word, now=now)]

    def _tell(self, gang: GangId, event: Degraded, *, now: datetime) -> Outcome:
        decision = Decision(gang=gang, event=event, decided_at=now, epoch=self.policy.epoch)
        self.ledger.apply(decision)
        return Outcome(decision=decision, cause=self._records.get(gang, GangRecord()).cause)

    def _transaction_id(self, gang: GangId, now: datetime) -> TransactionId:
        self._serial += 1
        return transaction_id(gang, revision=self.cluster.revision, at=now, serial=self._serial)

    def _propose(self, gang: GangId, transaction: TransactionId, proposal: Proposed, *, now: datetime) -> Outcome:
        decision = Decision(gang=gang, event=proposal, decided_at=now, transaction=transaction, epoch=self.policy.epoch)
        self.observe_decision(decision, at=now)
        record = self._records[gang]
        record.answer, record.since, record.least = None, now, None
        self._wants.note(gang, record)
        links = tuple(link for link in record.links.values() if link and link != record.cause)
        record.links.clear()
        return Outcome(decision=decision, cause=record.cause, links=links)

    def _wait(
        self, gang: Gang, reasons: tuple[Reason, ...], *, placeable: int, now: datetime, existing: int | None = None
    ) -> list[Outcome]:
        record = self._records[gang.id]
        event = Waiting(
            revision=self.cluster.revision,
            min_count=gang.min_count,
            existing=gang.existing if existing is None else existing,
            placeable=placeable,
            reasons=reasons,
        )
        is_told = record.note_answer(event, gang=gang, known=self.ledger.waiting(gang.id), now=now)
        self._wants.note(gang.id, record)
        if is_told:
            return []
        decision = Decision(gang=gang.id, event=event, decided_at=now, epoch=self.policy.epoch)
        self.ledger.apply(decision)
        return [Outcome(decision=decision, cause=record.cause)]

    def _rest(self, gang: GangId, *, is_gone: bool) -> None:
        """A gang with nothing to place needs no attention until one of its objects changes."""
        record = self._records[gang]
        record.answer, record.least = None, None
        self._wants.note(gang, record)
        if is_gone:
            del self._records[gang]
            self.ledger.forget(gang)

    def _settle_end(self, decision: Decision, transaction: OpenTransaction | None, *, at: datetime) -> None:
        """Drop what an ended transaction still holds, and let its gang be tried again."""
        # A bound member's promise ends where the cluster stream shows it; the proposal may be one that was never read.
        written = written_members(decision.event)
        self._roomier |= hold(self.cluster, decision.gang, members=written, transaction=decision.transaction)
        if transaction is None:
            return
        record = self._records[decision.gang]
        bound = {one.uid for one in written}
        for promise in [one for one in self.cluster.promises().values() if one.transaction == decision.transaction]:
            if promise.uid not in bound:
                self._withdraw(promise.uid)
        if self.cluster.claims.end(decision.transaction, kept=still_there(self.cluster, decision.gang, written)):
            self._awake |= self._wants.minding_devices
        record.note_end(decision, is_release=transaction.proposal.is_release, at=at, policy=self.policy)
        self._awake.add(decision.gang)

    def _wake_helped(self) -> Opening:
        """Wake the gangs that wait for room, where the nodes that got some could hold one of their members."""
        opening = Opening(nodes=frozenset(self._roomier), inventory=self.cluster.inventory)
        self._roomier.clear()
        for gang in self._wants.helped(opening):
            self._records[gang].cause = self._room_cause
            if gang not in self._awake:
                opening.gangs.add(gang)
        self._awake |= opening.gangs
        return opening

    def _withdraw(self, uid: Uid) -> None:
        node = self.cluster.withdraw(uid)
        self._roomier |= set() if node is None else {node}
        self._awake |= self._wants.minding_devices if self.cluster.claims.leave([uid]) else set()
