"""Objects of storage, between the core's values and their messages in `phalanx.cluster.v1`."""

from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.contracts.rules_codec import decode_term, encode_term
from services.core.objects import CsiNode, Metadata, StorageClass, Volume, VolumeClaim


def fill_volume_claim(event: pb.ClusterEvent, item: VolumeClaim) -> None:
    """Put a PersistentVolumeClaim into an event."""
    event.volume_claim.CopyFrom(
        pb.VolumeClaim(
            volume=item.volume,
            storage_class=item.storage_class,
            phase=item.phase,
            bound=item.is_bound,
            single_pod=item.is_single_pod,
        )
    )


def read_volume_claim(metadata: Metadata, event: pb.ClusterEvent) -> VolumeClaim:
    """Return the PersistentVolumeClaim of an event."""
    claim = event.volume_claim
    return VolumeClaim(
        metadata=metadata,
        volume=claim.volume,
        storage_class=claim.storage_class,
        phase=claim.phase,
        is_bound=claim.bound,
        is_single_pod=claim.single_pod,
    )


def fill_volume(event: pb.ClusterEvent, item: Volume) -> None:
    """Put a PersistentVolume into an event."""
    event.volume.CopyFrom(
        pb.Volume(
            node_affinity=[encode_term(term) for term in item.node_affinity or ()],
            has_node_affinity=item.node_affinity is not None,
            driver=item.driver,
            handle=item.handle,
        )
    )


def read_volume(metadata: Metadata, event: pb.ClusterEvent) -> Volume:
    """Return the PersistentVolume of an event."""
    volume = event.volume
    terms = tuple(decode_term(term) for term in volume.node_affinity)
    return Volume(
        metadata=metadata,
        node_affinity=terms if volume.has_node_affinity else None,
        driver=volume.driver,
        handle=volume.handle,
    )


def fill_storage_class(event: pb.ClusterEvent, item: StorageClass) -> None:
    """Put a StorageClass into an event."""
    event.storage_class.CopyFrom(pb.StorageClass(binding_mode=item.binding_mode, provisioner=item.provisioner))


def read_storage_class(metadata: Metadata, event: pb.ClusterEvent) -> StorageClass:
    """Return the StorageClass of an event."""
    return StorageClass(
        metadata=metadata,
        binding_mode=event.storage_class.binding_mode,
        provisioner=event.storage_class.provisioner,
    )


def fill_csi_node(event: pb.ClusterEvent, item: CsiNode) -> None:
    """Put a CSINode into an event."""
    event.csi_node.CopyFrom(pb.CsiNode(limits=dict(item.limits)))


def read_csi_node(metadata: Metadata, event: pb.ClusterEvent) -> CsiNode:
    """Return the CSINode of an event."""
    return CsiNode(metadata=metadata, limits=dict(event.csi_node.limits))
