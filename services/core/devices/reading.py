"""JSON of device objects, in and out."""

import json
from collections.abc import Mapping
from typing import Any

from services.core.manifests import FieldError


def decoded(text: bytes, *, at: str) -> Mapping[str, Any]:
    """Return the object that UTF-8 JSON holds, empty for no text. Raises FieldError."""
    if not text:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(field=at, expected="JSON", got=text[:80]) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldError(field=at, expected="an object", got=value)
    return value


def encoded(value: Mapping[str, Any]) -> bytes:
    """Return an object as UTF-8 JSON, always the same for equal objects."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
