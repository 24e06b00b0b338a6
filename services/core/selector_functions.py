"""The functions that Kubernetes adds to CEL and the engine lacks: one row for each overload.

What they compute is in `services.core.selector_values`; values of ours arrive and leave as pairs of kind and text.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key, partial
from itertools import pairwise
from typing import Any

from services.core import selector_values as values
from services.core.selector_values import SelectorValueError


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One overload: the names of what it takes and gives are those of types in `services.core.selectors`."""

    name: str
    takes: tuple[str, ...]
    gives: str
    does: Callable[..., Any]
    is_member: bool = False


def _member(name: str, *takes: str, gives: str, does: Callable[..., Any]) -> Function:
    return Function(name=name, takes=takes, gives=gives, does=does, is_member=True)


def _plain(name: str, *takes: str, gives: str, does: Callable[..., Any]) -> Function:
    return Function(name=name, takes=takes, gives=gives, does=does)


def _succeeds(make: Callable[..., Any]) -> Callable[..., bool]:
    def tells(*arguments: Any) -> bool:
        try:
            make(*arguments)
        except SelectorValueError:
            return False
        return True

    return tells


def _found(text: str, pattern: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    found = [match.group() for match in _regex(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _first_found(text: str, pattern: str) -> str:
    match = _regex(pattern).search(text)
    return match.group() if match else ""


_PATTERN_LIMIT = 256


def _regex(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that cannot take for ever: RE2 has neither what back-tracks, nor does this let it in."""
    if re.search(r"\\[1-9]|\(\?[=!<]|[*+}][*+?}]?[^|)]*\)[*+{]", pattern) or len(pattern) > _PATTERN_LIMIT:
        raise SelectorValueError("this regular expression is not supported in find and findAll")
    try:
        return re.compile(pattern, re.ASCII)
    except re.error as error:
        raise SelectorValueError(f"no regular expression: {error}") from error


def _keyed(item: Any) -> Any:
    """Return something hashable that is equal where CEL's values are: numbers by amount, never equal to booleans."""
    if isinstance(item, list):
        return ("list", tuple(_keyed(one) for one in item))
    if isinstance(item, dict):
        return ("map", frozenset((_keyed(key), _keyed(value)) for key, value in item.items()))
    if isinstance(item, bool):
        return ("bool", item)
    return ("one", item) if isinstance(item, Hashable) else ("text", repr(item))


def _keys(items: Sequence[Any]) -> list[Any]:
    return [_keyed(one) for one in items]


def _contains(outer: Sequence[Any], inner: Sequence[Any]) -> bool:
    return set(_keys(inner)) <= set(_keys(outer))


def _intersects(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return bool(set(_keys(left)) & set(_keys(right)))


def _are_equivalent(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _ordered(left: Any, right: Any) -> int:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return values.compared(left, right)
    is_number = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (left, right))
    if not is_number and type(left) is not type(right):
        raise SelectorValueError("values of different kinds are not ordered")
    try:
        return int(left > right) - int(left < right)
    except TypeError as error:
        raise SelectorValueError("values of this kind are not ordered") from error


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(_ordered(left, right) <= 0 for left, right in pairwise(items))


def _extreme(items: Sequence[Any], *, sign: int) -> Any:
    if not items:
        raise SelectorValueError("min and max of an empty list are not defined")
    best = items[0]
    for one in items[1:]:
        if _ordered(one, best) * sign > 0:
            best = one
    return best


def _sliced(items: Sequence[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise SelectorValueError(f"cannot slice from {start} to {end} of {len(items)} items")
    return list(items[start:end])


def _flattened(items: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise SelectorValueError("the depth of flatten is at least 0")
    flat: list[Any] = []
    for one in items:
        flat.extend(_flattened(one, depth - 1) if isinstance(one, list) and depth else [one])
    return flat


def _distinct(items: Sequence[Any]) -> list[Any]:
    return list({_keyed(one): one for one in reversed(items)}.values())[::-1]


_RANGE_LIMIT = 10_000


def _range(count: int) -> list[int]:
    if count > _RANGE_LIMIT:
        raise SelectorValueError(f"lists.range makes at most {_RANGE_LIMIT} numbers here")
    return list(range(max(count, 0)))


_COMPARISONS = {
    "isLessThan": lambda left, right: values.compared(left, right) < 0,
    "isGreaterThan": lambda left, right: values.compared(left, right) > 0,
}
_ADDRESS_TESTS = {
    "isUnspecified": "is_unspecified",
    "isLoopback": "is_loopback",
    "isLinkLocalMulticast": "is_link_local_multicast",
    "isLinkLocalUnicast": "is_link_local",
    "isGlobalUnicast": "is_global_unicast",
}
_URL_PARTS = {
    "getScheme": "scheme",
    "getHost": "host",
    "getHostname": "hostname",
    "getPort": "port",
    "getEscapedPath": "path",
}

FUNCTIONS: tuple[Function, ...] = (
    _plain("quantity", "string", gives="scalar", does=values.quantity),
    _plain("isQuantity", "string", gives="bool", does=_succeeds(values.quantity)),
    _plain("semver", "string", gives="scalar", does=values.version),
    _plain("semver", "string", "bool", gives="scalar", does=values.loose_version),
    _plain("isSemver", "string", gives="bool", does=_succeeds(values.version)),
    _plain("isSemver", "string", "bool", gives="bool", does=_succeeds(values.loose_version)),
    _member("compareTo", "scalar", "scalar", gives="int", does=values.compared),
    *(_member(name, "scalar", "scalar", gives="bool", does=does) for name, does in _COMPARISONS.items()),
    _member("add", "scalar", "scalar", gives="scalar", does=values.added),
    _member("add", "scalar", "int", gives="scalar", does=values.added),
    _member("sub", "scalar", "scalar", gives="scalar", does=partial(values.added, sign=-1)),
    _member("sub", "scalar", "int", gives="scalar", does=partial(values.added, sign=-1)),
    _plain("sign", "scalar", gives="int", does=values.sign_of),
    _member("isInteger", "scalar", gives="bool", does=values.is_integer),
    _member("asInteger", "scalar", gives="int", does=values.as_integer),
    _member("asApproximateFloat", "scalar", gives="double", does=values.as_float),
    *(
        _member(name, "scalar", gives="int", does=lambda value, position=position: values.version_part(value, position))
        for position, name in enumerate(("major", "minor", "patch"))
    ),
    _member("find", "string", "string", gives="string", does=_first_found),
    _member("findAll", "string", "string", gives="strings", does=_found),
    _member("findAll", "string", "string", "int", gives="strings", does=_found),
    _plain("sets.contains", "list", "list", gives="bool", does=_contains),
    _plain("sets.intersects", "list", "list", gives="bool", does=_intersects),
    _plain("sets.equivalent", "list", "list", gives="bool", does=_are_equivalent),
    _member("isSorted", "list", gives="bool", does=_is_sorted),
    _member("sum", "list", gives="dyn", does=sum),
    _member("min", "list", gives="dyn", does=partial(_extreme, sign=-1)),
    _member("max", "list", gives="dyn", does=partial(_extreme, sign=1)),
    _member("slice", "list", "int", "int", gives="list", does=_sliced),
    _member("flatten", "list", gives="list", does=_flattened),
    _member("flatten", "list", "int", gives="list", does=_flattened),
    _member("distinct", "list", gives="list", does=_distinct),
    _member("reverse", "list", gives="list", does=lambda items: items[::-1]),
    _member("sort", "list", gives="list", does=lambda items: sorted(items, key=cmp_to_key(_ordered))),
    _plain("lists.range", "int", gives="ints", does=_range),
    _plain("ip", "string", gives="scalar", does=values.address),
    _plain("isIP", "string", gives="bool", does=_succeeds(values.address)),
    _plain("ip.isCanonical", "string", gives="bool", does=values.is_canonical),
    _member("family", "scalar", gives="int", does=values.family),
    *(
        _member(name, "scalar", gives="bool", does=lambda value, what=what: values.address_is(value, what))
        for name, what in _ADDRESS_TESTS.items()
    ),
    _plain("cidr", "string", gives="scalar", does=values.network),
    _plain("isCIDR", "string", gives="bool", does=_succeeds(values.network)),
    _member("containsIP", "scalar", "scalar", gives="bool", does=values.contains),
    _member("containsIP", "scalar", "string", gives="bool", does=values.contains),
    _member("containsCIDR", "scalar", "scalar", gives="bool", does=values.contains),
    _member("containsCIDR", "scalar", "string", gives="bool", does=values.contains),
    _member("ip", "scalar", gives="scalar", does=values.address_of),
    _member("masked", "scalar", gives="scalar", does=values.masked),
    _member("prefixLength", "scalar", gives="int", does=values.prefix_length),
    _plain("url", "string", gives="scalar", does=values.url),
    _plain("isURL", "string", gives="bool", does=_succeeds(values.url)),
    *(
        _member(name, "scalar", gives="string", does=lambda value, what=what: values.url_part(value, what))
        for name, what in _URL_PARTS.items()
    ),
    _member("getQuery", "scalar", gives="query", does=values.url_query),
)
