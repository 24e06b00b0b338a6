"""What speaks against a placement before anything is looked up: it is unusable as it stands, or no longer up to date.

The binder refuses such a placement with the reason, and never tries it again. Objections are raised while the stream is
folded, because "no longer" means: at its place in the stream. What depends on the cluster (pods, nodes, free amounts)
is for `services.core.transaction_check` to say.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from services.core.decisions import Decision, Proposed, Refused
from services.core.gangs import MAX_MEMBERS
from services.core.objects import GangId, TransactionId
from services.core.reasons import Reason, ReasonCode
from services.core.transaction import Result
from services.core.transaction_state import Step, TransactionState
from services.core.transaction_values import Publish

LONGEST_DEADLINE = timedelta(hours=2)
"""Farther away than any placer's setting allows: such a placement would hold its place in the queue for no reason."""

EPOCH = "epoch"
"""Subject of the objection that a later leader has decided since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known where a placement stands in the stream.

    `newest_epoch` is the highest of the placers so far, `open_transaction` the one that the gang has open, if any.
    """

    now: datetime
    size_bytes: int
    most_bytes: int
    newest_epoch: int
    open_transaction: TransactionId | None


def objection_to(decision: Decision, proposal: Proposed, *, given: Circumstances) -> Reason | None:
    """Return what speaks against a first round, or None. Later rounds were asked for by the binder."""
    if proposal.round > 0:
        return None
    if proposal.is_reopened:
        # Its epoch is a binder's, and what it names is bound: to refuse it would leave that as it is for ever.
        return None
    return _size(proposal, given=given) or _form(proposal, given=given) or _order(decision, given=given)


def refused(transaction: TransactionId, *, gang: GangId, proposal: Proposed, because: Reason, at: datetime) -> Result:
    """Return a transaction that is refused without being begun. It has no members: nothing was written for them."""
    event = Refused(reasons=(because,))
    state = TransactionState(
        id=transaction,
        gang=gang,
        # Its assignments are what cannot be used, or too many to be kept.
        proposal=replace(proposal, assignments=()),
        started_at=at,
        members={},
        step=Step.PUBLISHING,
        ending=event,
        end_reasons=event.reasons,
    )
    return state, (Publish(event=event),)


def _size(proposal: Proposed, *, given: Circumstances) -> Reason | None:
    count = len(proposal.assignments)
    if count > MAX_MEMBERS:
        text = f"the placement has {count} members, at most {MAX_MEMBERS} can be bound at once; split the gang"
    elif given.size_bytes > given.most_bytes:
        text = f"the placement has {given.size_bytes} bytes, at most {given.most_bytes} are taken; split the gang"
    else:
        return None
    return Reason(code=ReasonCode.GANG_TOO_LARGE, message=text, count=count)


def _form(proposal: Proposed, *, given: Circumstances) -> Reason | None:
    found = next(_flaws(proposal, now=given.now), None)
    if found is None:
        return None
    return Reason(code=ReasonCode.PLACEMENT_MALFORMED, message=f"the placement cannot be used: {found}", count=1)


def _flaws(proposal: Proposed, *, now: datetime) -> Iterator[str]:
    assignments = proposal.assignments
    if not assignments:
        yield "it names no members, expected at least one"
        return
    for one in assignments:
        if not (one.pod and one.uid and one.node):
            yield f"expected pod, uid and node of each member, got {one.pod!r}, {one.uid!r}, {one.node!r}"
    for what, values in (("pod", [one.pod for one in assignments]), ("uid", [str(one.uid) for one in assignments])):
        value, count = Counter(values).most_common(1)[0]
        if count > 1:
            yield f"the {what} {value} stands in it {count} times, expected each member once"
    if proposal.min_count < 1:
        yield f"its min_count is {proposal.min_count}, expected at least 1"
    if proposal.already_placed < 0:
        yield f"its already_placed is {proposal.already_placed}, expected 0 or more"
    if proposal.deadline - now > LONGEST_DEADLINE:
        limit = int(LONGEST_DEADLINE.total_seconds())
        yield f"its deadline {proposal.deadline.isoformat(timespec='seconds')} is more than {limit} s away"


def _order(decision: Decision, *, given: Circumstances) -> Reason | None:
    known = given.open_transaction
    if known is not None and known != decision.transaction:
        text = f"transaction {known} of the gang is open; a gang has one at a time"
        return Reason(code=ReasonCode.PLACEMENT_SUPERSEDED, message=text, subject=known)
    # Epoch 0 is a placer without election; there is one, and nobody to supersede it.
    if 0 < decision.epoch < given.newest_epoch:
        text = f"the placement is of epoch {decision.epoch}, and the placer of epoch {given.newest_epoch} leads since"
        return Reason(code=ReasonCode.PLACEMENT_SUPERSEDED, message=text, subject=EPOCH)
    return None
