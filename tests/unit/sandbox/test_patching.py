"""Patches: what each format does to lists, nulls and keys."""

from typing import Any

import orjson
import pytest

from services.sandbox import patching
from services.sandbox.failures import ApiError

_READY = {"type": "Ready", "status": "True"}
_SCHEDULED = {"type": "PodScheduled", "status": "False"}


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    """Nulls remove, objects merge, lists are replaced."""
    assert patching.merge(target, patch) == expected


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        (
            {"conditions": [_READY, _SCHEDULED]},
            {"conditions": [{"type": "PodScheduled", "status": "True"}]},
            {"conditions": [_READY, {"type": "PodScheduled", "status": "True"}]},
        ),
        ({"conditions": [_READY]}, {"conditions": [_SCHEDULED]}, {"conditions": [_READY, _SCHEDULED]}),
        (
            {"conditions": [_READY, _SCHEDULED]},
            {"conditions": [{"$patch": "delete", "type": "Ready"}]},
            {"conditions": [_SCHEDULED]},
        ),
        (
            {"conditions": [_READY]},
            {"conditions": [{"$patch": "replace"}, _SCHEDULED]},
            {"conditions": [_SCHEDULED]},
        ),
        ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        (
            {"reservedFor": [{"uid": "1", "name": "x"}, {"uid": "2"}]},
            {"reservedFor": [{"$patch": "delete", "uid": "1"}], "$setElementOrder/reservedFor": []},
            {"reservedFor": [{"uid": "2"}]},
        ),
    ],
)
def test_strategic_merge_patch(target: Any, patch: Any, expected: Any) -> None:
    """Keyed lists merge by key, plain ones are replaced, and directives are obeyed."""
    assert patching.strategic(target, patch) == expected


def test_strategic_patch_without_the_merge_key_is_refused() -> None:
    """An element that cannot be matched is an error, not an addition."""
    with pytest.raises(ApiError, match="does not contain declared merge key: type"):
        patching.strategic({"conditions": [_READY]}, {"conditions": [{"status": "True"}]})


def test_failed_json_patch_test_is_invalid() -> None:
    """A JSON patch whose test does not hold changes nothing and is answered 422."""
    patch = orjson.dumps([{"op": "test", "path": "/a", "value": 2}, {"op": "replace", "path": "/a", "value": 3}])
    with pytest.raises(ApiError) as refused:
        patching.apply({"a": 1}, patch, content_type=patching.JSON_PATCH)
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("body", "content_type", "code"),
    [
        (b"{}", "application/apply-patch+yaml", 415),
        (b"{", patching.MERGE, 400),
        (b"[]", patching.MERGE, 400),
        (b'{"op":"add"}', patching.JSON_PATCH, 400),
        (b'[{"op":"jump","path":"/a"}]', patching.JSON_PATCH, 422),
        (b"[1]", patching.JSON_PATCH, 400),
    ],
)
def test_unusable_patches_are_refused(body: bytes, content_type: str, code: int) -> None:
    """Unknown formats and broken documents are refused with the right code."""
    with pytest.raises(ApiError) as refused:
        patching.apply({"a": 1}, body, content_type=content_type)
    assert refused.value.code == code
