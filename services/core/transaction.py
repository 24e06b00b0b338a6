"""One gang bind as a pure state machine: events in, instructions out.

The shell (`services.binder.running`) carries out one instruction at a time and feeds the answer back; everything that
is decided about a transaction is decided here, so that every interleaving of answers, deaths and time can be tested
without a network. Moments are arguments; `due` says when time alone makes a difference.

    examine -> probe -> evict -> claim -> prepare -> bind -> committed
       v         v        v        v         v         v
    refused    repairing (free claims, wait for the next round) -> free claims -> undo -> rolled back
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from services.core.decisions import Committed, Proposed, Refused, Repairing, RolledBack
from services.core.objects import GangId, TransactionId, Uid
from services.core.reasons import Reason
from services.core.transaction_claims import allocated, claiming, freed, freeing, prepared, preparing, proposed_claims
from services.core.transaction_evicting import evicted, evicting
from services.core.transaction_members import (
    Member,
    after_answer,
    after_reading,
    after_removal,
    gone,
    opened,
    reasons_of,
    target_of,
)
from services.core.transaction_reasons import deadline_exceeded, ending_reasons, kept_reason, member_gone
from services.core.transaction_release import released
from services.core.transaction_rounds import first_members, repairing_of, with_round
from services.core.transaction_sharing import given_way, recheck
from services.core.transaction_state import LONG_WAITS, Step, TransactionState
from services.core.transaction_values import (
    Allocate,
    Allocated,
    Answer,
    Bind,
    ClaimVerdict,
    Event,
    Evict,
    Evicted,
    Examine,
    Examined,
    Fence,
    Fenced,
    Followed,
    Freed,
    Instruction,
    Prepare,
    Prepared,
    Probe,
    Probed,
    Publish,
    Published,
    Rechecked,
    Removed,
    Reproposed,
    Stage,
    Ticked,
    Undo,
    Verdict,
    Withdrawn,
    Written,
)

KEPT_PATIENCE = timedelta(seconds=30)
"""Least time between two attempts to end a gang whose pods nobody would recreate."""

_STEP_OF: Mapping[type, Step] = {Evict: Step.EVICTING, Allocate: Step.CLAIMING, Prepare: Step.PREPARING}

Result = tuple[TransactionState, tuple[Instruction, ...]]


def begin(
    transaction: TransactionId,
    *,
    gang: GangId,
    proposal: Proposed,
    at: datetime,
    is_resumed: bool = False,
    is_cautious: bool = False,
    repairing: Repairing | None = None,
) -> Result:
    """Take a transaction up.

    `is_resumed` means that an earlier process may have written already: then nothing is ended before the members were
    read, and late copies of its writes are fenced. `repairing` is the last one that was published. `is_cautious` tries
    every binding as a dry run first, because this gang failed before.
    """
    state = TransactionState(
        id=transaction,
        gang=gang,
        proposal=proposal,
        started_at=at,
        members=first_members(proposal, repairing=repairing, is_in_doubt=is_resumed),
        claims=proposed_claims({}, proposal.claims, is_in_doubt=is_resumed),
        until=repairing.until if repairing is not None else proposal.deadline if proposal.round else None,
        round_seen=proposal.round,
        round_handled=proposal.round,
        round_published=-1 if repairing is None else repairing.round,
        is_cautious=is_cautious or repairing is not None,
        may_have_written=is_resumed,
    )
    return examine(state)


def handle(  # noqa: C901, PLR0911, PLR0912 - one case per event
    state: TransactionState, event: Event, *, now: datetime
) -> Result:
    """Return the state after an event, and what to do next. New instructions replace an outstanding one."""
    if state.step is Step.OVER:
        return state, ()
    match event:
        case Followed():
            return _followed(state, event, now=now)
        case Reproposed(proposal=proposal):
            return _reproposed(state, proposal, now=now)
        case Ticked(problems=problems):
            return _ticked(state, now=now, problems=problems)
        case Examined() if state.step is Step.EXAMINING:
            return _examined(state, event, now=now)
        case Probed(answers=answers) if state.step is Step.PROBING:
            return _probed(state, answers, now=now)
        case Evicted() if state.step is Step.EVICTING:
            state = evicted(state, event)
            return _after_others(state, is_denied=event.is_untouched and state.attainable < state.min_count, now=now)
        case Allocated(answers=given) if state.step is Step.CLAIMING:
            is_denied = ClaimVerdict.FORBIDDEN in {one.verdict for one in given.values()}
            return _after_others(allocated(state, event), is_denied=is_denied, now=now)
        case Prepared() if state.step is Step.PREPARING:
            return _advance(prepared(state, event), now=now)
        case Freed(keys=keys) if state.step is Step.FREEING:
            state = freed(state, keys)
            return end(state, now=now) if state.is_ending else _advance(state, now=now)
        case Written(answers=answers) if state.step is Step.BINDING:
            return _advance(_with_answers(state, answers), now=now)
        case Rechecked() | Withdrawn() if state.step is Step.BINDING:
            state, withdrawals = given_way(state, event)
            return (state, withdrawals) if withdrawals else _advance(state, now=now)
        case Fenced(readings=readings) if state.step is Step.FENCING:
            members = {
                uid: after_reading(state.members[uid], reading, is_fenced=True) for uid, reading in readings.items()
            }
            return _fenced(state.with_members(members), now=now)
        case Removed(removals=removals) if state.step is Step.UNDOING:
            members = {
                # What an earlier process began to take back and is gone now went because of it.
                uid: after_removal(state.members[uid], removal, is_repeated=state.may_have_written)
                for uid, removal in removals.items()
            }
            return _rolled_back(state.with_members(members))
        case Published() if state.step is Step.PUBLISHING:
            return _published(state, now=now)
        case _:
            return state, ()


def due(state: TransactionState) -> datetime | None:
    """Return when a Ticked would change something, or None."""
    match state.step:
        case Step.WAITING:
            return state.until
        case Step.EXAMINING | Step.PROBING if not state.may_have_written:
            return state.until or (None if state.written else state.proposal.deadline)
        case _:
            return None


def examine(state: TransactionState) -> Result:
    """Have the promised members read that are not known yet."""
    members = tuple(one.assignment for one in state.in_stage(Stage.PROMISED) if not one.is_examined)
    return replace(state, step=Step.EXAMINING), (Examine(members=members, revision=state.proposal.revision),)


def _examined(state: TransactionState, event: Examined, *, now: datetime) -> Result:
    members: dict[Uid, Member] = {}
    for uid, reading in event.readings.items():
        member = after_reading(state.members[uid], reading, is_fenced=False)
        misfit = event.misfits.get(uid)
        if misfit is not None and member.stage is Stage.PROMISED:
            member = opened(member, misfit, is_node_excluded=True)
        elif misfit is not None and member.stage is Stage.ACCEPTED:
            member = gone(member, reason=misfit)
        members[uid] = replace(member, is_examined=True, is_shared=member.assignment.node in event.shared)
    state = replace(
        state.with_members(members), beside=event.beside, allows_delete=event.allows_delete, may_have_written=False
    )
    if state.is_first_try and state.attainable < state.min_count:
        return _refuse(state, reasons_of(state.members.values()), now=now)
    return _advance(state, now=now)


def _advance(state: TransactionState, *, now: datetime) -> Result:
    """Do the next thing that the members' stages call for."""
    if state.proposal.is_release:
        return end(released(state), now=now)
    promised = state.in_stage(Stage.PROMISED)
    if promised and state.attainable >= state.min_count:
        return _write(state, promised, now=now)
    if state.counted >= state.min_count and (state.in_stage(Stage.BOUND) or state.in_stage(Stage.ACCEPTED)):
        return _commit(state)
    if state.counted >= state.min_count:
        # Others fill the quorum, and nothing of this transaction could be placed.
        return end(state, now=now)
    return _repair(state, now=now)


def _write(state: TransactionState, promised: tuple[Member, ...], *, now: datetime) -> Result:
    """Go on towards the bindings of the promised members."""
    # What was held up by victims that had to go, or devices that had to become ready, was begun in time.
    is_begun = state.written or state.evict_until is not None or any(one.is_ready for one in state.claims.values())
    if state.until is None and not is_begun and now >= state.proposal.deadline:
        return _refuse(state, (deadline_exceeded(state), *reasons_of(state.members.values())), now=now)
    if any(not one.is_examined for one in promised):
        return examine(state)
    until = max(state.until or state.proposal.deadline, now)
    probes = state.untried(promised)
    if probes:
        return replace(state, step=Step.PROBING), (Probe(targets=tuple(target_of(one) for one in probes), until=until),)
    for wait in (evicting(state, now=now), claiming(state, until=until), preparing(state, now=now)):
        if wait is not None:
            changed, instruction = wait
            return replace(changed, step=_STEP_OF[type(instruction)]), (instruction,)
    return replace(state, step=Step.BINDING), (Bind(targets=tuple(target_of(one) for one in promised), until=until),)


def _commit(state: TransactionState) -> Result:
    doubtful = state.doubtful(Stage.OPEN)
    if doubtful:
        return _fence(state, doubtful)
    again = recheck(state)
    if again is not None:
        return again
    idle = freeing(state, is_final=True)
    if idle is not None:
        return replace(state, step=Step.FREEING), (idle,)
    bound, accepted = state.in_stage(Stage.BOUND), state.in_stage(Stage.ACCEPTED)
    event = Committed(
        members=tuple(one.assignment for one in (*bound, *accepted)),
        repaired=sum(one.is_repaired for one in bound),
        accepted=len(accepted),
        open=len(state.in_stage(Stage.OPEN)),
    )
    return replace(state, step=Step.PUBLISHING, ending=event), (Publish(event=event),)


def _repair(state: TransactionState, *, now: datetime) -> Result:
    """Ask for other nodes, or end where the window is over."""
    until = state.until or now + state.proposal.repair_window
    if now >= until:
        return end(replace(state, until=until), now=now)
    doubtful = state.doubtful(Stage.OPEN)
    if doubtful:
        return _fence(replace(state, until=until), doubtful)
    idle = freeing(state, is_final=False)
    if idle is not None:
        return replace(state, until=until, step=Step.FREEING), (idle,)
    return _ask(replace(state, until=until, is_keeping=False))


def _ask(state: TransactionState, *, because: Reason | None = None) -> Result:
    """Publish Repairing. Its round is one that no earlier one had: a repeated id would not be stored."""
    number = max(state.round_seen, state.round_published + 1)
    event = repairing_of(state, number=number, because=because)
    state = replace(
        state,
        step=Step.PUBLISHING,
        ending=event,
        round_published=number,
        reproposed=None,
        # Something was refused that the dry run of its like had passed: from now on every binding is tried first.
        is_cautious=True,
    )
    return state, (Publish(event=event),)


def end(state: TransactionState, *, now: datetime) -> Result:
    """Give the transaction up: take back what it bound, or refuse where that is nothing."""
    state = replace(state, end_reasons=state.end_reasons or ending_reasons(state, now=now))
    doubtful = state.doubtful(Stage.OPEN, Stage.PROMISED)
    if doubtful:
        return _fence(replace(state, is_ending=True), doubtful)
    idle = freeing(state, is_final=True)
    if idle is not None:
        return replace(state, is_ending=True, step=Step.FREEING), (idle,)
    ours = tuple(one for one in state.in_stage(Stage.BOUND) if not one.is_finished)
    if not ours:
        event = Refused(reasons=state.end_reasons)
        return replace(state, step=Step.PUBLISHING, ending=event), (Publish(event=event),)
    orphans = tuple(one for one in ours if not one.has_controller)
    if orphans and not state.allows_delete:
        until = now + max(state.proposal.repair_window, KEPT_PATIENCE)
        kept = replace(state, until=until, is_keeping=True, is_ending=False, end_reasons=())
        return _ask(kept, because=kept_reason(orphans, of=len(ours)))
    return replace(state, step=Step.UNDOING), (Undo(targets=tuple(target_of(one) for one in ours)),)


def _refuse(state: TransactionState, reasons: tuple[Reason, ...], *, now: datetime) -> Result:
    """End a transaction that wrote nothing, as far as is known."""
    return end(replace(state, end_reasons=reasons), now=now)


def _fence(state: TransactionState, members: tuple[Member, ...]) -> Result:
    return replace(state, step=Step.FENCING), (Fence(targets=tuple(target_of(one) for one in members)),)


def _fenced(state: TransactionState, *, now: datetime) -> Result:
    """Go on after fences. One may have found that a write had won after all, and that enough are bound."""
    if state.is_ending and state.counted < state.min_count:
        return end(state, now=now)
    return _advance(replace(state, is_ending=False, end_reasons=()), now=now)


def _rolled_back(state: TransactionState) -> Result:
    undone = tuple(one.assignment for one in state.in_stage(Stage.UNDONE))
    event = RolledBack(reasons=state.end_reasons, undone=undone)
    return replace(state, step=Step.PUBLISHING, ending=event), (Publish(event=event),)


def _probed(state: TransactionState, answers: Mapping[Uid, Answer], *, now: datetime) -> Result:
    """Go on after dry runs. Where one was refused, admission is fussy about this gang, and every member is tried."""
    verdicts = {one.verdict for one in answers.values()}
    state = _with_answers(replace(state, is_cautious=state.is_cautious or Verdict.REFUSED in verdicts), answers)
    if Verdict.FORBIDDEN in verdicts and state.is_first_try:
        return _refuse(state, reasons_of(state.members.values()), now=now)
    return _advance(state, now=now)


def _after_others(state: TransactionState, *, is_denied: bool, now: datetime) -> Result:
    """Go on after evictions or claims. Where they were denied at once, nothing is asked of the placer."""
    if is_denied and state.is_first_try:
        return _refuse(state, reasons_of(state.members.values()), now=now)
    return _advance(state, now=now)


def _published(state: TransactionState, *, now: datetime) -> Result:
    if not isinstance(state.ending, Repairing):
        return replace(state, step=Step.OVER), ()
    state = replace(state, step=Step.WAITING, ending=None)
    if state.reproposed is not None:
        return _take_round(replace(state, reproposed=None), state.reproposed, now=now)
    return _waited(state, now=now)


def _reproposed(state: TransactionState, proposal: Proposed, *, now: datetime) -> Result:
    """Note a later round; it is taken where it answers the last Repairing, else the next Repairing supersedes it."""
    if proposal.round <= state.round_handled:
        return state, ()
    state = replace(state, round_seen=max(state.round_seen, proposal.round))
    if state.step is Step.WAITING:
        return _take_round(state, proposal, now=now)
    return (replace(state, reproposed=proposal) if state.step is Step.PUBLISHING else state), ()


def _take_round(state: TransactionState, proposal: Proposed, *, now: datetime) -> Result:
    return _advance(with_round(state, proposal), now=now)


def _followed(state: TransactionState, event: Followed, *, now: datetime) -> Result:
    if state.step is Step.UNDOING:
        # What is seen to go now goes because of us; the answer to Undo tells.
        return state, ()
    lost = {
        uid: gone(state.members[uid], reason=member_gone(state.members[uid].assignment))
        for uid in event.lost
        if uid in state.members and state.members[uid].stage not in {Stage.GONE, Stage.UNDONE}
    }
    state = replace(state.with_members(lost), beside=event.beside, allows_delete=event.allows_delete)
    if state.step in LONG_WAITS and lost:
        return _advance(state, now=now)
    return _waited(state, now=now) if state.step is Step.WAITING else (state, ())


def _waited(state: TransactionState, *, now: datetime) -> Result:
    """Go on from waiting where what the cluster shows makes a difference."""
    if state.attainable >= state.min_count and (state.in_stage(Stage.PROMISED) or state.written):
        return _advance(state, now=now)
    if state.is_keeping:
        ours = tuple(one for one in state.in_stage(Stage.BOUND) if not one.is_finished)
        if state.allows_delete or all(one.has_controller for one in ours):
            return end(state, now=now)
    return _ticked(state, now=now)


def _ticked(state: TransactionState, *, now: datetime, problems: tuple[Reason, ...] = ()) -> Result:
    moment = due(state)
    if moment is None or now < moment:
        return state, ()
    if state.until is not None:
        reasons = (*ending_reasons(state, now=now), *problems)
        return end(replace(state, end_reasons=reasons), now=now)
    return _refuse(state, (deadline_exceeded(state), *problems, *reasons_of(state.members.values())), now=now)


def _with_answers(state: TransactionState, answers: Mapping[Uid, Answer]) -> TransactionState:
    members = {uid: after_answer(state.members[uid], answer) for uid, answer in answers.items()}
    return state.with_members(members)
