"""The reducer of HorizontalPodAutoscalers: of each only what waking its target needs."""

import re
from collections.abc import Mapping
from typing import Any

from services.core.manifests import condition, integer_at, mapping_at, numbered, text_at, text_mapping_at
from services.core.metric_readings import MetricKey
from services.core.names import (
    CONDITION_SCALED_TO_ZERO,
    CONDITION_WAKING,
    FALLBACK_ANNOTATION,
    FIT_ANNOTATION,
    GROUP_SIZE_ANNOTATION,
    WAKE_ANNOTATION,
)
from services.core.quantities import QuantityError, parse_milli
from services.core.reasons import Reason, ReasonCode
from services.core.scaling import Autoscaler, Fallback, MetricTarget, ShownCondition, TargetRef, WhenItDoesNotFit

MAX_GROUP_SIZE = 4096
_FALLBACK = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
_NUMBER = re.compile(r"[1-9][0-9]{0,3}")


def reduce_autoscaler(manifest: Mapping[str, Any]) -> Autoscaler:
    """Return an autoscaling/v2 HorizontalPodAutoscaler. Raises FieldError where it is none.

    What people wrote into annotations and metrics does not raise: it is told in `errors` and `warnings`.
    """
    metadata = mapping_at(manifest, "metadata", at="metadata")
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    target = mapping_at(spec, "scaleTargetRef", at="spec.scaleTargetRef")
    notes = text_mapping_at(metadata, "annotations", at="metadata.annotations")
    metrics, others, problems = _metrics(spec)
    group_size, errors = _group_size(notes)
    may_wake, of_wake = _may_wake(notes)
    fallback, of_fallback = _fallback(notes)
    when, of_fit = _when_it_does_not_fit(notes)
    return Autoscaler(
        namespace=text_at(metadata, "namespace", at="metadata.namespace"),
        name=text_at(metadata, "name", at="metadata.name"),
        uid=text_at(metadata, "uid", at="metadata.uid"),
        resource_version=text_at(metadata, "resourceVersion", at="metadata.resourceVersion"),
        target=TargetRef(
            api_version=text_at(target, "apiVersion", at="spec.scaleTargetRef.apiVersion"),
            kind=text_at(target, "kind", at="spec.scaleTargetRef.kind"),
            name=text_at(target, "name", at="spec.scaleTargetRef.name"),
        ),
        min_replicas=integer_at(spec, "minReplicas", at="spec.minReplicas", default=1),
        max_replicas=integer_at(spec, "maxReplicas", at="spec.maxReplicas", default=1),
        metrics=metrics,
        other_types=others,
        is_scaled_to_zero=condition(status, CONDITION_SCALED_TO_ZERO).get("status") == "True",
        may_wake=may_wake,
        fallback=fallback,
        group_size=group_size,
        when_it_does_not_fit=when,
        errors=errors,
        warnings=(*of_wake, *of_fallback, *of_fit, *problems),
        shown=_shown(status),
    )


def _metrics(spec: Mapping[str, Any]) -> tuple[tuple[MetricTarget, ...], tuple[str, ...], tuple[Reason, ...]]:
    """Return the External metrics, the types of the others, and what cannot be read of either."""
    metrics, others, problems = [], [], []
    for path, item in numbered(spec, "metrics", at="spec.metrics"):
        kind = text_at(item, "type", at=f"{path}.type")
        if kind != "External":
            others.append(kind)
            continue
        external = mapping_at(item, "external", at=f"{path}.external")
        metric = mapping_at(external, "metric", at=f"{path}.external.metric")
        selector = mapping_at(metric, "selector", at=f"{path}.external.metric.selector")
        if selector.get("matchExpressions"):
            at = f"{path}.external.metric.selector.matchExpressions"
            problems.append(_misconfigured(at, expected="matchLabels only", got="expressions"))
            continue
        labels = text_mapping_at(selector, "matchLabels", at=f"{path}.external.metric.selector.matchLabels")
        target = mapping_at(external, "target", at=f"{path}.external.target")
        is_average = "averageValue" in target
        try:
            milli = parse_milli(target.get("averageValue" if is_average else "value"))
        except QuantityError as error:
            problems.append(_misconfigured(f"{path}.external.target", expected="a positive quantity", got=str(error)))
            continue
        key = MetricKey(name=text_at(metric, "name", at=f"{path}.external.metric.name"), selector=sorted_pairs(labels))
        metrics.append(MetricTarget(key=key, target_milli=milli, is_average=is_average))
    return tuple(metrics), tuple(others), tuple(problems)


def sorted_pairs(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return labels as a value that can be compared and be a key."""
    return tuple(sorted(labels.items()))


def _may_wake(notes: Mapping[str, str]) -> tuple[bool, tuple[Reason, ...]]:
    text = notes.get(WAKE_ANNOTATION, "false")
    if text in {"true", "false"}:
        return text == "true", ()
    return False, (_misconfigured(WAKE_ANNOTATION, expected='"true" or "false"', got=text),)


def _fallback(notes: Mapping[str, str]) -> tuple[Fallback | None, tuple[Reason, ...]]:
    text = notes.get(FALLBACK_ANNOTATION)
    if text is None:
        return None, ()
    match = _FALLBACK.fullmatch(text)
    if match is None:
        expected = "<replicas>/<failures>, such as 2/3, both at least 1"
        return None, (_misconfigured(FALLBACK_ANNOTATION, expected=expected, got=text),)
    return Fallback(replicas=int(match[1]), failures=int(match[2])), ()


def _when_it_does_not_fit(notes: Mapping[str, str]) -> tuple[WhenItDoesNotFit | None, tuple[Reason, ...]]:
    text = notes.get(FIT_ANNOTATION)
    if text is None:
        return None, ()
    try:
        return WhenItDoesNotFit(text), ()
    except ValueError:
        return None, (_misconfigured(FIT_ANNOTATION, expected="create or hold", got=text),)


def _group_size(notes: Mapping[str, str]) -> tuple[int, tuple[Reason, ...]]:
    """Return the pods that wake together. One that cannot be read is an error: half a group would be woken."""
    text = notes.get(GROUP_SIZE_ANNOTATION, "1")
    if _NUMBER.fullmatch(text) is None or int(text) > MAX_GROUP_SIZE:
        expected = f"a whole number from 1 to {MAX_GROUP_SIZE}"
        return 1, (_misconfigured(GROUP_SIZE_ANNOTATION, expected=expected, got=text),)
    return int(text), ()


def _misconfigured(field: str, *, expected: str, got: str) -> Reason:
    message = f"{field}: expected {expected}, got {got[:64]!r}"
    return Reason(code=ReasonCode.MISCONFIGURED, message=message, subject=field)


def _shown(status: Mapping[str, Any]) -> ShownCondition | None:
    found = condition(status, CONDITION_WAKING)
    if not found:
        return None
    return ShownCondition(status=str(found.get("status") or ""), reason=str(found.get("reason") or ""))
