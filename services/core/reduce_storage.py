"""Reducers of what storage demands of nodes: claims, volumes, their classes, and how many a node can attach."""

from collections.abc import Mapping
from typing import Any

from services.core.manifests import FieldError, integer_at, mapping_at, numbered, text_at, texts_at
from services.core.objects import CsiNode, Metadata, StorageClass, Volume, VolumeClaim
from services.core.reduce_rules import node_terms

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim to whose binding the volume controller has set its seal."""
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
"""An old way to state a claim's class; where it is present, it wins."""


def reduce_claim(metadata: Metadata, manifest: Mapping[str, Any]) -> VolumeClaim:
    """Return a PersistentVolumeClaim. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    written = mapping_at(mapping_at(manifest, "metadata", at="metadata"), "annotations", at="metadata.annotations")
    volume = text_at(spec, "volumeName", at="spec.volumeName")
    in_spec = text_at(spec, "storageClassName", at="spec.storageClassName")
    return VolumeClaim(
        metadata=metadata,
        volume=volume,
        storage_class=text_at(written, CLASS_ANNOTATION, at=f"metadata.annotations[{CLASS_ANNOTATION}]") or in_spec,
        phase=text_at(status, "phase", at="status.phase", default="Pending"),
        is_bound=bool(volume) and BIND_COMPLETED in written,
        is_single_pod="ReadWriteOncePod" in texts_at(spec, "accessModes", at="spec.accessModes"),
    )


def reduce_volume(metadata: Metadata, manifest: Mapping[str, Any]) -> Volume:
    """Return a PersistentVolume. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    affinity = mapping_at(spec, "nodeAffinity", at="spec.nodeAffinity")
    csi = mapping_at(spec, "csi", at="spec.csi")
    terms = None
    if affinity.get("required") is not None:
        at = "spec.nodeAffinity.required"
        terms = node_terms(mapping_at(affinity, "required", at=at), at=at)
    return Volume(
        metadata=metadata,
        node_affinity=terms,
        driver=text_at(csi, "driver", at="spec.csi.driver"),
        handle=text_at(csi, "volumeHandle", at="spec.csi.volumeHandle"),
    )


def reduce_storage_class(metadata: Metadata, manifest: Mapping[str, Any]) -> StorageClass:
    """Return a StorageClass. Raises FieldError."""
    return StorageClass(
        metadata=metadata,
        binding_mode=text_at(manifest, "volumeBindingMode", at="volumeBindingMode", default="Immediate"),
        provisioner=text_at(manifest, "provisioner", at="provisioner"),
    )


def reduce_csi_node(metadata: Metadata, manifest: Mapping[str, Any]) -> CsiNode:
    """Return a CSINode: of its drivers only those that state a limit. Raises FieldError."""
    limits = {}
    spec = mapping_at(manifest, "spec", at="spec")
    for path, item in numbered(spec, "drivers", at="spec.drivers"):
        allocatable = mapping_at(item, "allocatable", at=f"{path}.allocatable")
        if allocatable.get("count") is None:
            continue
        count = integer_at(allocatable, "count", at=f"{path}.allocatable.count")
        if count < 0:
            raise FieldError(field=f"{path}.allocatable.count", expected="at least 0", got=count)
        limits[text_at(item, "name", at=f"{path}.name")] = count
    return CsiNode(metadata=metadata, limits=limits)
