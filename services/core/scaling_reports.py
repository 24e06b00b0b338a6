"""What people see of a verdict: our condition on the HPA, and an Event where it is another than before.

The condition is all that is remembered of what was told, so a restart repeats nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from services.core.cold_start import took_s, total_s
from services.core.reasons import ReasonCode, summary
from services.core.scaling import Held, LeftAlone, Refused, ShownCondition, Started, TargetRef, Verdict, Woken

READY = "Ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is to be told. `is_warning` is False where something is over."""

    condition: ShownCondition
    message: str
    is_warning: bool = True


def told_of(verdict: Verdict, *, shown: ShownCondition | None) -> Told | None:
    """Return what is to be told of a verdict beside what is shown already; None where it says the same."""
    told = _told(verdict)
    if told.condition == shown or (shown is None and not told.is_warning):
        return None
    return told


def told_of_start(started: Started, *, target: TargetRef) -> str:
    """Return a sentence about a cold start, with the phase that took longest."""
    took = took_s(started.ends_s)
    longest = max(took, key=lambda phase: took[phase], default=None)
    whole = f"{target} with {started.replicas} replicas: {total_s(started.ends_s):.2f} s since the signal"
    if longest is not None:
        whole += f", of which {longest} {took[longest]:.2f} s"
    return f"{whole}; {started.missing}" if started.missing else whole


def _told(verdict: Verdict) -> Told:
    match verdict:
        case Held(reasons=reasons):
            is_known = any(reason.code is ReasonCode.REPLICAS_DO_NOT_FIT for reason in reasons)
            status = "False" if is_known else "Unknown"
        case Refused(reasons=reasons):
            status = "False"
        case LeftAlone(warnings=reasons) if reasons:
            status = "True"
        case LeftAlone() | Woken():
            condition = ShownCondition(status="True", reason=READY)
            return Told(condition=condition, message="nothing keeps the target from being woken", is_warning=False)
    condition = ShownCondition(status=status, reason=_first(reason.code.value for reason in reasons))
    return Told(condition=condition, message=summary(reasons))


def _first(codes: Iterable[str]) -> str:
    return next(iter(codes), READY)
