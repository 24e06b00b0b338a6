"""What `external.metrics.k8s.io` answers about a metric: numbers, or why there are none. Values in, values out.

An empty queue is an explicit 0. What is not known is never a number, because the HPA would act on it: it is an error,
upon which the HPA keeps its replicas.

Where the replicas of a target wake in groups, the number is such that the HPA's own formula, the ceiling of value /
target, lands on whole groups, and stays within what the HPA allows.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction

from services.core.constraints import LabelSelector
from services.core.metric_readings import Known, Labels, MetricKey, SourceState
from services.core.metric_selectors import exact_labels, is_selected
from services.core.reduce_autoscaler import sorted_pairs
from services.core.scaling import Autoscaler, MetricTarget

MAX_MILLI = 10**15
"""Largest number that is served, in thousandths: sums and products of the HPA stay within 64 bits."""

MAX_ITEMS = 256
"""Most sources that are served as one metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuery:
    """What is asked for: a metric, from the HPAs of one namespace."""

    namespace: str
    name: str
    selector: LabelSelector

    def __str__(self) -> str:
        """Return it as people write it."""
        labels = exact_labels(self.selector)
        if labels is None:
            return f"{self.name} with a selector"
        return str(MetricKey(name=self.name, selector=sorted_pairs(labels)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedItem:
    """One number, in thousandths; several are added up by the HPA."""

    labels: Labels
    milli: int
    taken_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricNotFound:
    """No source is configured for it."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricUnavailable:
    """There is a source, and nothing is known of it now."""

    message: str


ServedMetric = tuple[ServedItem, ...] | MetricNotFound | MetricUnavailable


def served_metric(
    query: MetricQuery,
    *,
    sources: Mapping[MetricKey, SourceState | None],
    users: Iterable[Autoscaler],
    now: datetime,
) -> ServedMetric:
    """Return what is answered. `users` are the HPAs of the namespace."""
    keys = selected_keys(query, known=sources)
    if not keys:
        return MetricNotFound(message=_not_found(query, known=sources))
    if len(keys) > MAX_ITEMS:
        return MetricUnavailable(message=f"{query} is {len(keys)} sources, expected at most {MAX_ITEMS}; select fewer")
    items = []
    for key in keys:
        state = sources[key]
        reading = state.at(now) if state is not None else None
        if not isinstance(reading, Known):
            why = "has not been read yet" if reading is None else reading.why
            # One unknown part makes the sum unknown: without it the sum would be too small, and replicas would go.
            return MetricUnavailable(message=f"metric {key} is unknown: its source {why}")
        items.append(ServedItem(labels=key.selector, milli=_milli(reading.value), taken_at=reading.taken_at))
    user = _group_user(keys, users=users)
    if user is None:
        return tuple(items)
    (only,), (autoscaler, target) = items, user
    return (replace(only, milli=in_whole_groups(only.milli, autoscaler=autoscaler, target=target)),)


def selected_keys(query: MetricQuery, *, known: Collection[MetricKey]) -> tuple[MetricKey, ...]:
    """Return the metrics that are meant: the one with exactly these labels, else all whose labels are selected."""
    labels = exact_labels(query.selector)
    if labels is not None and (exact := MetricKey(name=query.name, selector=sorted_pairs(labels))) in known:
        return (exact,)
    found = [key for key in known if is_selected(key, name=query.name, selector=query.selector)]
    return tuple(sorted(found, key=lambda key: key.selector))


def in_whole_groups(milli: int, *, autoscaler: Autoscaler, target: MetricTarget) -> int:
    """Return the thousandths from which an HPA computes whole groups of its target, and not more than it allows.

    Zero stays zero, unless the HPA's minimum is above it.
    """
    size = autoscaler.group_size
    wanted = max(math.ceil(Fraction(milli, target.target_milli)), autoscaler.min_replicas)
    groups = min(math.ceil(Fraction(wanted, size)), autoscaler.max_replicas // size)
    return groups * size * target.target_milli


def _not_found(query: MetricQuery, *, known: Iterable[MetricKey]) -> str:
    same = sorted(str(key) for key in known if key.name == query.name)
    there = f"; there are {', '.join(same[:5])}" if same else ""
    return f"no entry of metricSources is {query}{there}; add one, or correct the metric of the HorizontalPodAutoscaler"


def _milli(value: float) -> int:
    """Return thousandths, rounded up: a little work is work."""
    return min(math.ceil(Fraction(value) * 1000), MAX_MILLI)


def _group_user(keys: Sequence[MetricKey], *, users: Iterable[Autoscaler]) -> tuple[Autoscaler, MetricTarget] | None:
    """Return the HPA whose groups decide on the number: None where there are none, or several with different needs.

    With `Value` targets the HPA multiplies by how many pods are ready, which no number here could foresee.
    """
    found = [
        (one, target)
        for one in users
        for target in one.metrics
        if len(keys) == 1 and target.key == keys[0] and target.is_average and not one.errors
    ]
    needs = {(one.group_size, target.target_milli, one.min_replicas, one.max_replicas) for one, target in found}
    if len(needs) != 1 or not 1 < found[0][0].group_size <= found[0][0].max_replicas:
        return None
    return found[0]
