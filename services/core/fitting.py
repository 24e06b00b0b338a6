"""Whether the pods of a wake have a place, and what that changes about it.

Nobody knows better than the placer where pods would go; it is asked on its live state. Its answer is about this moment
and holds nothing, so it never makes a wake: it can only hold one, where that is what people want.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from services.core.reasons import Reason, ReasonCode, summary
from services.core.scaling import Held, TargetRef, WhenItDoesNotFit, Woken

SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """All pods have a place now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoesNotFit:
    """Only `placeable` pods have a place now: too few, or not those that are needed together."""

    placeable: int
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitUnknown:
    """There is no answer. `why` is a sentence that goes on from "the placer"."""

    why: str


Fit = Fits | DoesNotFit | FitUnknown


def after_fit(woken: Woken, *, target: TargetRef, fit: Fit, when: WhenItDoesNotFit) -> Woken | Held:
    """Return the wake as it is to be carried out, or what holds it. What is unknown holds nothing."""
    match fit:
        case Fits():
            return woken
        case FitUnknown(why=why):
            message = f"whether {_replicas(woken.replicas)} of {target} would fit is unknown: the placer {why}"
            reason = Reason(code=ReasonCode.FIT_UNKNOWN, message=message, subject=str(target))
            return replace(woken, warnings=(reason,))
        case DoesNotFit():
            reason = _does_not_fit(fit, target=target, replicas=woken.replicas)
            if when is WhenItDoesNotFit.HOLD:
                return Held(replicas=0, reasons=(reason,))
            return replace(woken, warnings=(reason,))


def _does_not_fit(fit: DoesNotFit, *, target: TargetRef, replicas: int) -> Reason:
    why = summary(tuple(_first_of_each_code(fit.reasons))[:SHOWN_REASONS])
    message = f"{_replicas(replicas)} of {target} would not fit now, {fit.placeable} pods would have a place"
    if why:
        message += f": {why}"
    return Reason(code=ReasonCode.REPLICAS_DO_NOT_FIT, message=message, subject=str(target))


def _replicas(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"


def _first_of_each_code(reasons: Iterable[Reason]) -> Iterable[Reason]:
    """Of many pods that wait alone, each says the same."""
    found: dict[tuple[ReasonCode, str], Reason] = {}
    for reason in reasons:
        found.setdefault((reason.code, reason.subject), reason)
    return found.values()
