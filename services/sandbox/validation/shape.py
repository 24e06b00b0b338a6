"""Decoding by a small schema, for kinds whose typed decoding clients can observe.

The API server drops fields that it does not know (or refuses them when asked to be strict) and answers 400 for a
value of the wrong type, before any validation. Kinds without a schema here keep whatever JSON they are given.
"""

from collections.abc import Callable, Mapping
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


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values())


def _is_list_of(type_: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(entry, type_) for entry in value)


_METADATA_TYPES: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("string", lambda value: isinstance(value, str)),
    "generateName": ("string", lambda value: isinstance(value, str)),
    "namespace": ("string", lambda value: isinstance(value, str)),
    "uid": ("types.UID", lambda value: isinstance(value, str)),
    "resourceVersion": ("string", lambda value: isinstance(value, str)),
    "labels": ("map[string]string", _is_text_map),
    "annotations": ("map[string]string", _is_text_map),
    "finalizers": ("[]string", _is_list_of(str)),
    "ownerReferences": ("[]v1.OwnerReference", _is_list_of(dict)),
}


def wrong_part(obj: Obj) -> str:
    """The first part of any object that has the wrong type, as `FIELD of type TYPE`; empty where all are right."""
    for part in ("metadata", "spec", "status"):
        if not isinstance(obj.get(part), dict | None):
            return f".{part} of type struct"
    for name, (type_, is_right) in _METADATA_TYPES.items():
        value = (obj.get("metadata") or {}).get(name)
        if value is not None and not is_right(value):
            return f".metadata.{name} of type {type_}"
    return ""
