"""ResourceClaims as the binder writes them: allocate and reserve in one step, undo in one step."""

from tests.contract.kubernetes_api.objects import CLAIMS, PODS, claim, pod
from tests.contract.kubernetes_api.rows import Call, Count, Event, Json, Row, Watch, delete, get, merge, post, strategic

_STATUS = f"{CLAIMS}/k/status"
_FINALIZER = "resource.kubernetes.io/delete-protection"
_CREATED = post(CLAIMS, claim(), save={"uid": "metadata.uid", "rv": "metadata.resourceVersion"})


def _allocation(*, device: str = "gpu-0", request: str = "gpu") -> dict[str, Json]:
    result = {"request": request, "driver": "gpu.example.com", "pool": "n1", "device": device}
    return {"devices": {"results": [result]}}


# Consumers exist: the claim controller takes reservations of unknown pods away within moments.
_PODS = tuple(post(PODS, pod(name), save={name: "metadata.uid"}) for name in ("p1", "p2"))


def _consumer(number: int) -> dict[str, Json]:
    return {"resource": "pods", "name": f"p{number}", "uid": f"$p{number}"}


def _write(*, code: int = 200, **expected: Json) -> Call:
    status = {"allocation": _allocation(), "reservedFor": [_consumer(1)]}
    return merge(_STATUS, {"status": status}, code=code, **expected)


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
)
