"""Label selectors as text, the way the HPA's controller writes them into a URL: `queue in (a,b),tier=x,!old`."""

import re

from services.core.constraints import LabelSelector, NodeRequirement
from services.core.labels import selects
from services.core.metric_readings import MetricKey

MAX_SELECTOR_LENGTH = 4096
"""Longest text that is read; labels of one metric need far less."""

_KEY = r"[A-Za-z0-9][-A-Za-z0-9_./]*"
_VALUE = r"[-A-Za-z0-9_.]*"
_FORMS = re.compile(
    rf"\s*(?:"
    rf"!\s*(?P<absent>{_KEY})"
    rf"|(?P<key>{_KEY})\s*(?:(?P<operator>==?|!=)\s*(?P<value>{_VALUE})|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?"
    rf")\s*(?:,|$)"
)


class SelectorError(ValueError):
    """Text that is no label selector."""


def parse_selector(text: str) -> LabelSelector:
    """Return the selector that a text means; an empty one selects everything. Raises SelectorError."""
    if len(text) > MAX_SELECTOR_LENGTH:
        raise SelectorError(f"has {len(text)} characters, expected at most {MAX_SELECTOR_LENGTH}")
    requirements, place = [], 0
    while place < len(text):
        found = _FORMS.match(text, place)
        if found is None:
            raise SelectorError(f"expected requirements such as queue=infer, got {text[place : place + 60]!r}")
        requirements.append(_requirement(found))
        place = found.end()
    if text.rstrip().endswith(","):
        raise SelectorError("ends with a comma, expected another requirement")
    return LabelSelector(requirements=tuple(requirements))


def exact_labels(selector: LabelSelector) -> dict[str, str] | None:
    """Return the labels of a selector that states nothing but labels, as `matchLabels` does; None for others."""
    labels: dict[str, str] = {}
    for one in selector.requirements:
        if one.operator != "In" or len(one.values) != 1 or labels.get(one.key, one.values[0]) != one.values[0]:
            return None
        labels[one.key] = one.values[0]
    return labels


def is_selected(key: MetricKey, *, name: str, selector: LabelSelector) -> bool:
    """Tell whether a metric has a name, and its labels are selected."""
    return key.name == name and selects(selector, dict(key.selector))


def _requirement(found: re.Match[str]) -> NodeRequirement:
    if found["absent"]:
        return NodeRequirement(key=found["absent"], operator="DoesNotExist")
    if found["operator"]:
        operator = "NotIn" if found["operator"] == "!=" else "In"
        return NodeRequirement(key=found["key"], operator=operator, values=(found["value"],))
    if found["set"]:
        values = tuple(sorted({value.strip() for value in found["values"].split(",")}))
        return NodeRequirement(key=found["key"], operator="In" if found["set"] == "in" else "NotIn", values=values)
    return NodeRequirement(key=found["key"], operator="Exists")
