"""Whether a target that sleeps is woken, and to how many replicas: values in, one verdict out.

The native HorizontalPodAutoscaler scales what runs; this decides only the step from zero. It wakes what the HPA itself
put to sleep (condition `ScaledToZero`), or what is annotated to be woken; a zero that a person set stays. Decided is on
`spec.replicas`, never on how many pods happen to be alive.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fractions import Fraction

from services.core.cold_start import Phase
from services.core.metric_readings import Known, MetricKey, SourceState, Unknown
from services.core.names import FALLBACK_ANNOTATION, GROUP_SIZE_ANNOTATION
from services.core.reasons import Reason, ReasonCode

Sources = Mapping[MetricKey, SourceState | None]
"""State of each configured source, by metric; None before it was read for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTarget:
    """One External metric of an HPA. `target_milli` is thousandths of what one replica is to have (`is_average`)."""

    key: MetricKey
    target_milli: int
    is_average: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fallback:
    """Replicas to start with where a source could not be read that many times in a row."""

    replicas: int
    failures: int


class WhenItDoesNotFit(StrEnum):
    """What a wake does whose pods have no place now."""

    CREATE = "create"
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRef:
    """What an HPA scales, in its own namespace."""

    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        """Return it as people write it: `Deployment/infer`."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCondition:
    """Our condition as the HPA has it: all that is remembered of what was told."""

    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Autoscaler:
    """What matters of an autoscaling/v2 HorizontalPodAutoscaler.

    `other_types` are the types of its metrics that are not External; `errors` keep it from being woken, `warnings` do
    not.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    target: TargetRef
    min_replicas: int
    max_replicas: int
    metrics: tuple[MetricTarget, ...] = ()
    other_types: tuple[str, ...] = ()
    is_scaled_to_zero: bool = False
    may_wake: bool = False
    fallback: Fallback | None = None
    group_size: int = 1
    when_it_does_not_fit: WhenItDoesNotFit | None = None
    errors: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    shown: ShownCondition | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_armed(self) -> bool:
        """Whether it may be woken where it is at zero."""
        return self.is_scaled_to_zero or self.may_wake


class Rest(StrEnum):
    """Why a target is left alone."""

    FOREIGN = "none of its metrics is in metricSources"
    AWAKE = "it has replicas"
    PAUSED = "a person scaled it to zero"
    IDLE = "there is nothing to do for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Woken:
    """A target is to be started from zero. `warnings` are what is known of the place that its pods will need."""

    replicas: int
    why: str
    warnings: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What is known does not allow to change anything: the target keeps its replicas."""

    replicas: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The target cannot be woken, whatever its metrics say; they ask for `wanted_replicas` now."""

    wanted_replicas: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftAlone:
    """Nothing is to be done. `warnings` are worth telling all the same."""

    rest: Rest
    warnings: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The cold start after a wake is over. `ends_s` is when each phase ended, in seconds since the signal.

    `missing` says what had not happened when the watching ended; empty where nothing is missing.
    """

    replicas: int
    ends_s: Mapping[Phase, float]
    missing: str = ""


Verdict = Woken | Held | Refused | LeftAlone
ScalingEvent = Woken | Held | Refused | Started


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingDecision:
    """One message of PHALANX_SCALING. `epoch` is that of who decided; 0 without an election."""

    namespace: str
    hpa: str
    decided_at: datetime
    event: ScalingEvent
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the metrics ask for: never fewer than the replicas that are, while one of them is unknown.

    `is_fallback_due` says that a source has been unknown for as long as the fallback waits, `is_complete` that none is
    unknown or has still to be read.
    """

    replicas: int
    why: str
    unknown: tuple[Reason, ...] = ()
    is_fallback_due: bool = False
    is_complete: bool = True


def asked_for(autoscaler: Autoscaler, *, replicas: int, sources: Sources, now: datetime) -> Asked:
    """Return what the metrics of configured sources ask for beside `replicas`, by the HPA's own formula.

    A number that can be used may raise the count although another is unknown; an unknown one never lowers it.
    """
    most, why = 0, ""
    unknown: list[Reason] = []
    is_due, is_complete = False, True
    for metric in autoscaler.metrics:
        state = sources.get(metric.key)
        if state is None:
            is_complete = is_complete and metric.key not in sources
            continue
        reading = state.at(now)
        if isinstance(reading, Unknown):
            message = f"metric {metric.key} is unknown: its source {reading.why}"
            unknown.append(Reason(code=ReasonCode.METRIC_UNKNOWN, message=message, subject=str(metric.key)))
            is_due = is_due or (autoscaler.fallback is not None and state.failures >= autoscaler.fallback.failures)
            continue
        count = _replicas_for(metric, reading, replicas=replicas, limit=autoscaler.max_replicas)
        if count > most:
            most, why = count, f"{metric.key} is {reading.value:g}"
    return Asked(
        replicas=max(most, min(replicas, autoscaler.max_replicas) if unknown or not is_complete else 0),
        why=why,
        unknown=tuple(unknown),
        is_fallback_due=is_due,
        is_complete=is_complete and not unknown,
    )


def must_disarm(autoscaler: Autoscaler, *, replicas: int) -> bool:
    """Tell whether `ScaledToZero` is a relic: left True on what runs, it would override a person's next zero."""
    return autoscaler.is_scaled_to_zero and replicas > 0


def decide(
    autoscaler: Autoscaler, *, replicas: int, sources: Sources, now: datetime, rivals: tuple[str, ...] = ()
) -> Verdict:
    """Return what is to be done about a target that is asked to have `replicas` now.

    `rivals` are the names of other HPAs with the same target: which of them would be right, nobody can say.
    """
    if not any(metric.key in sources for metric in autoscaler.metrics):
        return LeftAlone(rest=Rest.FOREIGN)
    asked = asked_for(autoscaler, replicas=replicas, sources=sources, now=now)
    if errors := (*autoscaler.errors, *_contradictions(autoscaler, rivals=rivals)):
        return Refused(wanted_replicas=asked.replicas, reasons=errors)
    warnings = (*autoscaler.warnings, *_never_idle(autoscaler))
    if replicas == 0 and not autoscaler.is_armed:
        return LeftAlone(rest=Rest.PAUSED, warnings=warnings)
    woken = _woken(autoscaler, asked) if replicas == 0 else None
    if woken is not None:
        return woken
    if asked.unknown:
        return Held(replicas=replicas, reasons=asked.unknown)
    return LeftAlone(rest=Rest.IDLE if replicas == 0 else Rest.AWAKE, warnings=warnings)


def _woken(autoscaler: Autoscaler, asked: Asked) -> Woken | None:
    """Return the wake of a target that sleeps, or None where nothing asks for one."""
    wanted, why = asked.replicas, asked.why
    if autoscaler.is_scaled_to_zero and asked.is_complete and autoscaler.min_replicas > wanted:
        # Somebody raised the minimum while it slept.
        wanted, why = autoscaler.min_replicas, f"minReplicas is {autoscaler.min_replicas}"
    fallback = autoscaler.fallback
    if asked.is_fallback_due and fallback is not None and fallback.replicas > wanted:
        wanted, why = fallback.replicas, f"{FALLBACK_ANNOTATION}; {asked.unknown[0].message}"
    if not wanted:
        return None
    size = autoscaler.group_size
    whole_groups = math.ceil(max(wanted, autoscaler.min_replicas) / size) * size
    return Woken(replicas=min(whole_groups, autoscaler.max_replicas // size * size), why=why)


def _replicas_for(metric: MetricTarget, reading: Known, *, replicas: int, limit: int) -> int:
    """Return ceil(value / target), of a total `Value` times the replicas there are; clamped before it is an integer."""
    ratio = Fraction(reading.value) * 1000 / metric.target_milli
    if not metric.is_average and replicas:
        ratio *= replicas
    return min(math.ceil(ratio), limit)


def _contradictions(autoscaler: Autoscaler, *, rivals: tuple[str, ...]) -> tuple[Reason, ...]:
    found = []
    if rivals:
        named = ", ".join(rivals)
        message = (
            f"{autoscaler.target} is the target of {named} too; expected one HorizontalPodAutoscaler, remove others"
        )
        found.append(Reason(code=ReasonCode.TARGET_SHARED, message=message, subject=str(autoscaler.target)))
    if autoscaler.max_replicas < autoscaler.group_size:
        message = (
            f"maxReplicas is {autoscaler.max_replicas}, expected at least {autoscaler.group_size}: the size of a group "
            f"in {GROUP_SIZE_ANNOTATION}; raise it"
        )
        found.append(Reason(code=ReasonCode.MAX_BELOW_GROUP, message=message, subject="spec.maxReplicas"))
    return tuple(found)


def _never_idle(autoscaler: Autoscaler) -> tuple[Reason, ...]:
    """Tell that a metric of the pods themselves keeps one of them for ever: the HPA takes the maximum."""
    pods = sorted({one for one in autoscaler.other_types if one in {"Resource", "ContainerResource", "Pods"}})
    if autoscaler.min_replicas or not pods:
        return ()
    message = (
        f"a metric of type {pods[0]} beside External ones keeps one replica while it is above zero; "
        "remove it where the target is to sleep"
    )
    return (Reason(code=ReasonCode.NEVER_IDLE, message=message, subject="spec.metrics"),)
