"""From the API's JSON to what placement needs: one pure function over all kinds.

The result is what the watcher publishes, and what decides whether a new version of an object is news at all. Rules
that the solver cannot honour are not dropped: their paths stand in `Pod.unsupported`, so that such a gang waits and
says why.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from services.core import objects as core
from services.core.constraints import Taint
from services.core.manifests import (
    FieldError,
    amounts_at,
    condition,
    flag_at,
    integer_at,
    mapping_at,
    numbered,
    shortened,
    text_at,
    text_mapping_at,
    texts_at,
    time_at,
)
from services.core.names import PREFIX, VOLCANO_GROUP_ANNOTATION
from services.core.objects import EPOCH_START, Kind, KubernetesObject, Metadata, Owner, Uid
from services.core.reduce_devices import reduce_claims
from services.core.reduce_pod import reduce_pod, unreadable_pod
from services.core.reduce_sources import (
    reduce_declared,
    reduce_job_set,
    reduce_leader_worker_set,
    reduce_ray_cluster,
    reduce_stateful_set,
    reduce_training_job,
)
from services.core.reduce_storage import reduce_claim, reduce_csi_node, reduce_storage_class, reduce_volume
from services.core.reduce_workloads import reduce_job

_NOT_IN_NAMES = re.compile(r"[\s/%*>\x00-\x1f\x7f]")
KEPT_ANNOTATIONS = (
    PREFIX,
    "kueue.x-k8s.io/",
    "scheduling.x-k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
    "alpha.jobset.sigs.k8s.io/",
    VOLCANO_GROUP_ANNOTATION,
)
"""Prefixes of the annotations that placement reads: ours, and those that group pods."""

MAX_ANNOTATION_CHARACTERS = 4096
"""A longer value is none that placement understands; it is left out whole, because half of it would mislead."""


class MalformedObject(ValueError):
    """An object that cannot be understood; `field` names where."""

    def __init__(self, *, kind: Kind, namespace: str, name: str, field: str, expected: str, got: object) -> None:
        """Make the sentence that names object, field, what was expected and what was found."""
        where = f"{namespace}/{name}" if namespace else name
        super().__init__(
            f"{kind.value} {where}: {field}: expected {expected}, got {shortened(got)}; correct this field"
        )
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.field = field
        self.expected = expected
        self.got = got


def reduce(kind: Kind, manifest: Mapping[str, Any]) -> KubernetesObject:
    """Return what placement needs of an object, decoded from the API's JSON.

    Raises MalformedObject for an object that cannot be understood.
    """
    try:
        return _REDUCERS[kind](_metadata(manifest), manifest)
    except FieldError as error:
        given = manifest.get("metadata")
        metadata: Mapping[str, Any] = given if isinstance(given, dict) else {}
        raise MalformedObject(
            kind=kind,
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata.get("name") or ""),
            field=error.field,
            expected=error.expected,
            got=error.got,
        ) from error


def reduce_leniently(kind: Kind, manifest: Mapping[str, Any]) -> KubernetesObject:
    """Return what placement needs of an object of a running cluster, which has to be reckoned with as it is.

    A pod with a field that cannot be read is returned as `unreadable`, so that its gang waits and says why. Raises
    MalformedObject for other kinds, and where not even a pod's identity can be read.
    """
    try:
        return reduce(kind, manifest)
    except MalformedObject as error:
        if kind is not Kind.POD:
            raise
        problem = FieldError(field=error.field, expected=error.expected, got=error.got)
        try:
            return unreadable_pod(_metadata(manifest), manifest, problem=problem)
        except FieldError:
            raise error from None


def _metadata(manifest: Mapping[str, Any]) -> Metadata:
    metadata = mapping_at(manifest, "metadata", at="metadata")
    name = text_at(metadata, "name", at="metadata.name")
    namespace = text_at(metadata, "namespace", at="metadata.namespace")
    if not name:
        raise FieldError(field="metadata.name", expected="a name", got=name)
    for field, text in (("metadata.name", name), ("metadata.namespace", namespace)):
        # Both become parts of gang ids and of subjects; an API server lets none of these in either.
        if _NOT_IN_NAMES.search(text):
            raise FieldError(field=field, expected="a name without spaces, slashes and wildcards", got=text)
    return Metadata(
        name=name,
        namespace=namespace,
        uid=Uid(text_at(metadata, "uid", at="metadata.uid")),
        resource_version=text_at(metadata, "resourceVersion", at="metadata.resourceVersion"),
        created_at=time_at(metadata, "creationTimestamp", at="metadata.creationTimestamp") or EPOCH_START,
        deleted_at=time_at(metadata, "deletionTimestamp", at="metadata.deletionTimestamp"),
        labels=text_mapping_at(metadata, "labels", at="metadata.labels"),
        annotations={
            key: value
            for key, value in text_mapping_at(metadata, "annotations", at="metadata.annotations").items()
            if key.startswith(KEPT_ANNOTATIONS) and len(value) <= MAX_ANNOTATION_CHARACTERS
        },
        owners=tuple(
            _owner(path, item) for path, item in numbered(metadata, "ownerReferences", at="metadata.ownerReferences")
        ),
    )


def _owner(path: str, item: Mapping[str, Any]) -> Owner:
    return Owner(
        kind=text_at(item, "kind", at=f"{path}.kind"),
        name=text_at(item, "name", at=f"{path}.name"),
        uid=Uid(text_at(item, "uid", at=f"{path}.uid")),
        is_controller=flag_at(item, "controller", at=f"{path}.controller"),
        api_version=text_at(item, "apiVersion", at=f"{path}.apiVersion"),
    )


def _node(metadata: Metadata, manifest: Mapping[str, Any]) -> core.Node:
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    return core.Node(
        metadata=metadata,
        allocatable=amounts_at(status, "allocatable", at="status.allocatable"),
        is_unschedulable=flag_at(spec, "unschedulable", at="spec.unschedulable"),
        taints=tuple(
            Taint(
                key=text_at(item, "key", at=f"{path}.key"),
                value=text_at(item, "value", at=f"{path}.value"),
                effect=text_at(item, "effect", at=f"{path}.effect"),
            )
            for path, item in numbered(spec, "taints", at="spec.taints")
        ),
        # A node that says nothing is not ready: unknown is never yes.
        is_ready=condition(status, "Ready").get("status") == "True",
        features=texts_at(status, "declaredFeatures", at="status.declaredFeatures"),
    )


def _pod_group(metadata: Metadata, manifest: Mapping[str, Any]) -> core.PodGroup:
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    policy = mapping_at(spec, "schedulingPolicy", at="spec.schedulingPolicy")
    gang = mapping_at(policy, "gang", at="spec.schedulingPolicy.gang")
    workload = mapping_at(spec, "workloadRef", at="spec.workloadRef")
    is_gang = policy.get("gang") is not None
    min_count = integer_at(gang, "minCount", at="spec.schedulingPolicy.gang.minCount")
    if is_gang and min_count < 1:
        raise FieldError(field="spec.schedulingPolicy.gang.minCount", expected="at least 1", got=min_count)
    return core.PodGroup(
        metadata=metadata,
        min_count=min_count,
        is_gang=is_gang,
        priority=integer_at(spec, "priority", at="spec.priority"),
        priority_class=text_at(spec, "priorityClassName", at="spec.priorityClassName"),
        workload=text_at(workload, "workloadName", at="spec.workloadRef.workloadName"),
        template=text_at(workload, "templateName", at="spec.workloadRef.templateName"),
        topology_keys=_topology_keys(spec),
        claims=reduce_claims(spec, status),
        disrupts_all=mapping_at(spec, "disruptionMode", at="spec.disruptionMode").get("all") is not None,
        initially_scheduled=text_at(
            condition(status, "PodGroupInitiallyScheduled"), "status", at="status.conditions[].status"
        ),
    )


def _topology_keys(spec: Mapping[str, Any]) -> tuple[str, ...]:
    at = "spec.schedulingConstraints"
    constraints = mapping_at(spec, "schedulingConstraints", at=at)
    return tuple(
        text_at(item, "key", at=f"{path}.key") for path, item in numbered(constraints, "topology", at=f"{at}.topology")
    )


def _workload(metadata: Metadata, manifest: Mapping[str, Any]) -> core.Workload:
    spec = mapping_at(manifest, "spec", at="spec")
    controller = mapping_at(spec, "controllerRef", at="spec.controllerRef")
    return core.Workload(
        metadata=metadata,
        templates=tuple(
            text_at(item, "name", at=f"{path}.name")
            for path, item in numbered(spec, "podGroupTemplates", at="spec.podGroupTemplates")
        ),
        controller_kind=text_at(controller, "kind", at="spec.controllerRef.kind"),
        controller_name=text_at(controller, "name", at="spec.controllerRef.name"),
    )


def _priority_class(metadata: Metadata, manifest: Mapping[str, Any]) -> core.PriorityClass:
    return core.PriorityClass(
        metadata=metadata,
        value=integer_at(manifest, "value", at="value"),
        is_global_default=flag_at(manifest, "globalDefault", at="globalDefault"),
        preemption_policy=text_at(manifest, "preemptionPolicy", at="preemptionPolicy", default="PreemptLowerPriority"),
    )


def _namespace(metadata: Metadata, manifest: Mapping[str, Any]) -> core.Namespace:
    status = mapping_at(manifest, "status", at="status")
    return core.Namespace(metadata=metadata, phase=text_at(status, "phase", at="status.phase", default="Active"))


def _device_object(kind: Kind) -> Callable[[Metadata, Mapping[str, Any]], core.DeviceObject]:
    def carried(metadata: Metadata, manifest: Mapping[str, Any]) -> core.DeviceObject:
        status = mapping_at(manifest, "status", at="status")
        return core.DeviceObject(
            metadata=metadata,
            kind=kind,
            spec_json=_canonical(mapping_at(manifest, "spec", at="spec")),
            status_json=_canonical(status) if status else b"",
        )

    return carried


def _canonical(document: Mapping[str, Any]) -> bytes:
    """Return JSON that is equal for equal documents, so that a new order of keys is no news."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


_REDUCERS: Mapping[Kind, Callable[[Metadata, Mapping[str, Any]], KubernetesObject]] = {
    Kind.NODE: _node,
    Kind.POD: reduce_pod,
    Kind.POD_GROUP: _pod_group,
    Kind.WORKLOAD: _workload,
    Kind.PRIORITY_CLASS: _priority_class,
    Kind.NAMESPACE: _namespace,
    Kind.RESOURCE_SLICE: _device_object(Kind.RESOURCE_SLICE),
    Kind.RESOURCE_CLAIM: _device_object(Kind.RESOURCE_CLAIM),
    Kind.RESOURCE_CLAIM_TEMPLATE: _device_object(Kind.RESOURCE_CLAIM_TEMPLATE),
    Kind.DEVICE_CLASS: _device_object(Kind.DEVICE_CLASS),
    Kind.DEVICE_TAINT_RULE: _device_object(Kind.DEVICE_TAINT_RULE),
    Kind.JOB: reduce_job,
    Kind.PERSISTENT_VOLUME_CLAIM: reduce_claim,
    Kind.PERSISTENT_VOLUME: reduce_volume,
    Kind.STORAGE_CLASS: reduce_storage_class,
    Kind.CSI_NODE: reduce_csi_node,
    Kind.STATEFUL_SET: reduce_stateful_set,
    Kind.COSCHEDULING_GROUP: reduce_declared(Kind.COSCHEDULING_GROUP),
    Kind.VOLCANO_GROUP: reduce_declared(Kind.VOLCANO_GROUP),
    Kind.JOB_SET: reduce_job_set,
    Kind.LEADER_WORKER_SET: reduce_leader_worker_set,
    Kind.RAY_CLUSTER: reduce_ray_cluster,
    Kind.PYTORCH_JOB: reduce_training_job(Kind.PYTORCH_JOB, replicas_key="pytorchReplicaSpecs"),
    Kind.TF_JOB: reduce_training_job(Kind.TF_JOB, replicas_key="tfReplicaSpecs"),
    Kind.MPI_JOB: reduce_training_job(Kind.MPI_JOB, replicas_key="mpiReplicaSpecs"),
}
