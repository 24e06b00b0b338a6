"""The fields that the sandbox reads, by kind, with their types."""

from collections.abc import Mapping

from services.sandbox.validation.shape import ANY_FIELD, Schema

Fields = Mapping[str, Schema]


def _texts(*names: str) -> dict[str, Schema]:
    return dict.fromkeys(names, "string")


_TEXT_MAP: Fields = {ANY_FIELD: "string"}
_AMOUNTS: Fields = {ANY_FIELD: "resource.Quantity"}
_OWNER: Fields = {**_texts("apiVersion", "kind", "name", "uid"), "controller": "bool", "blockOwnerDeletion": "bool"}
METADATA: Fields = {
    **_texts("name", "generateName", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
    "labels": _TEXT_MAP,
    "annotations": _TEXT_MAP,
    "finalizers": ("string",),
    "ownerReferences": (_OWNER,),
    "generation": "int64",
    "deletionGracePeriodSeconds": "int64",
}
_CONDITIONS: Schema = (_texts("type", "status", "reason", "message", "lastTransitionTime"),)
_EXPRESSION: Fields = {**_texts("key", "operator"), "values": ("string",)}
_SELECTOR: Fields = {"matchLabels": _TEXT_MAP, "matchExpressions": (_EXPRESSION,)}
_CONTAINER: Fields = {
    **_texts("name", "image"),
    "resources": {"limits": _AMOUNTS, "requests": _AMOUNTS},
    "env": ({"name": "string"},),
}
_POD_SPEC: Fields = {
    **_texts("nodeName", "schedulerName", "restartPolicy", "priorityClassName", "serviceAccountName", "hostname"),
    "containers": (_CONTAINER,),
    "initContainers": (_CONTAINER,),
    "priority": "int32",
    "tolerations": ({**_texts("key", "operator", "value", "effect"), "tolerationSeconds": "int64"},),
    "schedulingGates": ({"name": "string"},),
    "nodeSelector": _TEXT_MAP,
    "terminationGracePeriodSeconds": "int64",
    "activeDeadlineSeconds": "int64",
    "overhead": _AMOUNTS,
    "resourceClaims": (_texts("name", "resourceClaimName", "resourceClaimTemplateName"),),
    "schedulingGroup": _texts("podGroupName"),
}
_CONTAINER_STATE: Fields = {"running": {"startedAt": "string"}, "terminated": {"exitCode": "int32"}}
POD: Fields = {
    "metadata": METADATA,
    "spec": _POD_SPEC,
    "status": {
        **_texts("phase", "reason", "message", "nominatedNodeName", "startTime"),
        "conditions": _CONDITIONS,
        "containerStatuses": ({"name": "string", "state": _CONTAINER_STATE},),
        "resourceClaimStatuses": (_texts("name", "resourceClaimName"),),
    },
}
_TEMPLATE: Fields = {"metadata": METADATA, "spec": _POD_SPEC}
_FAILURE_RULE: Fields = {
    "action": "string",
    "onPodConditions": (_texts("type", "status"),),
    "onExitCodes": {**_texts("containerName", "operator"), "values": ("int32",)},
}
JOB: Fields = {
    "metadata": METADATA,
    "spec": {
        **_texts("completionMode", "podReplacementPolicy"),
        **dict.fromkeys(("parallelism", "completions", "backoffLimit"), "int32"),
        "suspend": "bool",
        "manualSelector": "bool",
        "selector": _SELECTOR,
        "template": _TEMPLATE,
        "podFailurePolicy": {"rules": (_FAILURE_RULE,)},
    },
    "status": {
        **_texts("completedIndexes", "startTime", "completionTime"),
        **dict.fromkeys(("active", "ready", "terminating", "succeeded", "failed"), "int32"),
        "conditions": _CONDITIONS,
    },
}
REPLICATED: Fields = {
    "metadata": METADATA,
    "spec": {"replicas": "int32", "selector": _SELECTOR, "template": _TEMPLATE},
    "status": {
        **dict.fromkeys(("replicas", "readyReplicas", "availableReplicas"), "int32"),
        "conditions": _CONDITIONS,
    },
}
NODE: Fields = {
    "metadata": METADATA,
    "spec": {"taints": (_texts("key", "value", "effect", "timeAdded"),), "unschedulable": "bool"},
    "status": {"allocatable": _AMOUNTS, "capacity": _AMOUNTS, "conditions": _CONDITIONS},
}
_EXACTLY: Fields = {**_texts("deviceClassName", "allocationMode"), "count": "int64"}
_REQUEST: Fields = {"name": "string", "exactly": _EXACTLY, "firstAvailable": ({"name": "string"},)}
_CLAIM_SPEC: Fields = {"devices": {"requests": (_REQUEST,)}}
CLAIM: Fields = {
    "metadata": METADATA,
    "spec": _CLAIM_SPEC,
    "status": {
        "allocation": {"devices": {"results": (_texts("request", "driver", "pool", "device"),)}},
        "reservedFor": (_texts("apiGroup", "resource", "name", "uid"),),
    },
}
CLAIM_TEMPLATE: Fields = {"metadata": METADATA, "spec": {"metadata": METADATA, "spec": _CLAIM_SPEC}}
QUOTA: Fields = {"metadata": METADATA, "spec": {"hard": _AMOUNTS}, "status": {"hard": _AMOUNTS, "used": _AMOUNTS}}
PRIORITY_CLASS: Fields = {
    "metadata": METADATA,
    "value": "int32",
    "globalDefault": "bool",
    "preemptionPolicy": "string",
}
EVENT: Fields = {
    **_texts("reason", "message", "type"),
    "metadata": METADATA,
    "involvedObject": _texts("kind", "namespace", "name", "uid"),
}
AUTOSCALER: Fields = {
    "metadata": METADATA,
    "spec": {
        "minReplicas": "int32",
        "maxReplicas": "int32",
        "scaleTargetRef": _texts("apiVersion", "kind", "name"),
        "metrics": ({"type": "string"},),
    },
    "status": {"conditions": _CONDITIONS},
}
DEVICE_TAINT_RULE: Fields = {
    "metadata": METADATA,
    "spec": {"taint": _texts("key", "value", "effect", "timeAdded")},
    "status": {"conditions": _CONDITIONS},
}
NAMESPACE: Fields = {"metadata": METADATA, "spec": {"finalizers": ("string",)}, "status": {"phase": "string"}}
PLAIN: Fields = {"metadata": METADATA, "spec": {ANY_FIELD: "any"}, "status": {ANY_FIELD: "any"}}

_POLICY: Fields = {"basic": {}, "gang": {"minCount": "int32"}}
_GROUP_SPEC: Fields = {
    "schedulingPolicy": _POLICY,
    "schedulingConstraints": "any",
    "resourceClaims": "any",
    "disruptionMode": {"single": {}, "all": {}},
    "priorityClassName": "string",
    "priority": "int32",
    "preemptionPolicy": "string",
}
POD_GROUP: Fields = {
    "metadata": {**METADATA, ANY_FIELD: "any"},
    "spec": {
        **_GROUP_SPEC,
        "parentCompositePodGroupName": "string",
        "workloadRef": _texts("workloadName", "templateName"),
    },
    "status": {
        "conditions": ({ANY_FIELD: "any", **_texts("type", "status", "reason", "message", "lastTransitionTime")},),
        "resourceClaimStatuses": "any",
    },
}
WORKLOAD: Fields = {
    "metadata": {**METADATA, ANY_FIELD: "any"},
    "spec": {
        "controllerRef": _texts("apiGroup", "kind", "name"),
        "podGroupTemplates": ({**_GROUP_SPEC, "name": "string"},),
        "compositePodGroupTemplates": "any",
    },
}
