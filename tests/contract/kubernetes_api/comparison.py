"""Compares expected JSON with an answer: pure functions that list every difference with its path."""

import re
from collections.abc import Iterator, Mapping, Sequence

from tests.contract.kubernetes_api.rows import Call, Contains, Count, Event, Json, Pattern, Text

_MISSING = object()


def at(value: Json, path: str) -> Json:
    """The value at a dotted path (`a.b.0`; a dot inside a key is written `~`); `missing()` tells if it is none."""
    for part in path.split(".") if path else ():
        key = part.replace("~", ".")
        if isinstance(value, Mapping):
            value = value.get(key, _MISSING)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _MISSING
    return value


def is_missing(value: Json) -> bool:
    """Whether `at` found nothing."""
    return value is _MISSING


def differences(expected: Json, actual: Json, *, path: str = "") -> Iterator[str]:
    """What of the expected JSON is not in the actual one."""
    where = path or "answer"
    if isinstance(expected, Text | Pattern | Count):
        yield from _special(expected, actual, where)
    elif isinstance(expected, Contains):
        yield from _contains(expected, actual, where)
    elif isinstance(expected, Mapping):
        if not isinstance(actual, Mapping):
            yield f"{where}: expected an object, got {actual!r}"
            return
        for key, value in expected.items():
            below = f"{path}.{key}" if path else key
            if key in actual:
                yield from differences(value, actual[key], path=below)
            else:
                yield f"{below}: missing, expected {value!r}"
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        yield from _list(expected, actual, where)
    elif type(expected) is not type(actual) or expected != actual:
        yield f"{where}: expected {expected!r}, got {actual!r}"


def _special(expected: Text | Pattern | Count, actual: Json, where: str) -> Iterator[str]:
    match expected:
        case Text(fragment):
            is_met = isinstance(actual, str) and fragment in actual
        case Pattern(regex):
            is_met = isinstance(actual, str) and re.fullmatch(regex, actual) is not None
        case Count(length):
            is_met = isinstance(actual, list) and len(actual) == length
    if not is_met:
        yield f"{where}: expected {expected!r}, got {actual!r}"


def _contains(expected: Contains, actual: Json, where: str) -> Iterator[str]:
    items = actual if isinstance(actual, list) else []
    for wanted in expected:
        if not any(next(differences(wanted, item), None) is None for item in items):
            yield f"{where}: no item like {wanted!r} in {actual!r}"


def _list(expected: Sequence[Json], actual: Json, where: str) -> Iterator[str]:
    if not isinstance(actual, list) or len(actual) != len(expected):
        yield f"{where}: expected {len(expected)} items like {expected!r}, got {actual!r}"
        return
    for index, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
        yield from differences(wanted, got, path=f"{where}[{index}]")


def answer_differences(call: Call, *, code: int, answer: Json) -> Iterator[str]:
    """Where an answer departs from what its call expects."""
    if code != call.code:
        yield f"expected HTTP {call.code}, got {code}"
    if call.reason:
        yield from differences({"kind": "Status", "reason": call.reason, "code": call.code}, answer)
    if call.message:
        yield from differences({"message": Text(call.message)}, answer)
    causes = at(answer, "details.causes")
    for field, reason in call.causes:
        found = causes if isinstance(causes, list) else []
        if not any(cause.get("field") == field and cause.get("reason") == reason for cause in found):
            yield f"no cause {reason} for {field} in {found!r}"
    if call.answer is not None:
        yield from differences(call.answer, answer)
    for path in call.absent:
        if not is_missing(at(answer, path)):
            yield f"{path}: expected to be absent, got {at(answer, path)!r}"


def event_matches(expected: Event, actual: Mapping[str, Json]) -> bool:
    """Whether a watch event is the expected one."""
    wanted: dict[str, Json] = {"type": expected.kind, "object": dict(expected.object or {})}
    if expected.name:
        metadata = dict(wanted["object"].get("metadata", {}))
        wanted["object"]["metadata"] = metadata | {"name": expected.name}
    if next(differences(wanted, actual), None) is not None:
        return False
    return all(is_missing(at(actual, f"object.{path}")) for path in expected.absent)


def missing_events(expected: Sequence[Event], actual: Sequence[Mapping[str, Json]]) -> tuple[Event, ...]:
    """Those expected events, in order, that the actual ones do not contain as a subsequence."""
    remaining = list(expected)
    for event in actual:
        if remaining and event_matches(remaining[0], event):
            remaining.pop(0)
    return tuple(remaining)
