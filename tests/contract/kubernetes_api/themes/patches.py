"""The three kinds of patches."""

from tests.contract.kubernetes_api.objects import CONFIG_MAPS, GROUPS, PODS, config_map, group, pod
from tests.contract.kubernetes_api.rows import (
    Call,
    Contains,
    Count,
    Json,
    Row,
    get,
    json_patch,
    merge,
    post,
    strategic,
)

_C = f"{CONFIG_MAPS}/c"
_CREATED = post(
    CONFIG_MAPS, config_map(data={"a": "1", "b": "2"}, labels={"l": "1"}), save={"rv": "metadata.resourceVersion"}
)
_POD = post(PODS, pod())


def _condition(name: str, status: str, **more: Json) -> dict[str, Json]:
    return {"type": name, "status": status, **more}


_SCHEDULED = strategic(
    f"{PODS}/p/status",
    {"status": {"conditions": [_condition("PodScheduled", "False", reason="Unschedulable", message="no room")]}},
)
_GROUP_CONDITION = {
    "type": "PodGroupInitiallyScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "no room",
    "lastTransitionTime": "2026-12-01T00:00:00Z",
}

ROWS = (
    Row(
        name="merge-patch-sets-and-removes",
        setup=(_CREATED,),
        calls=(
            merge(
                _C,
                {"data": {"a": None, "c": "3"}, "metadata": {"labels": {"l": None}}},
                answer={"data": {"b": "2", "c": "3"}},
                absent=("data.a", "metadata.labels"),
            ),
        ),
    ),
    Row(
        name="merge-patch-guarded-by-version",
        setup=(_CREATED, merge(_C, {"data": {"a": "between"}})),
        calls=(
            merge(
                _C,
                {"metadata": {"resourceVersion": "$rv"}, "data": {"a": "late"}},
                code=409,
                reason="Conflict",
                message="the object has been modified",
            ),
        ),
    ),
    Row(
        name="merge-patch-guarded-by-uid",
        setup=(_CREATED,),
        calls=(
            merge(
                _C,
                {"metadata": {"uid": "11111111-1111-1111-1111-111111111111"}, "data": {"a": "x"}},
                code=422,
                reason="Invalid",
                causes=(("metadata.uid", "FieldValueInvalid"),),
                message="field is immutable",
            ),
        ),
    ),
    Row(
        name="merge-patch-missing-object",
        calls=(merge(f"{CONFIG_MAPS}/none", {"data": {}}, code=404, reason="NotFound"),),
    ),
    Row(
        name="merge-patch-replaces-lists",
        setup=(_POD, _SCHEDULED),
        calls=(
            merge(
                f"{PODS}/p/status",
                {"status": {"conditions": [_condition("Other", "True")]}},
                answer={"status": {"conditions": [{"type": "Other"}]}},
            ),
        ),
    ),
    Row(
        name="json-patch-test-passes",
        setup=(_CREATED,),
        calls=(
            json_patch(
                _C,
                [
                    {"op": "test", "path": "/data/a", "value": "1"},
                    {"op": "replace", "path": "/data/a", "value": "9"},
                    {"op": "add", "path": "/metadata/labels/x.y~1z", "value": "v"},
                ],
                answer={"data": {"a": "9", "b": "2"}, "metadata": {"labels": {"x.y/z": "v"}}},
            ),
        ),
    ),
    Row(
        name="json-patch-test-fails",
        setup=(_CREATED,),
        calls=(
            json_patch(
                _C,
                [
                    {"op": "test", "path": "/data/a", "value": "other"},
                    {"op": "replace", "path": "/data/a", "value": "9"},
                ],
                code=422,
                reason="Invalid",
            ),
            get(_C, answer={"data": {"a": "1"}}),
        ),
    ),
    Row(
        name="json-patch-bad-path",
        setup=(_CREATED,),
        calls=(json_patch(_C, [{"op": "remove", "path": "/data/none"}], code=422, reason="Invalid"),),
    ),
    Row(
        name="json-patch-guarded-by-version",
        setup=(_CREATED, merge(_C, {"data": {"a": "between"}})),
        calls=(
            json_patch(
                _C,
                [
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": "$rv"},
                    {"op": "replace", "path": "/data/a", "value": "late"},
                ],
                code=409,
                reason="Conflict",
            ),
        ),
    ),
    Row(
        name="strategic-patch-merges-pod-conditions",
        setup=(_POD, _SCHEDULED),
        calls=(
            strategic(
                f"{PODS}/p/status",
                {"status": {"conditions": [_condition("phalanx.dev/Held", "True")]}},
                answer={
                    "status": {
                        "conditions": Contains(
                            [
                                {"type": "PodScheduled", "reason": "Unschedulable"},
                                {"type": "phalanx.dev/Held"},
                            ]
                        )
                    }
                },
            ),
            strategic(
                f"{PODS}/p/status",
                {"status": {"conditions": [_condition("PodScheduled", "True", reason="")]}},
                answer={
                    "status": {
                        "conditions": Contains([{"type": "PodScheduled", "status": "True", "message": "no room"}])
                    }
                },
            ),
        ),
    ),
    Row(
        name="strategic-patch-merges-group-conditions",
        setup=(
            post(GROUPS, group()),
            strategic(f"{GROUPS}/g/status", {"status": {"conditions": [_GROUP_CONDITION]}}),
        ),
        calls=(
            strategic(
                f"{GROUPS}/g/status",
                {"status": {"conditions": [_GROUP_CONDITION | {"type": "phalanx.dev/Repairing"}]}},
                answer={"status": {"conditions": Count(2)}},
            ),
            strategic(
                f"{GROUPS}/g/status",
                {"status": {"conditions": [_GROUP_CONDITION | {"status": "True", "reason": "Scheduled"}]}},
                answer={
                    "status": {
                        "conditions": Contains(
                            [{"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}]
                        )
                    }
                },
            ),
        ),
    ),
    Row(
        name="strategic-patch-deletes-a-condition",
        setup=(_POD, _SCHEDULED),
        calls=(
            strategic(
                f"{PODS}/p/status",
                {"status": {"conditions": [{"$patch": "delete", "type": "PodScheduled"}]}},
                absent=("status.conditions",),
            ),
        ),
    ),
    Row(
        name="patch-unknown-type",
        setup=(_CREATED,),
        calls=(
            Call(
                verb="PATCH",
                path=_C,
                body={"data": {}},
                content_type="application/json",
                code=415,
                reason="UnsupportedMediaType",
            ),
        ),
    ),
    Row(
        name="patch-that-is-no-json",
        setup=(_CREATED,),
        calls=(merge(_C, "text", code=400, reason="BadRequest"),),
    ),
    Row(
        name="patch-cannot-change-name",
        setup=(_CREATED,),
        calls=(merge(_C, {"metadata": {"name": "renamed"}}, code=400, reason="BadRequest"),),
    ),
)
