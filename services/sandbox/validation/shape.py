"""Decoding by schema: values of the wrong type are refused with 400 before any rule looks at them.

A schema names the fields that the sandbox itself reads; whatever else an object has is kept as it came. Only the
schemas of PodGroup and Workload are complete: there unknown fields are dropped (or refused when asked to be strict),
as the API server does for every kind. `null` is the same as leaving a field out.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from services.core.quantities import QuantityError, parse_quantity
from services.sandbox.failures import bad_request
from services.sandbox.objects import Obj

Schema: TypeAlias = str | Mapping[str, "Schema"] | tuple["Schema"]
"""A Go scalar type, a struct by field (`*` for a map's values), or a one-element tuple for a list."""

ANY_FIELD = "*"

_Check: TypeAlias = Callable[[Any], bool]


def _is_int(limit: int) -> _Check:
    # Not `in range(...)`: there a float would be searched for number by number.
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _is_quantity(value: Any) -> bool:
    try:
        parse_quantity(value, resource="")
    except QuantityError:
        return False
    return True


_CHECKS: Mapping[str, _Check] = {
    "any": lambda _: True,
    "string": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int32": _is_int(2**31),
    "int64": _is_int(2**63),
    "resource.Quantity": _is_quantity,
}


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return f"number {value}"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class _Decoder:
    """One pass over one object; collects the fields that the schema does not know."""

    def __init__(self, *, is_complete: bool) -> None:
        self._is_complete = is_complete
        self.unknown: list[str] = []

    def decode(self, value: Any, *, schema: Schema, path: str) -> Any:
        if isinstance(schema, str):
            if not _CHECKS[schema](value):
                self._refuse(value, path=path, type_=schema)
            return value
        if isinstance(schema, tuple):
            return self._list(value, schema=schema[0], path=path)
        if not isinstance(value, dict):
            self._refuse(value, path=path, type_="struct")
        return self._fields(value, schema=schema, path=path)

    @staticmethod
    def _refuse(value: Any, *, path: str, type_: str) -> None:
        raise bad_request(f"json: cannot unmarshal {_json_type(value)} into Go struct field {path} of type {type_}")

    def _list(self, value: Any, *, schema: Schema, path: str) -> list[Any]:
        if not isinstance(value, list):
            self._refuse(value, path=path, type_="[]struct")
        nothing: Any = "" if isinstance(schema, str) else {}
        return [
            self.decode(nothing if entry is None else entry, schema=schema, path=f"{path}[{index}]")
            for index, entry in enumerate(value)
        ]

    def _fields(self, value: Obj, *, schema: Mapping[str, Schema], path: str) -> Obj:
        decoded: Obj = {}
        every = schema.get(ANY_FIELD)
        for field, inner in value.items():
            known = schema.get(field, every)
            inner_path = f"{path}.{field}" if path else field
            if inner is None:
                continue
            if known is not None:
                decoded[field] = self.decode(inner, schema=known, path=inner_path)
            elif self._is_complete:
                self.unknown.append(inner_path)
            else:
                decoded[field] = inner
        return decoded


def decode(obj: Obj, schema: Mapping[str, Schema], *, is_complete: bool, is_strict: bool) -> Obj:
    """The object as the schema reads it; raises 400 for wrong types, and for unknown fields when strict."""
    decoder = _Decoder(is_complete=is_complete)
    whole: Mapping[str, Schema] = {"kind": "string", "apiVersion": "string", **schema}
    decoded: Obj = decoder.decode(obj, schema=whole, path="")
    if decoder.unknown and is_strict:
        listed = ", ".join(f'unknown field "{field}"' for field in decoder.unknown)
        raise bad_request(f"strict decoding error: {listed}")
    return decoded
