"""Scaling decisions between the core's values and `phalanx.scaling.v1.ScalingDecision`."""

from collections.abc import Mapping

from google.protobuf.message import DecodeError

from services.contracts.cluster_codec import UndecodableMessage
from services.contracts.decision_codec import decode_reasons, encode_reasons
from services.contracts.pb.scaling.v1 import scaling_pb2 as pb
from services.contracts.subjects import SCALING, scaling_subject
from services.contracts.timestamps import TimeOutOfRange, from_timestamp, to_timestamp
from services.core.cold_start import PHASES, Phase
from services.core.scaling import Held, Refused, ScalingDecision, ScalingEvent, Started, Woken

_PHASES: dict[Phase, pb.Phase] = {
    phase: pb.Phase.Value(f"PHASE_{phase.name}")  # type: ignore[misc]  # stubs call it int
    for phase in PHASES
}
_PHASE_OF = {number: phase for phase, number in _PHASES.items()}

SCALING_EVENTS: dict[type, str] = {Woken: "woken", Held: "held", Refused: "refused", Started: "started"}
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
        case Started() as event:
            phases = [pb.PhaseEnd(phase=_PHASES[phase], at_s=at_s) for phase, at_s in sorted_ends(event.ends_s)]
            message.started.CopyFrom(pb.Started(replicas=event.replicas, phases=phases, missing=event.missing))
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


def sorted_ends(ends_s: Mapping[Phase, float]) -> list[tuple[Phase, float]]:
    """Return the ends of phases in the order of the phases."""
    return [(phase, ends_s[phase]) for phase in PHASES if phase in ends_s]


def _started(message: pb.Started) -> Started:
    """A phase of a later release is passed over: the others are as true without it."""
    ends_s = {_PHASE_OF[one.phase]: one.at_s for one in message.phases if one.phase in _PHASE_OF}
    return Started(replicas=message.replicas, ends_s=ends_s, missing=message.missing)


def _event(message: pb.ScalingDecision) -> ScalingEvent:
    match message.WhichOneof("event"):
        case "woken":
            warnings = decode_reasons(message.woken.warnings)
            return Woken(replicas=message.woken.replicas, why=message.woken.why, warnings=warnings)
        case "held":
            return Held(replicas=message.held.replicas, reasons=decode_reasons(message.held.reasons))
        case "refused":
            wanted, reasons = message.refused.wanted_replicas, decode_reasons(message.refused.reasons)
            return Refused(wanted_replicas=wanted, reasons=reasons)
        case "started":
            return _started(message.started)
        case _:
            name = f"{message.namespace}/{message.hpa}"
            raise UndecodableMessage(f"a ScalingDecision about {name!r} carries no event that this release knows")
