"""Transactions between the core's values and `phalanx.binding.v1.Transaction`: entries of the binder's journal.

Versions, profiles and what was tried are left out: after a death they are found anew.
"""

from google.protobuf.message import DecodeError

from services.contracts.allocation_codec import (
    decode_allocations,
    decode_devices,
    encode_allocations,
    encode_devices,
)
from services.contracts.cluster_codec import UndecodableMessage
from services.contracts.decision_codec import (
    decision_message,
    decode_event,
    decode_proposed,
    decode_reasons,
    encode_proposed,
    encode_reasons,
)
from services.contracts.pb.binding.v1 import transaction_pb2 as pb
from services.contracts.timestamps import TimeOutOfRange, from_timestamp, to_timestamp
from services.core.decisions import Assignment, Decision
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.transaction_claims import Claim, claim_key
from services.core.transaction_members import Member
from services.core.transaction_state import Phase, Step, TransactionState
from services.core.transaction_values import Stage

_PHASES = {phase: pb.Phase.Value(f"PHASE_{phase.name}") for phase in Phase}
_STEPS = {step: pb.Step.Value(f"STEP_{step.name}") for step in Step}
_STATES = {stage: pb.MemberState.Value(f"MEMBER_STATE_{stage.name}") for stage in Stage}
_STEPS_BACK = {number: step for step, number in _STEPS.items()}
_STAGES_BACK = {number: stage for stage, number in _STATES.items()}


def encode_transaction(state: TransactionState, *, epoch: int = 0) -> bytes:
    """Return a transaction as bytes."""
    return transaction_message(state, epoch=epoch).SerializeToString(deterministic=True)


def transaction_message(state: TransactionState, *, epoch: int = 0) -> pb.Transaction:
    """Return a transaction as a message."""
    message = pb.Transaction(
        id=state.id,
        gang=state.gang,
        phase=_PHASES[state.phase],  # type: ignore[arg-type]  # stubs call it int
        started_at=to_timestamp(state.started_at),
        deadline=to_timestamp(state.until or state.prepare_until or state.evict_until or state.proposal.deadline),
        min_count=state.min_count,
        round=state.round_handled,
        members=[_encode_member(one) for one in state.members.values()],
        step=_STEPS[state.step],  # type: ignore[arg-type]  # stubs call it int
        proposal=encode_proposed(state.proposal),
        until=None if state.until is None else to_timestamp(state.until),
        round_seen=state.round_seen,
        round_published=state.round_published if state.round_published >= 0 else None,
        is_cautious=state.is_cautious,
        may_have_written=state.may_have_written,
        is_ending=state.is_ending,
        is_keeping=state.is_keeping,
        allows_delete=state.allows_delete,
        beside=state.beside,
        end_reasons=encode_reasons(state.end_reasons),
        epoch=epoch,
        claims=[_encode_claim(one) for one in state.claims.values()],
        prepare_until=None if state.prepare_until is None else to_timestamp(state.prepare_until),
        evict_until=None if state.evict_until is None else to_timestamp(state.evict_until),
    )
    message.proposal.ClearField("assignments")
    message.proposal.ClearField("claims")
    if state.ending is not None:
        # When it was decided is said by its message, not here.
        decision = Decision(
            gang=state.gang, event=state.ending, decided_at=state.started_at, transaction=state.id, epoch=epoch
        )
        message.ending.CopyFrom(decision_message(decision))
    return message


def decode_transaction(data: bytes) -> TransactionState:
    """Return the transaction that `data` states. Raises UndecodableMessage."""
    message = pb.Transaction()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise UndecodableMessage(f"expected a phalanx.binding.v1.Transaction: {error}") from error
    step = _STEPS_BACK.get(message.step)
    if step is None or not message.id or not message.members:
        raise UndecodableMessage(
            f"a Transaction needs id, members and a step that this release knows; got id {message.id!r}, "
            f"{len(message.members)} members, step {message.step}"
        )
    try:
        return _decode(message, step=step)
    except TimeOutOfRange as error:
        raise UndecodableMessage(f"transaction {message.id!r}: {error}") from error


def _decode(message: pb.Transaction, *, step: Step) -> TransactionState:
    members = {Uid(one.uid): _decode_member(one) for one in message.members}
    return TransactionState(
        id=TransactionId(message.id),
        gang=GangId(message.gang),
        proposal=decode_proposed(message.proposal),
        started_at=from_timestamp(message.started_at),
        members=members,
        step=step,
        beside=message.beside,
        allows_delete=message.allows_delete,
        until=from_timestamp(message.until) if message.HasField("until") else None,
        round_seen=message.round_seen,
        round_handled=message.round,
        round_published=message.round_published if message.HasField("round_published") else -1,
        is_cautious=message.is_cautious,
        may_have_written=message.may_have_written,
        is_ending=message.is_ending,
        is_keeping=message.is_keeping,
        ending=decode_event(message.ending) if message.HasField("ending") else None,
        end_reasons=decode_reasons(message.end_reasons),
        claims={claim_key(one.allocation.ref): one for one in map(_decode_claim, message.claims)},
        prepare_until=from_timestamp(message.prepare_until) if message.HasField("prepare_until") else None,
        evict_until=from_timestamp(message.evict_until) if message.HasField("evict_until") else None,
    )


def _encode_member(member: Member) -> pb.Member:
    return pb.Member(
        pod=member.assignment.pod,
        uid=member.assignment.uid,
        node=member.assignment.node,
        state=_STATES[member.stage],  # type: ignore[arg-type]  # stubs call it int
        reason=None if member.reason is None else encode_reasons([member.reason])[0],
        excluded_nodes=sorted(member.excluded_nodes),
        is_in_doubt=member.is_in_doubt,
        is_repaired=member.is_repaired,
        is_without_controller=not member.has_controller,
        is_finished=member.is_finished,
        excluded_devices=encode_devices(member.excluded_devices),
    )


def _decode_member(message: pb.Member) -> Member:
    stage = _STAGES_BACK.get(message.state)
    if stage is None:
        raise UndecodableMessage(
            f"member {message.pod!r} is in state {message.state}, which this release does not know"
        )
    return Member(
        assignment=Assignment(pod=message.pod, uid=Uid(message.uid), node=NodeName(message.node)),
        stage=stage,
        has_controller=not message.is_without_controller,
        excluded_nodes=frozenset(NodeName(node) for node in message.excluded_nodes),
        reason=decode_reasons([message.reason])[0] if message.HasField("reason") else None,
        is_repaired=message.is_repaired,
        is_finished=message.is_finished,
        is_in_doubt=message.is_in_doubt,
        excluded_devices=frozenset(decode_devices(message.excluded_devices)),
    )


def _encode_claim(claim: Claim) -> pb.Claim:
    return pb.Claim(
        allocation=encode_allocations([claim.allocation])[0],
        is_held=claim.is_held,
        is_in_doubt=claim.is_in_doubt,
        is_ready=claim.is_ready,
    )


def _decode_claim(message: pb.Claim) -> Claim:
    return Claim(
        allocation=decode_allocations([message.allocation])[0],
        is_held=message.is_held,
        is_in_doubt=message.is_in_doubt,
        is_ready=message.is_ready,
    )
