"""Decisions between the core's values and `phalanx.placement.v1.Decision`."""

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from services.contracts.allocation_codec import (
    decode_allocations,
    decode_devices,
    encode_allocations,
    encode_devices,
)
from services.contracts.cluster_codec import UndecodableMessage
from services.contracts.pb.placement.v1 import decision_pb2 as pb
from services.contracts.pb.placement.v1 import reason_pb2
from services.contracts.subjects import PLACEMENT, placement_subject
from services.contracts.timestamps import TimeOutOfRange, from_duration, from_timestamp, to_duration, to_timestamp
from services.core import decisions as core
from services.core.decisions import Decision
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode

EVENTS: dict[type, str] = {
    core.Proposed: "proposed",
    core.Waiting: "waiting",
    core.Committed: "committed",
    core.Refused: "refused",
    core.RolledBack: "rolled_back",
    core.Repairing: "repairing",
    core.Degraded: "degraded",
}
"""Token of each event in subjects and CloudEvents types."""


def _enum_name(code: ReasonCode) -> str:
    """Return the enum's name in the .proto file: MembersMissing is REASON_CODE_MEMBERS_MISSING."""
    return f"REASON_CODE_{code.name}"


_CODES: dict[ReasonCode, reason_pb2.ReasonCode] = {
    code: reason_pb2.ReasonCode.Value(_enum_name(code))  # type: ignore[misc]  # stubs call it int
    for code in ReasonCode
}
_POLICIES = {
    core.DegradedPolicy.KEEP: pb.DEGRADED_POLICY_KEEP,
    core.DegradedPolicy.RELEASE: pb.DEGRADED_POLICY_RELEASE,
}
_CODES_BACK = {number: code for code, number in _CODES.items()}


def decision_id(decision: Decision) -> str:
    """Return the event's id. A repeated publish of the same decision has the same id."""
    event = decision.event
    if isinstance(event, core.Waiting | core.Degraded):
        return f"{decision.gang}/{EVENTS[type(event)]}/{event.revision}/{decision.decided_at.timestamp():.6f}"
    stage = event.round if isinstance(event, core.Proposed | core.Repairing) else 0
    return f"{decision.transaction}/{EVENTS[type(event)]}/{stage}"


def decision_type(decision: Decision) -> str:
    """Return the CloudEvents type of a decision."""
    return f"{PLACEMENT}.{EVENTS[type(decision.event)]}"


def decision_subject(decision: Decision) -> str:
    """Return the bus subject of a decision."""
    return placement_subject(decision.gang, event=EVENTS[type(decision.event)])


def encode_decision(decision: Decision) -> bytes:
    """Return a decision as bytes. The same decision always gives the same bytes."""
    return decision_message(decision).SerializeToString(deterministic=True)


def decision_message(decision: Decision) -> pb.Decision:
    """Return a decision as a message."""
    message = pb.Decision(
        gang=decision.gang,
        transaction=decision.transaction,
        decided_at=to_timestamp(decision.decided_at),
        epoch=decision.epoch,
    )
    match decision.event:
        case core.Proposed() as event:
            message.proposed.CopyFrom(encode_proposed(event))
        case core.Waiting() as event:
            message.waiting.CopyFrom(
                pb.Waiting(
                    revision=event.revision,
                    min_count=event.min_count,
                    existing=event.existing,
                    placeable=event.placeable,
                    reasons=encode_reasons(event.reasons),
                )
            )
        case core.Committed() as event:
            message.committed.CopyFrom(
                pb.Committed(
                    members=_encode_assignments(event.members),
                    repaired=event.repaired,
                    accepted=event.accepted,
                    open=event.open,
                )
            )
        case core.Refused() as event:
            message.refused.CopyFrom(pb.Refused(reasons=encode_reasons(event.reasons)))
        case core.RolledBack() as event:
            message.rolled_back.CopyFrom(
                pb.RolledBack(
                    reasons=encode_reasons(event.reasons),
                    undone=_encode_assignments(event.undone),
                    kept=_encode_assignments(event.kept),
                )
            )
        case core.Repairing() as event:
            message.repairing.CopyFrom(_encode_repairing(event))
        case core.Degraded() as event:
            message.degraded.CopyFrom(_encode_degraded(event))
    return message


def decode_decision(data: bytes) -> Decision:
    """Return the decision that `data` states. Raises UndecodableMessage."""
    message = pb.Decision()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise UndecodableMessage(f"expected a phalanx.placement.v1.Decision: {error}") from error
    try:
        return Decision(
            gang=GangId(message.gang),
            transaction=TransactionId(message.transaction),
            decided_at=from_timestamp(message.decided_at),
            epoch=message.epoch,
            event=decode_event(message),
        )
    except TimeOutOfRange as error:
        raise UndecodableMessage(f"a Decision about {message.gang!r}: {error}") from error


def read_decision(subject: str, data: bytes) -> Decision:
    """Return the decision that a message of the placement stream states, about the gang of its subject.

    Raises UndecodableMessage also where it names no gang or no transaction: nobody could answer such a decision.
    """
    decision = decode_decision(data)
    try:
        expected = decision_subject(decision)
    except ValueError as error:
        raise UndecodableMessage(str(error)) from error
    if expected != subject:
        raise UndecodableMessage(f"is a decision about {decision.gang}, which has another subject: {expected}")
    if not decision.transaction and not isinstance(decision.event, core.Waiting | core.Degraded):
        raise UndecodableMessage(f"a Decision about {decision.gang} names no transaction")
    return decision


def decode_event(message: pb.Decision) -> core.DecisionEvent:
    """Return what a Decision says happened. Raises UndecodableMessage and TimeOutOfRange."""
    match message.WhichOneof("event"):
        case "proposed":
            return decode_proposed(message.proposed)
        case "waiting":
            return core.Waiting(
                revision=message.waiting.revision,
                min_count=message.waiting.min_count,
                existing=message.waiting.existing,
                placeable=message.waiting.placeable,
                reasons=decode_reasons(message.waiting.reasons),
            )
        case "committed":
            return core.Committed(
                members=_decode_assignments(message.committed.members),
                repaired=message.committed.repaired,
                accepted=message.committed.accepted,
                open=message.committed.open,
            )
        case "refused":
            return core.Refused(reasons=decode_reasons(message.refused.reasons))
        case "rolled_back":
            return core.RolledBack(
                reasons=decode_reasons(message.rolled_back.reasons),
                undone=_decode_assignments(message.rolled_back.undone),
                kept=_decode_assignments(message.rolled_back.kept),
            )
        case "repairing":
            return _decode_repairing(message.repairing)
        case "degraded":
            return _decode_degraded(message.degraded)
        case _:
            raise UndecodableMessage(f"a Decision about {message.gang!r} carries no event that this release knows")


def encode_reasons(reasons: Iterable[Reason]) -> list[reason_pb2.Reason]:
    """Return reasons as messages."""
    return [
        reason_pb2.Reason(
            code=_CODES[reason.code],
            message=reason.message,
            count=reason.count,
            subject=reason.subject,
        )
        for reason in reasons
    ]


def decode_reasons(messages: Iterable[reason_pb2.Reason]) -> tuple[Reason, ...]:
    """Return the reasons that messages state. Raises UndecodableMessage for a code that this release does not know."""
    reasons = []
    for message in messages:
        code = _CODES_BACK.get(message.code)
        if code is None:
            raise UndecodableMessage(f"unknown reason code {message.code}: {message.message!r}")
        reasons.append(Reason(code=code, message=message.message, count=message.count, subject=message.subject))
    return tuple(reasons)


def _encode_assignments(assignments: Iterable[core.Assignment]) -> list[pb.Assignment]:
    return [pb.Assignment(pod=one.pod, uid=one.uid, node=one.node) for one in assignments]


def _decode_assignments(messages: Iterable[pb.Assignment]) -> tuple[core.Assignment, ...]:
    return tuple(core.Assignment(pod=one.pod, uid=Uid(one.uid), node=NodeName(one.node)) for one in messages)


def encode_proposed(event: core.Proposed) -> pb.Proposed:
    """Return a placement as a message."""
    return pb.Proposed(
        revision=event.revision,
        deadline=to_timestamp(event.deadline),
        min_count=event.min_count,
        round=event.round,
        assignments=_encode_assignments(event.assignments),
        already_placed=event.already_placed,
        repair_window=to_duration(event.repair_window),
        release=event.is_release,
        warnings=encode_reasons(event.warnings),
        reopened=event.is_reopened,
        claims=encode_allocations(event.claims),
        victims=[
            pb.Victim(
                namespace=one.namespace,
                pod=one.pod,
                uid=one.uid,
                node=one.node,
                priority=one.priority,
                gang=one.gang,
            )
            for one in event.victims
        ],
    )


def decode_proposed(message: pb.Proposed) -> core.Proposed:
    """Return the placement that a message states. Raises TimeOutOfRange."""
    return core.Proposed(
        revision=message.revision,
        deadline=from_timestamp(message.deadline),
        min_count=message.min_count,
        round=message.round,
        assignments=_decode_assignments(message.assignments),
        already_placed=message.already_placed,
        repair_window=from_duration(message.repair_window),
        is_release=message.release,
        warnings=decode_reasons(message.warnings),
        is_reopened=message.reopened,
        claims=decode_allocations(message.claims),
        victims=tuple(
            core.Victim(
                namespace=one.namespace,
                pod=one.pod,
                uid=Uid(one.uid),
                node=NodeName(one.node),
                priority=one.priority,
                gang=GangId(one.gang),
            )
            for one in message.victims
        ),
    )


def _encode_repairing(event: core.Repairing) -> pb.Repairing:
    return pb.Repairing(
        round=event.round,
        bound=_encode_assignments(event.bound),
        open=[
            pb.OpenMember(
                pod=one.pod,
                uid=one.uid,
                excluded_nodes=one.excluded_nodes,
                reason=None if one.reason is None else encode_reasons([one.reason])[0],
                excluded_devices=encode_devices(one.excluded_devices),
            )
            for one in event.open
        ],
        until=to_timestamp(event.until),
        min_count=event.min_count,
    )


def _decode_repairing(message: pb.Repairing) -> core.Repairing:
    return core.Repairing(
        round=message.round,
        bound=_decode_assignments(message.bound),
        open=tuple(
            core.OpenMember(
                pod=one.pod,
                uid=Uid(one.uid),
                excluded_nodes=tuple(NodeName(node) for node in one.excluded_nodes),
                reason=decode_reasons([one.reason])[0] if one.HasField("reason") else None,
                excluded_devices=decode_devices(one.excluded_devices),
            )
            for one in message.open
        ),
        until=from_timestamp(message.until),
        min_count=message.min_count,
    )


def _encode_degraded(event: core.Degraded) -> pb.Degraded:
    return pb.Degraded(
        revision=event.revision,
        min_count=event.min_count,
        placed=event.placed,
        until=to_timestamp(event.until),
        policy=_POLICIES[event.policy],
        over=event.is_over,
        reasons=encode_reasons(event.reasons),
    )


def _decode_degraded(message: pb.Degraded) -> core.Degraded:
    is_release = message.policy == pb.DEGRADED_POLICY_RELEASE
    return core.Degraded(
        revision=message.revision,
        min_count=message.min_count,
        placed=message.placed,
        until=from_timestamp(message.until),
        policy=core.DegradedPolicy.RELEASE if is_release else core.DegradedPolicy.KEEP,
        is_over=message.over,
        reasons=decode_reasons(message.reasons),
    )
