"""Scaling decisions between the core's values and `phalanx.scaling.v1.ScalingDecision`."""

from google.protobuf.message import DecodeError

from services.contracts.cluster_codec import UndecodableMessage
from services.contracts.decision_codec import decode_reasons, encode_reasons
from services.contracts.pb.scaling.v1 import scaling_pb2 as pb
from services.contracts.subjects import SCALING, scaling_subject
from services.contracts.timestamps import TimeOutOfRange, from_timestamp, to_timestamp
from services.core.scaling import Held, Refused, ScalingDecision, Woken

SCALING_EVENTS: dict[type, str] = {Woken: "woken", Held: "held", Refused: "refused"}
"""Token of each event in subjects and CloudEvents types."""


def scaling_decision_subject(decision: ScalingDecision) -> str:
    """Return the bus subject of a scaling decision."""
    return scaling_subject(decision.namespace, hpa=decision.hpa, event=SCALING_EVENTS[type(decision.event)])


def scaling_decision_type(decision: ScalingDecision) -> str:
    """Return the CloudEvents type."""
    return f"{SCALING}.{SCALING_EVENTS[type(decision.event)]}"


def scaling_decision_id(decision: ScalingDecision) -> str:
    """Return the event's id. A repeated publish of the same decision has the same id."""
    moment = f"{decision.decided_at.timestamp():.6f}"
    return f"{decision.namespace}/{decision.hpa}/{SCALING_EVENTS[type(decision.event)]}/{moment}"


def encode_scaling(decision: ScalingDecision) -> bytes:
    """Return a decision as bytes. The same decision always gives the same bytes."""
    message = pb.ScalingDecision(
        namespace=decision.namespace,
        hpa=decision.hpa,
        decided_at=to_timestamp(decision.decided_at),
        epoch=decision.epoch,
    )
    match decision.event:
        case Woken() as event:
            warnings = encode_reasons(event.warnings)
            message.woken.CopyFrom(pb.Woken(replicas=event.replicas, why=event.why, warnings=warnings))
        case Held() as event:
            message.held.CopyFrom(pb.Held(replicas=event.replicas, reasons=encode_reasons(event.reasons)))
        case Refused() as event:
            reasons = encode_reasons(event.reasons)
            message.refused.CopyFrom(pb.Refused(wanted_replicas=event.wanted_replicas, reasons=reasons))
    return message.SerializeToString(deterministic=True)


def decode_scaling(data: bytes) -> ScalingDecision:
    """Return the decision that `data` states. Raises UndecodableMessage."""
    message = pb.ScalingDecision()
    try:
        message.ParseFromString(data)
        decided_at = from_timestamp(message.decided_at)
    except (DecodeError, TimeOutOfRange) as error:
        raise UndecodableMessage(f"expected a phalanx.scaling.v1.ScalingDecision: {error}") from error
    return ScalingDecision(
        namespace=message.namespace,
        hpa=message.hpa,
        decided_at=decided_at,
        event=_event(message),
        epoch=message.epoch,
    )


def _event(message: pb.ScalingDecision) -> Woken | Held | Refused:
    match message.WhichOneof("event"):
        case "woken":
            warnings = decode_reasons(message.woken.warnings)
            return Woken(replicas=message.woken.replicas, why=message.woken.why, warnings=warnings)
        case "held":
            return Held(replicas=message.held.replicas, reasons=decode_reasons(message.held.reasons))
        case "refused":
            wanted, reasons = message.refused.wanted_replicas, decode_reasons(message.refused.reasons)
            return Refused(wanted_replicas=wanted, reasons=reasons)
        case _:
            name = f"{message.namespace}/{message.hpa}"
            raise UndecodableMessage(f"a ScalingDecision about {name!r} carries no event that this release knows")
