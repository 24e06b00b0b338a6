"""Decoding by a small schema, for kinds whose typed decoding clients can observe.

The API server drops fields that it does not know (or refuses them when asked to be strict) and answers 400 for a
value of the wrong type, before any validation. Kinds without a schema here keep whatever JSON they are given.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from services.sandbox.failures import bad_request
from services.sandbox.objects import Obj

Schema: TypeAlias = str | Mapping[str, "Schema"] | tuple["Schema"]
"""A Go scalar type, a struct by field, a one-element tuple for a list, or `any`."""

_INT32 = range(-(2**31), 2**31)


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return f"number {value}" if abs(value) not in _INT32 else "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _refuse(value: Any, *, path: str, type_: str) -> None:
    raise bad_request(f"json: cannot unmarshal {_json_type(value)} into Go struct field {path} of type {type_}")


def _scalar(value: Any, *, type_: str, path: str) -> Any:
    accepted = {
        "any": True,
        "string": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int32": isinstance(value, int) and not isinstance(value, bool) and value in _INT32,
    }
    if not accepted[type_]:
        _refuse(value, path=path, type_=type_)
    return value


def _list(value: Any, *, schema: Schema, path: str, unknown: list[str]) -> Any:
    if not isinstance(value, list):
        _refuse(value, path=path, type_="[]struct")
    return [
        _decode(entry, schema=schema, path=f"{path}[{index}]", unknown=unknown) for index, entry in enumerate(value)
    ]


def _decode(value: Any, *, schema: Schema, path: str, unknown: list[str]) -> Any:
    if isinstance(schema, str):
        return _scalar(value, type_=schema, path=path)
    if isinstance(schema, tuple):
        return _list(value, schema=schema[0], path=path, unknown=unknown)
    if not isinstance(value, dict):
        _refuse(value, path=path, type_="struct")
    decoded: Obj = {}
    for field, inner in value.items():
        inner_path = f"{path}.{field}" if path else field
        if field not in schema:
            unknown.append(inner_path)
        elif inner is not None:
            decoded[field] = _decode(inner, schema=schema[field], path=inner_path, unknown=unknown)
    return decoded


def decode(obj: Obj, schema: Mapping[str, Schema], *, strict: bool) -> Obj:
    """The object with unknown fields dropped; raises 400 for wrong types, and for unknown fields when strict."""
    unknown: list[str] = []
    decoded = _decode(obj, schema={**schema, "kind": "string", "apiVersion": "string"}, path="", unknown=unknown)
    if unknown and strict:
        listed = ", ".join(f'unknown field "{field}"' for field in unknown)
        raise bad_request(f"strict decoding error: {listed}")
    return dict(decoded)
