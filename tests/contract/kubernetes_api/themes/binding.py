"""pods/binding: every answer that the binder has to tell apart, and what a binding does to the pod."""

from tests.contract.kubernetes_api.objects import CORE, NODES, POD_GATE, PODS, binding, node, pod
from tests.contract.kubernetes_api.rows import (
    Contains,
    Event,
    Json,
    Row,
    Watch,
    delete,
    get,
    json_patch,
    merge,
    post,
)

_BIND = f"{PODS}/p/binding"
_POD = post(PODS, pod(), save={"uid": "metadata.uid", "rv": "metadata.resourceVersion"})
_GATED = post(PODS, pod(schedulingGates=[{"name": POD_GATE}]))
_BOUND = post(_BIND, binding())
_CONFLICT = "Operation cannot be fulfilled on pods/binding"


def _conflict(name: str, body: Json, *, message: str, setup: tuple[Json, ...] = (_POD,)) -> Row:
    call = post(_BIND, body, code=409, reason="Conflict", message=message)
    return Row(name=name, setup=setup, calls=(call, get(f"{PODS}/p", absent=("spec.nodeName",))))


def _server_error(name: str, target: Json, *, message: str) -> Row:
    """A bad target is answered by 500 without a reason code of its own."""
    body = binding() | {"target": target}
    return Row(name=name, setup=(_POD,), calls=(post(_BIND, body, code=500, message=message),))


ROWS = (
    Row(
        name="binding-sets-node-and-condition",
        setup=(_POD,),
        calls=(
            post(_BIND, binding(), answer={"kind": "Status", "status": "Success", "code": 201}),
            get(
                f"{PODS}/p",
                answer={
                    "metadata": {"uid": "$uid"},
                    "spec": {"nodeName": "some-node"},
                    "status": {
                        "phase": "Pending",
                        "conditions": Contains([{"type": "PodScheduled", "status": "True"}]),
                    },
                },
            ),
        ),
        watch=Watch(
            path=PODS,
            query={"fieldSelector": "metadata.name=p"},
            events=(
                Event(
                    kind="MODIFIED",
                    name="p",
                    object={
                        "spec": {"nodeName": "some-node"},
                        "status": {"conditions": Contains([{"type": "PodScheduled", "status": "True"}])},
                    },
                ),
            ),
            is_exact=True,
        ),
    ),
    Row(
        name="binding-merges-annotations-and-labels",
        setup=(
            post(
                PODS,
                pod(metadata={"annotations": {"a": "old", "keep": "1"}, "labels": {"keep": "1"}}),
            ),
        ),
        calls=(
            post(
                _BIND,
                binding(annotations={"a": "new", "phalanx.dev/transaction": "t"}, labels={"l": "1"}),
            ),
            get(
                f"{PODS}/p",
                answer={
                    "metadata": {
                        "annotations": {"a": "new", "keep": "1", "phalanx.dev/transaction": "t"},
                        "labels": {"keep": "1", "l": "1"},
                    }
                },
            ),
        ),
    ),
    Row(
        name="binding-copies-topology-labels-of-the-node",
        setup=(
            post(
                NODES,
                node(
                    "$ns-node",
                    **{
                        "topology.kubernetes.io/zone": "z1",
                        "topology.kubernetes.io/region": "r1",
                        "rack": "not-copied",
                    },
                ),
            ),
            # Admission knows nodes from a cache: a dry run that shows the label tells that it has caught up.
            post(
                PODS,
                pod(nodeName="$ns-node"),
                query={"dryRun": "All"},
                answer={"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}},
                eventually=True,
            ),
            _POD,
        ),
        calls=(
            post(_BIND, binding(node="$ns-node")),
            get(
                f"{PODS}/p",
                answer={
                    "metadata": {
                        "labels": {
                            "topology.kubernetes.io/zone": "z1",
                            "topology.kubernetes.io/region": "r1",
                        }
                    }
                },
                absent=("metadata.labels.rack",),
            ),
        ),
    ),
    Row(
        name="binding-old-path",
        setup=(_POD,),
        calls=(
            post(f"{CORE}/bindings", binding(), answer={"status": "Success"}),
            get(f"{PODS}/p", answer={"spec": {"nodeName": "some-node"}}),
        ),
    ),
    Row(
        name="binding-clears-nominated-node",
        setup=(
            _POD,
            merge(f"{PODS}/p/status", {"status": {"nominatedNodeName": "elsewhere"}}),
        ),
        calls=(_BOUND, get(f"{PODS}/p", absent=("status.nominatedNodeName",))),
    ),
    Row(
        name="binding-already-bound-same-node",
        setup=(_POD, _BOUND),
        calls=(
            post(
                _BIND,
                binding(),
                code=409,
                reason="Conflict",
                message=f'{_CONFLICT} "p": pod p is already assigned to node "some-node"',
            ),
        ),
    ),
    Row(
        name="binding-already-bound-other-node",
        setup=(_POD, _BOUND),
        calls=(
            post(
                _BIND,
                binding(node="other"),
                code=409,
                reason="Conflict",
                message='pod p is already assigned to node "some-node"',
            ),
            get(f"{PODS}/p", answer={"spec": {"nodeName": "some-node"}}),
        ),
    ),
    _conflict(
        "binding-gated",
        binding(),
        setup=(_GATED,),
        message=f'{_CONFLICT} "p": pod p has non-empty .spec.schedulingGates',
    ),
    Row(
        name="binding-after-gate-removal",
        setup=(_GATED, merge(f"{PODS}/p", {"spec": {"schedulingGates": None}})),
        calls=(_BOUND,),
    ),
    _conflict(
        "binding-of-terminating-pod",
        binding(),
        setup=(
            post(PODS, pod(metadata={"finalizers": ["example.com/hold"]})),
            delete(f"{PODS}/p"),
        ),
        message="pod p is being deleted, cannot be assigned to a host",
    ),
    Row(
        name="binding-missing-pod",
        calls=(
            post(
                f"{PODS}/nopod/binding",
                binding("nopod"),
                code=404,
                reason="NotFound",
                message='pods "nopod" not found',
                answer={"details": {"name": "nopod", "kind": "pods"}},
            ),
        ),
    ),
    _conflict(
        "binding-uid-mismatch",
        binding(uid="11111111-1111-1111-1111-111111111111"),
        message="Precondition failed: UID in precondition: 11111111-1111-1111-1111-111111111111, "
        "UID in object meta: $uid",
    ),
    _conflict(
        "binding-resource-version-mismatch",
        binding(resourceVersion="1"),
        message="Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: $rv",
    ),
    Row(
        name="binding-with-right-preconditions",
        setup=(_POD,),
        calls=(post(_BIND, binding(uid="$uid", resourceVersion="$rv")),),
    ),
    Row(
        name="binding-stale-after-touch",
        setup=(_POD, merge(f"{PODS}/p", {"metadata": {"annotations": {"touched": "1"}}})),
        calls=(post(_BIND, binding(uid="$uid", resourceVersion="$rv"), code=409, reason="Conflict"),),
    ),
    Row(
        name="binding-name-differs-from-url",
        setup=(_POD,),
        calls=(
            post(
                _BIND,
                binding("other"),
                code=400,
                reason="BadRequest",
                message="name in URL does not match name in Binding object",
            ),
        ),
    ),
    _server_error(
        "binding-target-kind",
        {"kind": "Pod", "name": "some-node"},
        message='target.kind: Unsupported value: "Pod"',
    ),
    _server_error("binding-target-empty", {"kind": "Node", "name": ""}, message="target.name: Required value"),
    _server_error(
        "binding-target-bad-name",
        {"kind": "Node", "name": "a/b"},
        message='target.name: Invalid value: "a/b"',
    ),
    Row(
        name="binding-to-full-unready-node-is-not-checked",
        setup=(
            post(NODES, node("$ns-node") | {"spec": {"unschedulable": True}}),
            post(
                PODS,
                pod(
                    containers=[
                        {
                            "name": "main",
                            "image": "registry.example.com/none:1",
                            "resources": {"requests": {"cpu": "1000"}},
                        }
                    ]
                ),
            ),
        ),
        calls=(post(_BIND, binding(node="$ns-node")),),
    ),
    Row(
        name="binding-cannot-be-undone",
        setup=(_POD, _BOUND),
        calls=(
            merge(
                f"{PODS}/p",
                {"spec": {"nodeName": None}},
                code=422,
                reason="Invalid",
                causes=(("spec", "FieldValueForbidden"),),
                message="pod updates may not change fields other than",
            ),
            json_patch(
                f"{PODS}/p",
                [{"op": "replace", "path": "/spec/nodeName", "value": "other"}],
                code=422,
                reason="Invalid",
            ),
        ),
    ),
    Row(
        name="binding-dry-run",
        setup=(_POD,),
        calls=(
            post(_BIND, binding(), query={"dryRun": "All"}, answer={"status": "Success"}),
            get(f"{PODS}/p", answer={"metadata": {"resourceVersion": "$rv"}}, absent=("spec.nodeName",)),
        ),
    ),
    Row(
        name="binding-dry-run-tells-conflicts",
        setup=(_GATED,),
        calls=(
            post(
                _BIND,
                binding(),
                query={"dryRun": "All"},
                code=409,
                reason="Conflict",
                message="has non-empty .spec.schedulingGates",
            ),
        ),
    ),
    Row(
        name="binding-in-missing-namespace",
        calls=(
            post(
                "/api/v1/namespaces/$ns-none/pods/p/binding",
                binding(),
                code=404,
                reason="NotFound",
            ),
        ),
    ),
)
