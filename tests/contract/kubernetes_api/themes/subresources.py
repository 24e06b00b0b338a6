"""status, scale, eviction."""

from tests.contract.kubernetes_api.objects import DEPLOYMENTS, NODES, PODS, binding, deployment, node, pod
from tests.contract.kubernetes_api.rows import (
    ANY,
    Contains,
    Edited,
    Event,
    Row,
    Watch,
    get,
    merge,
    post,
    put,
    strategic,
)

_POD = post(PODS, pod(), save={"p": "", "rv": "metadata.resourceVersion", "uid": "metadata.uid"})
_SCALE = f"{DEPLOYMENTS}/d/scale"
_DEPLOYMENT = post(DEPLOYMENTS, deployment(replicas=0), save={"uid": "metadata.uid"})


def _eviction(name: str = "p") -> dict[str, object]:
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}


ROWS = (
    Row(
        name="status-of-a-pod",
        setup=(_POD,),
        calls=(
            merge(
                f"{PODS}/p/status",
                {"status": {"phase": "Running"}, "spec": {"nodeName": "ignored"}},
                answer={"status": {"phase": "Running"}},
                absent=("spec.nodeName",),
            ),
        ),
        watch=Watch(
            path=PODS,
            query={"fieldSelector": "status.phase=Running"},
            events=(Event(kind="ADDED", name="p"),),
            is_exact=True,
        ),
    ),
    Row(
        name="status-ignored-on-the-main-path",
        setup=(_POD,),
        calls=(
            merge(
                f"{PODS}/p",
                {"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "1"}}},
                answer={"status": {"phase": "Pending"}, "metadata": {"labels": {"a": "1"}}},
            ),
        ),
    ),
    Row(
        name="status-replace-stale",
        setup=(_POD, merge(f"{PODS}/p", {"metadata": {"labels": {"a": "1"}}})),
        calls=(
            put(
                f"{PODS}/p/status",
                Edited(saved="p", changes={"status": {"phase": "Running"}}),
                code=409,
                reason="Conflict",
                message="the object has been modified",
            ),
        ),
    ),
    Row(
        name="status-of-a-node",
        setup=(post(NODES, node("$ns-node")),),
        calls=(
            strategic(
                f"{NODES}/$ns-node/status",
                {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Down"}]}},
                answer={"status": {"conditions": Contains([{"type": "Ready", "status": "False"}])}},
            ),
        ),
    ),
    Row(
        name="status-read",
        setup=(_POD,),
        calls=(get(f"{PODS}/p/status", answer={"kind": "Pod", "metadata": {"uid": "$uid"}}),),
    ),
    Row(
        name="scale-read",
        setup=(_DEPLOYMENT,),
        calls=(
            get(
                _SCALE,
                answer={
                    "kind": "Scale",
                    "apiVersion": "autoscaling/v1",
                    "metadata": {"name": "d", "namespace": "$ns", "uid": "$uid", "resourceVersion": ANY},
                    "status": {"selector": "app=contract"},
                },
                save={"scale": ""},
            ),
        ),
    ),
    Row(
        name="scale-by-patch",
        setup=(_DEPLOYMENT,),
        calls=(
            merge(_SCALE, {"spec": {"replicas": 1}}, answer={"kind": "Scale", "spec": {"replicas": 1}}),
            get(f"{DEPLOYMENTS}/d", answer={"spec": {"replicas": 1}}),
        ),
        watch=Watch(
            path=DEPLOYMENTS,
            events=(Event(kind="MODIFIED", name="d", object={"spec": {"replicas": 1}}),),
        ),
    ),
    Row(
        name="scale-guarded-by-version",
        setup=(_DEPLOYMENT,),
        calls=(
            merge(
                _SCALE,
                {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 1}},
                code=409,
                reason="Conflict",
            ),
            get(f"{DEPLOYMENTS}/d", answer={"spec": {"replicas": 0}}),
        ),
    ),
    Row(
        name="scale-negative",
        setup=(_DEPLOYMENT,),
        calls=(
            merge(
                _SCALE,
                {"spec": {"replicas": -1}},
                code=422,
                reason="Invalid",
                causes=(("spec.replicas", "FieldValueInvalid"),),
            ),
        ),
    ),
    Row(
        name="scale-missing",
        calls=(get(_SCALE, code=404, reason="NotFound", message='deployments.apps "d" not found'),),
    ),
    Row(
        name="eviction-of-an-unbound-pod",
        setup=(_POD,),
        calls=(
            post(f"{PODS}/p/eviction", _eviction(), answer={"kind": "Status", "status": "Success"}),
            get(f"{PODS}/p", code=404, reason="NotFound"),
        ),
        watch=Watch(path=PODS, events=(Event(kind="DELETED", name="p"),)),
    ),
    Row(
        name="eviction-of-a-bound-pod",
        setup=(
            _POD,
            post(f"{PODS}/p/binding", binding()),
        ),
        calls=(
            post(f"{PODS}/p/eviction", _eviction()),
            get(
                f"{PODS}/p",
                answer={
                    "metadata": {"deletionTimestamp": ANY},
                },
            ),
        ),
    ),
    Row(
        name="eviction-guarded-by-uid",
        setup=(_POD,),
        calls=(
            post(
                f"{PODS}/p/eviction",
                _eviction() | {"deleteOptions": {"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}}},
                code=409,
                reason="Conflict",
            ),
        ),
    ),
    Row(
        name="eviction-missing",
        calls=(post(f"{PODS}/none/eviction", _eviction("none"), code=404, reason="NotFound"),),
    ),
)
