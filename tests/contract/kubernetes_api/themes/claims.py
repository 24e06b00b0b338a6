"""ResourceClaims as the binder writes them: allocate and reserve in one step, undo in one step."""

from tests.contract.kubernetes_api.objects import CLAIMS, NODES, PODS, TAINT_RULES, binding, claim, node, pod
from tests.contract.kubernetes_api.rows import (
    ANY,
    Call,
    Contains,
    Count,
    Event,
    Json,
    Row,
    Watch,
    delete,
    get,
    merge,
    post,
    strategic,
)

_STATUS = f"{CLAIMS}/k/status"
_FINALIZER = "resource.kubernetes.io/delete-protection"
_CREATED = post(CLAIMS, claim(), save={"uid": "metadata.uid", "rv": "metadata.resourceVersion"})


def _allocation(*, device: str = "gpu-0", request: str = "gpu") -> dict[str, Json]:
    result = {"request": request, "driver": "gpu.example.com", "pool": "n1", "device": device}
    return {"devices": {"results": [result]}}


# Consumers exist: the claim controller takes reservations of unknown pods away within moments.
_PODS = tuple(post(PODS, pod(name), save={name: "metadata.uid"}) for name in ("p1", "p2"))


# A pod is looked at for its claims only where it names them.
_USERS = tuple(
    post(
        PODS,
        pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claimed}]),
        save={name: "metadata.uid"},
    )
    for name, claimed in (("p1", "k"), ("p2", "spared"))
)


def _consumer(number: int) -> dict[str, Json]:
    return {"resource": "pods", "name": f"p{number}", "uid": f"$p{number}"}


def _write(*, code: int = 200, **expected: Json) -> Call:
    status = {"allocation": _allocation(), "reservedFor": [_consumer(1)]}
    return merge(_STATUS, {"status": status}, code=code, **expected)


_FULL = {
    "devices": {
        "results": [
            {
                "request": "gpu",
                "driver": "gpu.example.com",
                "pool": "n1",
                "device": "gpu-0",
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}],
                "bindingConditions": ["ready"],
                "bindingFailureConditions": ["failed"],
            },
            {
                "request": "gpu",
                "driver": "gpu.example.com",
                "pool": "n1",
                "device": "shared",
                "shareID": "6a3f1f0e-3c1c-4b0e-9f0a-2a52c9a7a001",
                "consumedCapacity": {"memory": "1Gi"},
            },
        ],
        "config": [
            {
                "source": "FromClass",
                "requests": ["gpu"],
                "opaque": {"driver": "gpu.example.com", "parameters": {"a": "b"}},
            }
        ],
    },
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    },
    "allocationTimestamp": "2026-12-01T00:00:00Z",
}
"""Everything that the binder writes into an allocation."""

_CONDITIONS = {
    "driver": "gpu.example.com",
    "pool": "n1",
    "device": "gpu-0",
    "conditions": [
        {
            "type": "ready",
            "status": "True",
            "reason": "Attached",
            "message": "",
            "lastTransitionTime": "2026-12-01T00:00:00Z",
        }
    ],
}

_CONTAINER = {
    "name": "main",
    "image": "registry.example.com/none:1",
    "resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
}

_EXTENDED = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {
        "name": "p1-extended",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "finalizers": [_FINALIZER],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p1", "uid": "$p1", "controller": True}],
    },
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "container-0-request-0",
                    "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
                }
            ]
        }
    },
}


def _tainting(*, device: str) -> dict[str, Json]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "taint-$ns"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "pool": "n1", "device": device},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"},
        },
    }


ROWS = (
    Row(
        name="claim-allocate-and-reserve",
        setup=(*_PODS, _CREATED, merge(f"{CLAIMS}/k", {"metadata": {"finalizers": [_FINALIZER]}})),
        calls=(
            _write(
                answer={
                    "metadata": {"uid": "$uid", "finalizers": [_FINALIZER]},
                    "status": {
                        "allocation": {"devices": {"results": [{"device": "gpu-0", "pool": "n1"}]}},
                        "reservedFor": [{"resource": "pods", "name": "p1"}],
                    },
                }
            ),
        ),
        watch=Watch(
            path=CLAIMS,
            events=(Event(kind="MODIFIED", name="k", object={"status": {"reservedFor": Count(1)}}),),
            is_exact=True,
        ),
    ),
    Row(
        name="claim-allocate-stale",
        setup=(*_PODS, _CREATED, merge(f"{CLAIMS}/k", {"metadata": {"labels": {"touched": "1"}}})),
        calls=(
            merge(
                _STATUS,
                {"metadata": {"resourceVersion": "$rv"}, "status": {"allocation": _allocation()}},
                code=409,
                reason="Conflict",
                message="the object has been modified",
            ),
        ),
    ),
    Row(
        name="claim-allocation-is-write-once",
        setup=(*_PODS, _CREATED, _write()),
        calls=(
            merge(
                _STATUS,
                {"status": {"allocation": _allocation(device="gpu-1")}},
                code=422,
                reason="Invalid",
                causes=(("status.allocation", "FieldValueInvalid"),),
            ),
        ),
    ),
    Row(
        name="claim-freed-in-one-write",
        setup=(*_PODS, _CREATED, _write()),
        calls=(
            merge(
                _STATUS,
                {"status": {"allocation": None}},
                code=422,
                reason="Invalid",
                causes=(("status.reservedFor", "FieldValueForbidden"),),
            ),
            merge(
                _STATUS,
                {"status": {"allocation": None, "reservedFor": None}},
                absent=("status.allocation", "status.reservedFor"),
            ),
            merge(_STATUS, {"status": {"allocation": _allocation(device="gpu-1")}}),
        ),
    ),
    Row(
        name="claim-reserved-without-allocation",
        setup=(*_PODS, _CREATED),
        calls=(
            merge(
                _STATUS,
                {"status": {"reservedFor": [_consumer(1)]}},
                code=422,
                reason="Invalid",
                causes=(("status.reservedFor", "FieldValueForbidden"),),
                message="may not be specified when `allocated` is not set",
            ),
        ),
    ),
    Row(
        name="claim-unknown-request",
        setup=(*_PODS, _CREATED),
        calls=(
            merge(
                _STATUS,
                {"status": {"allocation": _allocation(request="other")}},
                code=422,
                reason="Invalid",
                causes=(("status.allocation.devices.results[0].request", "FieldValueInvalid"),),
                message="must be the name of a request in the claim",
            ),
        ),
    ),
    Row(
        name="claim-too-many-consumers",
        setup=(*_PODS, _CREATED),
        calls=(
            merge(
                _STATUS,
                {
                    "status": {
                        "allocation": _allocation(),
                        "reservedFor": [
                            {"resource": "pods", "name": f"p{number}", "uid": f"uid-{number}"} for number in range(257)
                        ],
                    }
                },
                code=422,
                reason="Invalid",
                causes=(("status.reservedFor", "FieldValueTooMany"),),
                message="must have at most 256 items",
            ),
        ),
    ),
    Row(
        name="claim-one-reservation-removed",
        setup=(
            *_PODS,
            _CREATED,
            merge(_STATUS, {"status": {"allocation": _allocation(), "reservedFor": [_consumer(1), _consumer(2)]}}),
        ),
        calls=(
            strategic(
                _STATUS,
                {
                    "metadata": {"uid": "$uid"},
                    "status": {"reservedFor": [{"$patch": "delete", "uid": _consumer(1)["uid"]}]},
                },
                answer={"status": {"reservedFor": [{"name": "p2"}]}},
            ),
        ),
    ),
    Row(
        name="claim-double-allocation-is-not-noticed",
        setup=(*_PODS, _CREATED, _write(), post(CLAIMS, claim("second"))),
        calls=(merge(f"{CLAIMS}/second/status", {"status": {"allocation": _allocation()}}),),
    ),
    Row(
        name="claim-spec-is-immutable",
        setup=(*_PODS, _CREATED),
        calls=(
            merge(
                f"{CLAIMS}/k",
                {"spec": {"devices": {"requests": []}}},
                code=422,
                reason="Invalid",
                causes=(("spec", "FieldValueInvalid"),),
                message="field is immutable",
            ),
        ),
    ),
    Row(
        name="claim-dry-run-allocation",
        setup=(*_PODS, _CREATED),
        calls=(
            _write(query={"dryRun": "All"}, answer={"status": {"reservedFor": Count(1)}}),
            get(f"{CLAIMS}/k", answer={"metadata": {"resourceVersion": "$rv"}}, absent=("status.allocation",)),
        ),
    ),
    Row(
        name="claim-no-reservation-while-terminating",
        setup=(
            *_PODS,
            _CREATED,
            merge(f"{CLAIMS}/k", {"metadata": {"finalizers": ["example.com/hold"]}}),
            merge(_STATUS, {"status": {"allocation": _allocation()}}),
            delete(f"{CLAIMS}/k"),
        ),
        calls=(
            merge(
                _STATUS,
                {"status": {"reservedFor": [_consumer(1)]}},
                code=422,
                reason="Invalid",
                causes=(("status.reservedFor", "FieldValueForbidden"),),
            ),
        ),
    ),
    Row(
        name="claim-marked-and-freed-as-the-binder-does",
        setup=(*_PODS, _CREATED),
        calls=(
            merge(
                f"{CLAIMS}/k",
                {
                    "metadata": {
                        "uid": "$uid",
                        "resourceVersion": "$rv",
                        "finalizers": [_FINALIZER],
                        "annotations": {"phalanx.dev/transaction": "t"},
                    }
                },
                save={"marked": "metadata.resourceVersion"},
            ),
            merge(
                _STATUS,
                {
                    "metadata": {"uid": "$uid", "resourceVersion": "$marked"},
                    "status": {"allocation": _FULL, "reservedFor": [_consumer(1)]},
                },
                answer={"status": {"allocation": _FULL, "reservedFor": [{"name": "p1"}]}},
                save={"held": "metadata.resourceVersion"},
            ),
            merge(
                _STATUS,
                {
                    "metadata": {"uid": "$uid", "resourceVersion": "$marked"},
                    "status": {"allocation": None, "reservedFor": None},
                },
                code=409,
                reason="Conflict",
            ),
            merge(
                _STATUS,
                {
                    "metadata": {"uid": "$uid", "resourceVersion": "$held"},
                    "status": {"allocation": None, "reservedFor": None},
                },
                absent=("status.allocation", "status.reservedFor"),
                save={"freed": "metadata.resourceVersion"},
            ),
            merge(
                f"{CLAIMS}/k",
                {
                    "metadata": {
                        "uid": "$uid",
                        "resourceVersion": "$freed",
                        "finalizers": None,
                        "annotations": {"phalanx.dev/transaction": None},
                    }
                },
                absent=("metadata.finalizers", "metadata.annotations"),
            ),
        ),
    ),
    Row(
        name="claim-of-another-uid",
        setup=(*_PODS, _CREATED, delete(f"{CLAIMS}/k"), post(CLAIMS, claim())),
        calls=(
            merge(
                _STATUS,
                {
                    "metadata": {"uid": "$uid", "resourceVersion": "$rv"},
                    "status": {"allocation": _allocation(), "reservedFor": [_consumer(1)]},
                },
                code=409,
                reason="Conflict",
            ),
        ),
    ),
    Row(
        name="claim-conditions-go-with-the-allocation",
        setup=(*_PODS, _CREATED, _write(), merge(_STATUS, {"status": {"devices": [_CONDITIONS]}})),
        calls=(
            get(f"{CLAIMS}/k", answer={"status": {"devices": [{"conditions": [{"type": "ready"}]}]}}),
            merge(
                _STATUS,
                {"status": {"allocation": None, "reservedFor": None}},
                absent=("status.allocation", "status.devices"),
            ),
        ),
    ),
    Row(
        name="claim-of-extended-resources",
        setup=(post(PODS, pod("p1", containers=[_CONTAINER]), save={"p1": "metadata.uid"}),),
        calls=(
            post(
                CLAIMS,
                _EXTENDED,
                answer={"metadata": {"finalizers": [_FINALIZER], "ownerReferences": [{"uid": "$p1"}]}},
                save={"extended": "metadata.uid", "made": "metadata.resourceVersion"},
            ),
            post(CLAIMS, _EXTENDED, code=409, reason="AlreadyExists"),
            strategic(
                f"{PODS}/p1/status",
                {
                    "metadata": {"uid": "$p1"},
                    "status": {
                        "extendedResourceClaimStatus": {
                            "resourceClaimName": "p1-extended",
                            "requestMappings": [
                                {
                                    "containerName": "main",
                                    "resourceName": "example.com/gpu",
                                    "requestName": "container-0-request-0",
                                }
                            ],
                        }
                    },
                },
                answer={"status": {"extendedResourceClaimStatus": {"resourceClaimName": "p1-extended"}}},
            ),
            merge(
                f"{CLAIMS}/p1-extended",
                {"metadata": {"uid": "$extended", "resourceVersion": "$made", "finalizers": None}},
                save={"unprotected": "metadata.resourceVersion"},
            ),
            delete(
                f"{CLAIMS}/p1-extended",
                {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": "$extended", "resourceVersion": "$made"},
                },
                code=409,
                reason="Conflict",
            ),
            delete(
                f"{CLAIMS}/p1-extended",
                {
                    "apiVersion": "v1",
                    "kind": "DeleteOptions",
                    "preconditions": {"uid": "$extended", "resourceVersion": "$unprotected"},
                },
            ),
            get(f"{CLAIMS}/p1-extended", code=404, reason="NotFound"),
        ),
    ),
    Row(
        name="claim-freed-with-its-pod",
        setup=(
            _CREATED,
            _USERS[0],
            merge(f"{CLAIMS}/k", {"metadata": {"finalizers": [_FINALIZER]}}),
            _write(),
        ),
        calls=(
            delete(f"{PODS}/p1", {"gracePeriodSeconds": 0}),
            get(f"{CLAIMS}/k", absent=("status.allocation", "status.reservedFor"), eventually=True),
        ),
    ),
    Row(
        name="claim-device-tainted-in-use",
        setup=(
            *_USERS,
            post(NODES, node("tainted-$ns")),
            *(
                call
                for number, name in ((1, "k"), (2, "spared"))
                for call in (
                    post(CLAIMS, claim(name)),
                    merge(
                        f"{CLAIMS}/{name}/status",
                        {
                            "status": {
                                "allocation": _allocation(device=f"$ns-{name}"),
                                "reservedFor": [_consumer(number)],
                            }
                        },
                    ),
                    post(f"{PODS}/p{number}/binding", binding(f"p{number}", node="tainted-$ns")),
                )
            ),
        ),
        calls=(post(TAINT_RULES, _tainting(device="$ns-k")),),
        watch=Watch(
            path=PODS,
            events=(
                Event(
                    kind="MODIFIED",
                    name="p1",
                    object={
                        "metadata": {"deletionTimestamp": ANY},
                        "status": {
                            "conditions": Contains(
                                [{"type": "DisruptionTarget", "reason": "DeletionByDeviceTaintManager"}]
                            )
                        },
                    },
                ),
            ),
        ),
    ),
)
