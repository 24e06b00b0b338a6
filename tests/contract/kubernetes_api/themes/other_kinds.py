"""The kinds that services read or write beside pods and groups: that they exist and keep what they are given."""

from tests.contract.kubernetes_api.objects import EVENTS, HPAS, PRIORITY_CLASSES, priority_class
from tests.contract.kubernetes_api.rows import ANY, Json, Row, delete, get, merge, post

_SLICES = "/apis/resource.k8s.io/v1/resourceslices"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
_RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
_TIME = "2026-12-01T00:00:00Z"


def _resource(kind: str, name: str, **spec: Json) -> dict[str, Json]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _slice() -> dict[str, Json]:
    return _resource(
        "ResourceSlice",
        "$ns-slice",
        driver="gpu.example.com",
        nodeName="$ns-node",
        pool={"name": "$ns-node", "generation": 1, "resourceSliceCount": 1},
        devices=[
            {"name": "gpu-0", "attributes": {"model": {"string": "H200"}}, "capacity": {"memory": {"value": "141Gi"}}}
        ],
    )


def _autoscaler(**spec: Json) -> dict[str, Json]:
    metric = {
        "type": "External",
        "external": {
            "metric": {"name": "queue_depth", "selector": {"matchLabels": {"queue": "q"}}},
            "target": {"type": "AverageValue", "averageValue": "30"},
        },
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "minReplicas": 0,
            "maxReplicas": 32,
            "metrics": [metric],
            **spec,
        },
    }


ROWS = (
    Row(
        name="slice-list-by-node",
        setup=(post(_SLICES, _slice()),),
        calls=(
            get(
                _SLICES,
                query={"fieldSelector": "spec.nodeName=$ns-node"},
                answer={
                    "items": [
                        {
                            "metadata": {"name": "$ns-slice"},
                            "spec": {"devices": [{"name": "gpu-0", "attributes": {"model": {"string": "H200"}}}]},
                        }
                    ]
                },
            ),
            delete(f"{_SLICES}/$ns-slice"),
        ),
    ),
    Row(
        name="device-class-create",
        calls=(
            post(
                _CLASSES,
                _resource(
                    "DeviceClass",
                    "$ns-class",
                    selectors=[{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
                ),
                answer={"metadata": {"uid": ANY}, "spec": {"selectors": [{"cel": {"expression": ANY}}]}},
            ),
        ),
    ),
    Row(
        name="device-taint-rule-create-and-delete",
        calls=(
            post(
                _RULES,
                _resource(
                    "DeviceTaintRule",
                    "$ns-rule",
                    deviceSelector={"driver": "gpu.example.com", "pool": "$ns", "device": "gpu-5"},
                    taint={"key": "gpu.example.com/degraded", "value": "ecc", "effect": "NoSchedule"},
                ),
                answer={"spec": {"taint": {"effect": "NoSchedule", "timeAdded": ANY}}},
            ),
            delete(f"{_RULES}/$ns-rule"),
        ),
    ),
    Row(
        name="priority-class-value-is-immutable",
        setup=(post(PRIORITY_CLASSES, priority_class("$ns-class", value=10)),),
        calls=(
            merge(
                f"{PRIORITY_CLASSES}/$ns-class",
                {"value": 11},
                code=422,
                reason="Invalid",
                causes=(("value", "FieldValueForbidden"),),
            ),
        ),
    ),
    Row(
        name="event-create",
        calls=(
            post(
                EVENTS,
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": "e"},
                    "involvedObject": {"kind": "PodGroup", "name": "g", "namespace": "$ns"},
                    "reason": "Waiting",
                    "message": "no room",
                    "type": "Normal",
                    "firstTimestamp": _TIME,
                    "lastTimestamp": _TIME,
                    "count": 1,
                },
                answer={"reason": "Waiting", "involvedObject": {"name": "g"}},
            ),
        ),
    ),
    Row(
        name="event-namespace-must-match",
        calls=(
            post(
                EVENTS,
                {
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": "e"},
                    "involvedObject": {"kind": "PodGroup", "name": "g", "namespace": "elsewhere"},
                },
                code=422,
                reason="Invalid",
                causes=(("involvedObject.namespace", "FieldValueInvalid"),),
            ),
        ),
    ),
    Row(
        name="autoscaler-from-zero",
        calls=(
            post(
                HPAS,
                _autoscaler(),
                answer={"spec": {"minReplicas": 0, "maxReplicas": 32, "metrics": [{"type": "External"}]}},
            ),
            merge(
                f"{HPAS}/h/status",
                {
                    "status": {
                        "desiredReplicas": 0,
                        "currentReplicas": 0,
                        "conditions": [{"type": "ScaledToZero", "status": "True", "reason": "Idle", "message": ""}],
                    }
                },
                answer={"status": {"conditions": [{"type": "ScaledToZero", "status": "True"}]}},
            ),
        ),
    ),
    Row(
        name="autoscaler-zero-needs-outside-metric",
        calls=(
            post(
                HPAS,
                _autoscaler(
                    metrics=[
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                        }
                    ]
                ),
                code=422,
                reason="Invalid",
                causes=(("spec.metrics", "FieldValueForbidden"),),
            ),
        ),
    ),
    Row(
        name="autoscaler-min-above-max",
        calls=(
            post(
                HPAS,
                _autoscaler(minReplicas=5, maxReplicas=2),
                code=422,
                reason="Invalid",
                causes=(("spec.maxReplicas", "FieldValueInvalid"),),
            ),
        ),
    ),
)
