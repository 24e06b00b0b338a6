"""Which documents of a manifest file are read, by group and kind: a PodGroup may be one of three things."""

from collections.abc import Mapping
from typing import Any

from services.core.objects import Kind

_SCHEDULING, _RESOURCE, _STORAGE, _TRAINING = "scheduling.k8s.io", "resource.k8s.io", "storage.k8s.io", "kubeflow.org"

_KINDS: Mapping[tuple[str, str], Kind] = {
    ("", "Node"): Kind.NODE,
    ("", "Pod"): Kind.POD,
    ("", "Namespace"): Kind.NAMESPACE,
    ("", "PersistentVolumeClaim"): Kind.PERSISTENT_VOLUME_CLAIM,
    ("", "PersistentVolume"): Kind.PERSISTENT_VOLUME,
    (_SCHEDULING, "PodGroup"): Kind.POD_GROUP,
    (_SCHEDULING, "Workload"): Kind.WORKLOAD,
    (_SCHEDULING, "PriorityClass"): Kind.PRIORITY_CLASS,
    (_RESOURCE, "ResourceSlice"): Kind.RESOURCE_SLICE,
    (_RESOURCE, "ResourceClaim"): Kind.RESOURCE_CLAIM,
    (_RESOURCE, "ResourceClaimTemplate"): Kind.RESOURCE_CLAIM_TEMPLATE,
    (_RESOURCE, "DeviceClass"): Kind.DEVICE_CLASS,
    (_RESOURCE, "DeviceTaintRule"): Kind.DEVICE_TAINT_RULE,
    (_STORAGE, "StorageClass"): Kind.STORAGE_CLASS,
    (_STORAGE, "CSINode"): Kind.CSI_NODE,
    ("batch", "Job"): Kind.JOB,
    ("apps", "StatefulSet"): Kind.STATEFUL_SET,
    ("scheduling.x-k8s.io", "PodGroup"): Kind.COSCHEDULING_GROUP,
    ("scheduling.volcano.sh", "PodGroup"): Kind.VOLCANO_GROUP,
    ("jobset.x-k8s.io", "JobSet"): Kind.JOB_SET,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): Kind.LEADER_WORKER_SET,
    ("ray.io", "RayCluster"): Kind.RAY_CLUSTER,
    (_TRAINING, "PyTorchJob"): Kind.PYTORCH_JOB,
    (_TRAINING, "TFJob"): Kind.TF_JOB,
    (_TRAINING, "MPIJob"): Kind.MPI_JOB,
}
_FIRST_OF_NAME: Mapping[str, Kind] = {name: kind for (_, name), kind in reversed(list(_KINDS.items()))}
"""Kinds by name alone, for documents without apiVersion: Kubernetes' own where there are several."""

_CLUSTER_SCOPED = frozenset(
    {
        Kind.NODE,
        Kind.NAMESPACE,
        Kind.PERSISTENT_VOLUME,
        Kind.PRIORITY_CLASS,
        Kind.RESOURCE_SLICE,
        Kind.DEVICE_CLASS,
        Kind.DEVICE_TAINT_RULE,
        Kind.STORAGE_CLASS,
        Kind.CSI_NODE,
    }
)


def group_of(manifest: Mapping[str, Any]) -> str | None:
    """Return the API group of a document, empty for the core group; None where it states no apiVersion."""
    version = str(manifest.get("apiVersion") or "")
    group, slash, _ = version.partition("/")
    return (group if slash else "") if version else None


def kind_of_manifest(manifest: Mapping[str, Any]) -> Kind | None:
    """Return the kind of a document, or None for what placement does not read."""
    name, group = str(manifest.get("kind")), group_of(manifest)
    return _FIRST_OF_NAME.get(name) if group is None else _KINDS.get((group, name))


def is_namespaced(kind: Kind | None) -> bool:
    """Tell whether objects of a kind live in a namespace; workloads of kinds that are not read do."""
    return kind not in _CLUSTER_SCOPED
