"""What is answered about a metric: explicit zeros, errors where nothing is known, and whole groups."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.core.metric_readings import Known, MetricKey, SourceState, Unknown
from services.core.metric_selectors import parse_selector
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler
from services.core.served_metrics import (
    MAX_MILLI,
    MetricNotFound,
    MetricQuery,
    MetricUnavailable,
    ServedItem,
    ServedMetric,
    served_metric,
)
from tests.builders import START
from tests.hpas import external, hpa_manifest

A, B = (MetricKey(name="depth", selector=(("queue", queue),)) for queue in "ab")


def known(value: float) -> SourceState:
    """A source that was read just now."""
    return SourceState(reading=Known(value=value, taken_at=START))


def user(**given: Any) -> Autoscaler:
    """An HPA with the metric A, one for each replica."""
    metrics = given.pop("metrics", (external("depth", each="1", labels={"queue": "a"}),))
    manifest = hpa_manifest(metrics=metrics, **given)
    return replace(
        reduce_autoscaler(manifest | {"metadata": manifest["metadata"] | {"uid": "u", "resourceVersion": "1"}})
    )


def asked(
    selector: str, sources: Mapping[MetricKey, SourceState | None], *users: Autoscaler, later_s: float = 0
) -> ServedMetric:
    """Ask for `depth`."""
    query = MetricQuery(namespace="team-a", name="depth", selector=parse_selector(selector))
    return served_metric(query, sources=sources, users=users, now=START + timedelta(seconds=later_s))


def numbers(answer: ServedMetric) -> list[int]:
    """Thousandths of each item."""
    assert isinstance(answer, tuple), answer
    return [item.milli for item in answer]


def test_an_empty_queue_is_an_explicit_zero() -> None:
    """An empty list would be an error to the HPA, and it could never go to zero."""
    assert asked("queue=a", {A: known(0)}) == (ServedItem(labels=A.selector, milli=0, taken_at=START),)


@pytest.mark.parametrize(("value", "milli"), [(3, 3000), (0.5, 500), (0.0001, 1), (1e30, MAX_MILLI)])
def test_numbers_are_thousandths_rounded_up(value: float, milli: int) -> None:
    """A little work is work, and no number is beyond what the HPA can add up."""
    assert numbers(asked("queue=a", {A: known(value)})) == [milli]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        (None, "has not been read yet"),
        (SourceState(reading=Unknown(why="gave nan, expected a number")), "gave nan, expected a number"),
    ],
)
def test_what_is_unknown_is_an_error(state: SourceState | None, why: str) -> None:
    """Never a number."""
    assert asked("queue=a", {A: state}) == MetricUnavailable(
        message=f"metric depth{{queue=a}} is unknown: its source {why}"
    )


def test_an_old_number_is_unknown() -> None:
    """It says nothing about now."""
    assert isinstance(asked("queue=a", {A: known(0)}, later_s=120.5), MetricUnavailable)


def test_what_nobody_configured_is_not_found() -> None:
    """And what there is, is named."""
    answer = asked("queue=c", {A: known(1)})
    assert isinstance(answer, MetricNotFound)
    assert "no entry of metricSources is depth{queue=c}; there are depth{queue=a}; add one" in answer.message
    assert "with a selector" in str(asked("queue in (c,d)", {A: known(1)}))


def test_several_sources_are_several_items() -> None:
    """In a stable order; but the entry with exactly these labels goes before all that are selected."""
    sources = {B: known(2), A: known(1), MetricKey(name="other"): known(9)}
    assert numbers(asked("queue in (a,b)", sources)) == [1000, 2000]
    assert numbers(asked("", sources)) == [1000, 2000]
    assert numbers(asked("", {**sources, MetricKey(name="depth"): known(5)})) == [5000]


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    """Without that part it would be too small, and replicas would go."""
    assert isinstance(asked("", {A: known(1), B: None}), MetricUnavailable)


@pytest.mark.parametrize(
    ("value", "served"),
    [(0, 0), (1, 4), (4, 4), (5, 8), (12, 12), (13, 12), (1e30, 12)],
)
def test_groups_are_whole(value: float, served: int) -> None:
    """The HPA's ceiling of value / target is a multiple, and never above its maximum."""
    hpa = user(annotations={"phalanx.dev/group-size": "4"}, most=14)
    assert numbers(asked("queue=a", {A: known(value)}, hpa)) == [served * 1000]


def test_a_minimum_is_whole_groups_too() -> None:
    """Three of four would be a part of a group."""
    hpa = user(annotations={"phalanx.dev/group-size": "4"}, least=3)
    assert numbers(asked("queue=a", {A: known(0)}, hpa)) == [4000]


@pytest.mark.parametrize(
    "given",
    [
        {"annotations": {}},
        {"annotations": {"phalanx.dev/group-size": "4"}, "most": 3},
        {"annotations": {"phalanx.dev/group-size": "four"}},
        {
            "annotations": {"phalanx.dev/group-size": "4"},
            "metrics": (external("depth", total="10", labels={"queue": "a"}),),
        },
    ],
)
def test_without_groups_the_number_is_itself(given: dict[str, Any]) -> None:
    """None is asked for, none fits, or the HPA's formula needs what is not known here."""
    assert numbers(asked("queue=a", {A: known(5)}, user(**given))) == [5000]


def test_hpas_that_need_different_numbers_get_the_true_one() -> None:
    """Rounded for one of them it would be wrong for the other."""
    hpa = user(annotations={"phalanx.dev/group-size": "4"})
    assert numbers(asked("queue=a", {A: known(5)}, hpa, user())) == [5000]
    assert numbers(asked("queue=a", {A: known(5)}, hpa, replace(hpa, name="twin"))) == [8000]
