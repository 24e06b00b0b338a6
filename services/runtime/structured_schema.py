"""The rules of a structured file as a JSON schema, so that editors and pipelines know them without asking us."""

import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import Any, cast

from services.runtime.field_docs import field_docs
from services.runtime.structured_file import Rules, fields_of, is_required, optional_of

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: Mapping[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema(cls: type[object], *, title: str) -> dict[str, Any]:
    """Return the JSON schema of a file; it allows what `structured_file.read` accepts value by value."""
    return {"$schema": DIALECT, "title": title, **_schema(Rules(wanted=cls))}


def _schema(rules: Rules) -> dict[str, Any]:
    inner = optional_of(rules.wanted)
    if inner is not None:
        return {"anyOf": [_schema(Rules(wanted=inner, limits=rules.limits)), {"type": "null"}]}
    if dataclasses.is_dataclass(rules.wanted):
        return _record(cast("type[object]", rules.wanted))
    origin, arguments = typing.get_origin(rules.wanted), typing.get_args(rules.wanted)
    if origin is tuple:
        result: dict[str, Any] = {"type": "array", "items": _schema(Rules(wanted=arguments[0], limits=rules.limits))}
        most = rules.limits.get("maximum_count")
        return result if most is None else {**result, "maxItems": most}
    if origin is Mapping:
        values = _schema(Rules(wanted=arguments[1], limits=rules.limits))
        result = {"type": "object", "additionalProperties": values}
        pattern = rules.limits.get("key_pattern")
        return result if pattern is None else {**result, "propertyNames": {"pattern": pattern}}
    return _scalar(rules)


def _record(cls: type[object]) -> dict[str, Any]:
    docs = field_docs(cls)
    known = fields_of(cls)
    result: dict[str, Any] = {
        "type": "object",
        "description": _in_one_line(inspect.getdoc(cls) or ""),
        "additionalProperties": False,
        "properties": {
            key: {**_schema(rules), "description": _in_one_line(docs.get(item.name, ""))}
            for key, (item, rules) in known.items()
        },
    }
    required = [key for key, (item, _) in known.items() if is_required(item)]
    return {**result, "required": required} if required else result


def _scalar(rules: Rules) -> dict[str, Any]:
    result: dict[str, Any] = {"type": _TYPES[rules.wanted]}
    if rules.wanted is str and "pattern" in rules.limits:
        result["pattern"] = rules.limits["pattern"]
    return result | {key: rules.limits[key] for key in ("minimum", "maximum") if key in rules.limits}


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
