"""The three patch formats: JSON merge patch, strategic merge patch and JSON patch.

Strategic merge is done for the lists that clients of Phalanx patch: those in `MERGE_KEYS` are merged by their key,
with `$patch: delete`, `$patch: replace` and `$deleteFromPrimitiveList/NAME` (finalizers); every other list is
replaced, as in a JSON merge patch. `$setElementOrder` hints are accepted and ignored; `$retainKeys` is not supported.
"""

from collections.abc import Mapping
from typing import Any

import jsonpatch
import orjson

from services.sandbox.failures import ApiError, bad_request
from services.sandbox.objects import Obj

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TYPES = (JSON_PATCH, MERGE, STRATEGIC)

MERGE_KEYS: Mapping[str, str] = {
    "conditions": "type",
    "addresses": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "schedulingGates": "name",
    "podGroupTemplates": "name",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "ownerReferences": "uid",
    "reservedFor": "uid",
}
"""Lists that a strategic patch merges, by the field that identifies an element."""

PRIMITIVE_MERGES = frozenset({"finalizers"})
"""Lists of plain values that a strategic patch adds to."""

_DELETE_PRIMITIVE = "$deleteFromPrimitiveList/"


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        else:
            merged[field] = merge(merged.get(field), value)
    return merged


def _merge_list(target: list[Any], patch: list[Any], *, key: str, field: str) -> list[Any]:
    if any(entry.get("$patch") == "replace" for entry in patch):
        return [entry for entry in patch if entry.get("$patch") != "replace"]
    merged = list(target)
    for entry in patch:
        if key not in entry:
            raise bad_request(f"map: {entry} does not contain declared merge key: {key} (in {field})")
        place = next((index for index, old in enumerate(merged) if old.get(key) == entry[key]), None)
        if entry.get("$patch") == "delete":
            merged = [old for old in merged if old.get(key) != entry[key]]
        elif place is None:
            merged.append(strategic({}, entry))
        else:
            merged[place] = strategic(merged[place], entry)
    return merged


def _merge_field(target: Any, value: Any, *, field: str) -> Any:
    if isinstance(value, dict):
        return strategic(target if isinstance(target, dict) else {}, value)
    if isinstance(value, list) and field in PRIMITIVE_MERGES:
        return [*(target or ()), *(entry for entry in value if entry not in (target or ()))]
    key = MERGE_KEYS.get(field)
    if isinstance(value, list) and key and all(isinstance(entry, dict) for entry in value):
        return _merge_list(list(target or ()), value, key=key, field=field)
    return value


def strategic(target: Obj, patch: Obj) -> Obj:
    """Merge by Kubernetes rules; see the module's text for which lists."""
    if patch.get("$patch") == "replace":
        return {field: value for field, value in patch.items() if field != "$patch"}
    merged = dict(target)
    for field, value in patch.items():
        if field.startswith(_DELETE_PRIMITIVE):
            name = field.removeprefix(_DELETE_PRIMITIVE)
            merged[name] = [entry for entry in merged.get(name) or () if entry not in value]
        elif field.startswith("$"):
            continue
        elif value is None:
            merged.pop(field, None)
        else:
            merged[field] = _merge_field(merged.get(field), value, field=field)
    return merged


def _json_patch(target: Obj, operations: Any) -> Obj:
    if not isinstance(operations, list) or not all(isinstance(one, dict) for one in operations):
        raise bad_request("error decoding patch: expected a list of operations")
    try:
        patched: Obj = jsonpatch.apply_patch(target, operations)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        message = "the server rejected our request due to an error in our request"
        cause = {"reason": "UnexpectedServerResponse", "message": str(error)}
        raise ApiError(422, reason="Invalid", message=message, details={"causes": [cause]}) from error
    return patched


def apply(target: Obj, body: bytes, *, content_type: str) -> Obj:
    """The patched object; `target` must be the caller's own copy. Raises ApiError for patches that do not apply."""
    if content_type not in TYPES:
        accepted = ", ".join((*TYPES, "application/apply-patch+yaml"))
        message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise ApiError(415, reason="UnsupportedMediaType", message=message)
    try:
        patch = orjson.loads(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from error
    if content_type == JSON_PATCH:
        return _json_patch(target, patch)
    if not isinstance(patch, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    merged = merge(target, patch) if content_type == MERGE else strategic(target, patch)
    return dict(merged)
