"""Selectors as text: what the HPA's controller writes is read, and nothing else is guessed at."""

import pytest

from services.core.constraints import LabelSelector, NodeRequirement
from services.core.metric_readings import MetricKey
from services.core.metric_selectors import SelectorError, exact_labels, is_selected, parse_selector


def requirement(key: str, operator: str, *values: str) -> NodeRequirement:
    """One requirement."""
    return NodeRequirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("queue=infer", (requirement("queue", "In", "infer"),)),
        ("a==b,example.com/c=", (requirement("a", "In", "b"), requirement("example.com/c", "In", ""))),
        ("a!=b", (requirement("a", "NotIn", "b"),)),
        ("queue in (b,a), x notin ( c )", (requirement("queue", "In", "a", "b"), requirement("x", "NotIn", "c"))),
        ("queue,!old", (requirement("queue", "Exists"), requirement("old", "DoesNotExist"))),
    ],
)
def test_each_form_is_read(text: str, expected: tuple[NodeRequirement, ...]) -> None:
    """Those of `labels.Selector.String()` in apimachinery."""
    assert parse_selector(text) == LabelSelector(requirements=expected)


@pytest.mark.parametrize("text", ["a=b=c", "=b", "a in b", "a,,b", "a=b,", "a>1", "in (a)", "a" * 5000])
def test_what_is_none_is_refused(text: str) -> None:
    """A selector that is half understood would be another metric."""
    with pytest.raises(SelectorError):
        parse_selector(text)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("", {}),
        ("b=2,a=1", {"a": "1", "b": "2"}),
        ("a in (1)", {"a": "1"}),
        ("a in (1,2)", None),
        ("a=1,a=2", None),
        ("!a", None),
    ],
)
def test_what_match_labels_can_say_is_exact(text: str, labels: dict[str, str] | None) -> None:
    """An entry of metricSources has labels only."""
    assert exact_labels(parse_selector(text)) == labels


def test_a_metric_is_selected_by_name_and_labels() -> None:
    """Both."""
    key = MetricKey(name="m", selector=(("queue", "a"),))
    assert is_selected(key, name="m", selector=parse_selector("queue in (a,b)"))
    assert is_selected(key, name="m", selector=parse_selector(""))
    assert not is_selected(key, name="n", selector=parse_selector(""))
    assert not is_selected(key, name="m", selector=parse_selector("queue=b"))
