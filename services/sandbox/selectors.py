"""Label and field selectors of lists and watches, as predicates over objects."""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from services.sandbox.failures import bad_request
from services.sandbox.objects import Obj, metadata

Predicate: TypeAlias = Callable[[Obj], bool]

METADATA_FIELDS = frozenset({"metadata.name", "metadata.namespace"})
"""What every kind can be selected by; a kind that indexes more words its refusals differently."""

_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^()]*)\)\s*$")
_EQUALITY = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s*(?P<op>==|!=|=)\s*(?P<value>[^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<not>!?)\s*(?P<key>[^\s!=,()]+)\s*$")
_TOP_LEVEL_COMMA = re.compile(r",(?![^()]*\))")

_LabelTest: TypeAlias = Callable[[Mapping[str, str]], bool]


def _label_requirement(text: str) -> _LabelTest:
    if found := _SET.match(text):
        key = found["key"]
        values = frozenset(value.strip() for value in found["values"].split(","))
        if found["op"] == "in":
            return lambda labels: key in labels and labels[key] in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUALITY.match(text):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(text):
        key = found["key"]
        if found["not"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(
        f'unable to parse requirement: "{text}": expected key, !key, key=value, key!=value or key in (a,b)'
    )


def label_predicate(text: str) -> Predicate | None:
    """The test that a `labelSelector` names; None where it selects everything."""
    if not text.strip():
        return None
    tests = [_label_requirement(part) for part in _TOP_LEVEL_COMMA.split(text)]

    def matches(obj: Obj) -> bool:
        labels = metadata(obj).get("labels") or {}
        return all(test(labels) for test in tests)

    return matches


def selector_matches(selector: Obj, labels: Mapping[str, str]) -> bool:
    """Whether a `LabelSelector` object (matchLabels, matchExpressions) selects these labels."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], expression.get("values") or ()
        present = key in labels
        verdicts = {
            "In": present and labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": present,
            "DoesNotExist": not present,
        }
        if not verdicts.get(expression["operator"], False):
            return False
    return True


def _field_value(obj: Obj, path: tuple[str, ...]) -> str:
    found: object = obj
    for step in path:
        found = found.get(step) if isinstance(found, dict) else None
    return "" if found is None else str(found)


def _field_requirement(text: str, *, allowed: frozenset[str]) -> Predicate:
    found = _EQUALITY.match(text)
    if not found:
        raise bad_request(f'invalid field selector "{text}": expected field=value or field!=value')
    key, wanted, negated = found["key"], found["value"], found["op"] == "!="
    if key not in allowed:
        raise bad_request(_unknown_field(key, allowed=allowed))
    path = tuple(key.split("."))
    if negated:
        return lambda obj: _field_value(obj, path) != wanted
    return lambda obj: _field_value(obj, path) == wanted


def _unknown_field(key: str, *, allowed: frozenset[str]) -> str:
    if len(allowed) > len(METADATA_FIELDS):
        return f"field label not supported: {key}"
    return f'"{key}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def field_predicate(text: str, *, allowed: frozenset[str]) -> Predicate | None:
    """The test that a `fieldSelector` names, over the fields that the kind indexes; None selects everything."""
    if not text.strip():
        return None
    tests = [_field_requirement(part, allowed=allowed) for part in text.split(",")]
    return lambda obj: all(test(obj) for test in tests)


def both(first: Predicate | None, second: Predicate | None) -> Predicate | None:
    """The conjunction of two optional predicates."""
    if first is None or second is None:
        return first or second
    one, other = first, second
    return lambda obj: one(obj) and other(obj)
