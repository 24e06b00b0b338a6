"""Builders of cluster objects for tests: valid defaults, so that a test states only what it is about.

Each object exists twice, as the core's value and as the API's JSON (`*_manifest`). With the same arguments both
describe the same object, up to what the API server adds (uid, resourceVersion, creationTimestamp).
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from services.core.cluster import NEEDED_KINDS, OPTIONAL_KINDS
from services.core.constraints import Taint
from services.core.gangs import Gang, assemble, gang_id_of, group_gang_id
from services.core.names import SCHEDULER_NAME
from services.core.objects import (
    Applied,
    ClusterChange,
    Deleted,
    Kind,
    KubernetesObject,
    Metadata,
    Node,
    NodeName,
    Owner,
    Pod,
    PodGroup,
    Uid,
    WatchPhase,
    WatchState,
    kind_of,
)
from services.core.pod_devices import ContainerResource, PodDevices

GPU = "nvidia.com/gpu"
NAMESPACE = "team-a"
START = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
"""When the objects of tests come to be."""

Manifest = dict[str, Any]


def seconds(count: float) -> timedelta:
    """A duration, for tests that move their clock."""
    return timedelta(seconds=count)


def node(
    name: str = "n1",
    *,
    gpus: int = 8,
    cpu: int = 96_000,
    memory: int = 2**40,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    version: str = "1",
    created_at: datetime = START,
    uid: str | None = None,
    **fields: Any,
) -> Node:
    """A ready node; `cpu` in millicores, `memory` in bytes. Further fields are those of Node."""
    metadata = Metadata(
        name=name,
        uid=Uid(f"uid-{name}" if uid is None else uid),
        resource_version=version,
        created_at=created_at,
        labels={"kubernetes.io/hostname": name} | dict(labels or {}),
    )
    offered = {"cpu": cpu, "memory": memory, "pods": pods} | ({GPU: gpus} if gpus else {})
    values: dict[str, Any] = {"metadata": metadata, "allocatable": offered, "taints": taints}
    return Node(**values | fields)


def pod(
    name: str = "w-0",
    *,
    namespace: str = NAMESPACE,
    group: str = "",
    gpus: int = 1,
    cpu: int = 0,
    memory: int = 0,
    node: str = "",
    scheduler: str = SCHEDULER_NAME,
    uid: str | None = None,
    version: str = "1",
    created_at: datetime = START,
    deleted_at: datetime | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: tuple[Owner, ...] = (),
    **fields: Any,
) -> Pod:
    """A pod that waits for our scheduler, or is bound where `node` is given. Further fields are those of Pod."""
    metadata = Metadata(
        name=name,
        namespace=namespace,
        uid=Uid(f"uid-{namespace}-{name}" if uid is None else uid),
        resource_version=version,
        created_at=created_at,
        deleted_at=deleted_at,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        owners=owners,
    )
    asked = {GPU: gpus, "cpu": cpu, "memory": memory}
    values: dict[str, Any] = {
        "metadata": metadata,
        "scheduler_name": scheduler,
        "group": group,
        "node": NodeName(node),
        "requests": {resource: amount for resource, amount in asked.items() if amount} | {"pods": 1},
    }
    if gpus:
        position = sorted(asked).index(GPU) - (not cpu) - (not memory)
        used = ContainerResource(index=0, position=position, container="main", resource=GPU, amount=gpus)
        values["devices"] = PodDevices(extended=(used,))
    return Pod(**values | fields)


def pod_group(
    name: str = "g",
    *,
    min_count: int,
    namespace: str = NAMESPACE,
    priority: int = 0,
    created_at: datetime = START,
    uid: str | None = None,
    version: str = "1",
    annotations: Mapping[str, str] | None = None,
    **fields: Any,
) -> PodGroup:
    """A PodGroup with the gang policy. Further fields are those of PodGroup."""
    metadata = Metadata(
        name=name,
        namespace=namespace,
        uid=Uid(f"uid-{namespace}-{name}" if uid is None else uid),
        resource_version=version,
        created_at=created_at,
        annotations=dict(annotations or {}),
    )
    values: dict[str, Any] = {"metadata": metadata, "min_count": min_count, "priority": priority}
    return PodGroup(**values | fields)


def members(group: str, *, count: int, **fields: Any) -> tuple[Pod, ...]:
    """That many equal pods of a group, named `<group>-<index>`. Further fields are those of `pod`."""
    return tuple(pod(f"{group}-{index}", group=group, **fields) for index in range(count))


def gang(name: str = "g", *, size: int, min_count: int | None = None, priority: int = 0, **fields: Any) -> Gang:
    """A declared gang of equal open members. Further fields are those of `pod`."""
    namespace = fields.get("namespace", NAMESPACE)
    group = pod_group(name, min_count=size if min_count is None else min_count, namespace=namespace, priority=priority)
    return assemble(group_gang_id(group), pods=members(name, count=size, **fields), group=group)


def lone_gang(item: Pod) -> Gang:
    """The gang that one pod makes where it names no group."""
    return assemble(gang_id_of(item), pods=(item,), group=None)


def applied(item: KubernetesObject) -> Applied:
    """The change that shows an object."""
    return Applied(object=item)


def deleted(item: KubernetesObject) -> Deleted:
    """The tombstone of an object."""
    return Deleted(kind=kind_of(item), metadata=item.metadata)


def watch(kind: Kind, *, phase: WatchPhase = WatchPhase.SYNCED, **fields: Any) -> WatchState:
    """How far one kind is followed."""
    return WatchState(metadata=Metadata(name=kind.value), phase=phase, **fields)


def synced() -> tuple[ClusterChange, ...]:
    """The changes after which decisions may be made: every needed kind is followed to its end."""
    return tuple(Applied(object=watch(kind)) for kind in (*NEEDED_KINDS, *OPTIONAL_KINDS))


def node_manifest(
    name: str = "n1",
    *,
    gpus: int = 8,
    cpu: int = 96_000,
    memory: int = 2**40,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    is_unschedulable: bool = False,
    is_ready: bool = True,
) -> Manifest:
    """A Node as its kubelet would report it."""
    amounts = {"cpu": f"{cpu}m", "memory": str(memory), "pods": str(pods)} | ({GPU: str(gpus)} if gpus else {})
    spec: Manifest = {"unschedulable": True} if is_unschedulable else {}
    if taints:
        spec["taints"] = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name} | dict(labels or {})},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True" if is_ready else "False", "reason": "Test"}],
        },
    }


def pod_spec(
    *, group: str = "", gpus: int = 1, cpu: int = 0, memory: int = 0, scheduler: str = SCHEDULER_NAME, **spec: Any
) -> Manifest:
    """The spec of a pod with one container. Further fields are those of the API's PodSpec."""
    asked = {GPU: str(gpus) if gpus else "", "cpu": f"{cpu}m" if cpu else "", "memory": str(memory) if memory else ""}
    requests = {resource: amount for resource, amount in asked.items() if amount}
    # An extended resource must be limited too, to the same amount.
    limits = {GPU: requests[GPU]} if gpus else {}
    container = {
        "name": "main",
        "image": "registry.example.com/none:1",
        "resources": {"requests": requests} | ({"limits": limits} if limits else {}),
    }
    grouped: Manifest = {"schedulingGroup": {"podGroupName": group}} if group else {}
    return {"schedulerName": scheduler, "containers": [container]} | grouped | spec


def pod_manifest(
    name: str = "w-0",
    *,
    namespace: str = NAMESPACE,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A Pod. Further arguments are those of `pod_spec`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(name, namespace=namespace, labels=labels, annotations=annotations),
        "spec": pod_spec(**spec),
    }


def pod_group_manifest(
    name: str = "g",
    *,
    min_count: int,
    namespace: str = NAMESPACE,
    priority: int | None = None,
    version: str = "v1beta1",
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A PodGroup with the gang policy. Further fields are those of its spec."""
    wanted: Manifest = {} if priority is None else {"priority": priority}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": _metadata(name, namespace=namespace, annotations=annotations),
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}} | wanted | spec,
    }


def job_manifest(
    name: str = "j",
    *,
    count: int = 2,
    group: str = "",
    namespace: str = NAMESPACE,
    pod_labels: Mapping[str, str] | None = None,
    pod_fields: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """An Indexed Job of `count` parallel pods. `pod_fields` are arguments of `pod_spec`; the rest is of its spec."""
    template: Manifest = {
        "metadata": {"labels": {"app": name} | dict(pod_labels or {})},
        "spec": pod_spec(**{"group": group, "restartPolicy": "Never"} | dict(pod_fields or {})),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, namespace=namespace),
        "spec": {"parallelism": count, "completions": count, "completionMode": "Indexed", "template": template} | spec,
    }


def namespace_manifest(name: str = NAMESPACE) -> Manifest:
    """A Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _metadata(
    name: str,
    *,
    namespace: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Manifest:
    optional = {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
    return {"name": name, "namespace": namespace} | {key: value for key, value in optional.items() if value}
