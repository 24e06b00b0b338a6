"""The rounds of a transaction: who is a member in each, and what the placer is asked for the next one."""

from dataclasses import replace

from services.core.decisions import OpenMember, Proposed, Repairing
from services.core.objects import Uid
from services.core.reasons import Reason
from services.core.transaction_claims import proposed_claims
from services.core.transaction_members import Member, assigned, newcomer
from services.core.transaction_state import TransactionState
from services.core.transaction_values import Stage


def first_members(proposal: Proposed, *, repairing: Repairing | None, is_in_doubt: bool) -> dict[Uid, Member]:
    """Return the members of a transaction that is taken up, with what `repairing`, if it was published, excludes."""
    open_before = {one.uid: one for one in repairing.open} if repairing is not None else {}
    members: dict[Uid, Member] = {}
    for assignment in proposal.assignments:
        member = newcomer(assignment, is_in_doubt=is_in_doubt)
        known = open_before.get(assignment.uid)
        if known is not None:
            member = replace(
                member,
                is_repaired=True,
                excluded_nodes=frozenset(known.excluded_nodes),
                excluded_devices=frozenset(known.excluded_devices),
            )
        members[assignment.uid] = member
    return members


def with_round(state: TransactionState, proposal: Proposed) -> TransactionState:
    """Adopt the new nodes of members that are not bound; members of the round before that it leaves out are open."""
    members: dict[Uid, Member] = {}
    named = {one.uid for one in proposal.assignments}
    for assignment in proposal.assignments:
        known = state.members.get(assignment.uid)
        members[assignment.uid] = newcomer(assignment) if known is None else assigned(known, assignment)
    for member in state.in_stage(Stage.PROMISED):
        if member.assignment.uid not in named:
            members[member.assignment.uid] = replace(member, stage=Stage.OPEN, reason=None)
    merged = replace(
        # What the transaction rests on stays that of its first round; only where and on what state is new.
        state.proposal,
        revision=proposal.revision,
        assignments=proposal.assignments,
        round=proposal.round,
        claims=proposal.claims,
    )
    return replace(
        state.with_members(members),
        proposal=merged,
        claims=proposed_claims(state.claims, proposal.claims, is_in_doubt=False),
        round_handled=proposal.round,
        is_keeping=False,
    )


def repairing_of(state: TransactionState, *, number: int, because: Reason | None) -> Repairing:
    """Return what is asked of the placer: nodes, and devices, for the members that are open."""
    assert state.until is not None
    return Repairing(
        round=number,
        bound=tuple(one.assignment for one in (*state.in_stage(Stage.BOUND), *state.in_stage(Stage.ACCEPTED))),
        open=tuple(
            OpenMember(
                pod=one.assignment.pod,
                uid=one.assignment.uid,
                excluded_nodes=tuple(sorted(one.excluded_nodes)),
                reason=because or one.reason,
                excluded_devices=tuple(sorted(one.excluded_devices)),
            )
            for one in state.in_stage(Stage.OPEN)
        ),
        until=state.until,
        min_count=state.min_count,
    )
