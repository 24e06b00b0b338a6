"""Reading the API's JSON with clear errors: every value is checked where it is read, and an error names its field.

What is absent or null is read as the empty value, as Go's zero values mean it.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

from services.core.quantities import QuantityError, parse_quantity

INT32_LIMIT = 2**31

_NOTHING: Mapping[str, Any] = {}
_SHOWN_CHARACTERS = 120


class FieldError(ValueError):
    """One field holds something else than it may."""

    def __init__(self, *, field: str, expected: str, got: object) -> None:
        """Keep the parts, so that the caller can name the object around them."""
        super().__init__(f"{field}: expected {expected}, got {shortened(got)}")
        self.field = field
        self.expected = expected
        self.got = got


def shortened(value: object) -> str:
    """Return the value for an error message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def mapping_at(parent: Mapping[str, Any], key: str, *, at: str) -> Mapping[str, Any]:
    """Return the object under `key`; `at` is its path. Raises FieldError."""
    value = parent.get(key)
    if value is None:
        return _NOTHING
    if not isinstance(value, dict):
        raise FieldError(field=at, expected="an object", got=value)
    return value


def objects_at(parent: Mapping[str, Any], key: str, *, at: str) -> Sequence[Mapping[str, Any]]:
    """Return the list of objects under `key`. Raises FieldError."""
    value = parent.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FieldError(field=at, expected="a list of objects", got=value)
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise FieldError(field=f"{at}[{index}]", expected="an object", got=item)
    return value


def text_at(parent: Mapping[str, Any], key: str, *, at: str, default: str = "") -> str:
    """Return the text under `key`, or `default` where it is absent or empty. Raises FieldError."""
    value = parent.get(key)
    if not value and value is not False and value != 0:
        return default
    if not isinstance(value, str):
        raise FieldError(field=at, expected="text", got=value)
    return value


def texts_at(parent: Mapping[str, Any], key: str, *, at: str) -> tuple[str, ...]:
    """Return the list of texts under `key`. Raises FieldError."""
    value = parent.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise FieldError(field=at, expected="a list of texts", got=value)
    return tuple(value)


def text_mapping_at(parent: Mapping[str, Any], key: str, *, at: str) -> Mapping[str, str]:
    """Return the texts by name under `key`. Raises FieldError."""
    value = mapping_at(parent, key, at=at)
    for name, text in value.items():
        if not isinstance(text, str):
            raise FieldError(field=f"{at}[{name}]", expected="text", got=text)
    return value


def integer_at(parent: Mapping[str, Any], key: str, *, at: str, default: int = 0) -> int:
    """Return the 32-bit integer under `key`. Raises FieldError."""
    value = parent.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not -INT32_LIMIT <= value < INT32_LIMIT:
        raise FieldError(field=at, expected="a 32-bit integer", got=value)
    return value


def flag_at(parent: Mapping[str, Any], key: str, *, at: str) -> bool:
    """Return the boolean under `key`, false where it is absent. Raises FieldError."""
    value = parent.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise FieldError(field=at, expected="true or false", got=value)
    return value


def time_at(parent: Mapping[str, Any], key: str, *, at: str) -> datetime | None:
    """Return the RFC 3339 time under `key`. Raises FieldError."""
    value = parent.get(key)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise FieldError(field=at, expected="an RFC 3339 time", got=value) from error
    if moment.tzinfo is None:
        raise FieldError(field=at, expected="an RFC 3339 time with its zone", got=value)
    return moment


def amounts_at(parent: Mapping[str, Any], key: str, *, at: str) -> dict[str, int]:
    """Return the quantities under `key` as amounts by resource. Raises FieldError."""
    value = parent.get(key)
    if not value:
        return {}
    amounts = {}
    for resource, text in mapping_at(parent, key, at=at).items():
        try:
            amounts[resource] = _amount(text, resource)
        except (QuantityError, TypeError) as error:
            raise FieldError(
                field=f"{at}.{resource}", expected="a quantity such as 500m, 8 or 16Gi", got=text
            ) from error
    return amounts


@lru_cache(maxsize=8192, typed=True)
def _amount(text: object, resource: str) -> int:
    """Parse once: a cluster has few distinct quantities, and exact parsing costs more than everything around it."""
    return parse_quantity(text, resource=resource)


def condition(parent: Mapping[str, Any], condition_type: str) -> Mapping[str, Any]:
    """Return the condition of that type from a `status`, or an empty one. Raises FieldError."""
    for item in objects_at(parent, "conditions", at="status.conditions"):
        if item.get("type") == condition_type:
            return item
    return _NOTHING


def numbered(parent: Mapping[str, Any], key: str, *, at: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield path and value of each object of a list. Raises FieldError."""
    for index, item in enumerate(objects_at(parent, key, at=at)):
        yield f"{at}[{index}]", item
