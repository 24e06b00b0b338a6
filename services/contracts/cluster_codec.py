"""Cluster changes between the core's values and `phalanx.cluster.v1.ClusterEvent`."""

from collections.abc import Callable

from google.protobuf.message import DecodeError

from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.contracts.pod_codec import fill_pod, read_pod
from services.contracts.pod_devices_codec import decode_claims, encode_claims
from services.contracts.storage_codec import (
    fill_csi_node,
    fill_storage_class,
    fill_volume,
    fill_volume_claim,
    read_csi_node,
    read_storage_class,
    read_volume,
    read_volume_claim,
)
from services.contracts.subjects import CLUSTER, cluster_subject
from services.contracts.timestamps import TimeOutOfRange, from_timestamp, to_timestamp
from services.contracts.workload_codec import fill_group_source, fill_job, read_group_source, read_job
from services.core import objects as core
from services.core.constraints import Taint
from services.core.objects import Applied, ClusterChange, ClusterObject, Deleted, Kind, Metadata


class UndecodableMessage(ValueError):
    """Bytes that are not a message of the expected type, or a message without what it must carry."""


class UnknownKind(UndecodableMessage):
    """A message about a kind that this release does not know: nothing is wrong with it, a later watcher wrote it."""


_KIND_TOKEN = 3
"""Place of the kind in a cluster subject: phalanx.cluster.v1.<kind>…"""

_DEVICE_KINDS = {
    Kind.RESOURCE_SLICE: "ResourceSlice",
    Kind.RESOURCE_CLAIM: "ResourceClaim",
    Kind.RESOURCE_CLAIM_TEMPLATE: "ResourceClaimTemplate",
    Kind.DEVICE_CLASS: "DeviceClass",
    Kind.DEVICE_TAINT_RULE: "DeviceTaintRule",
}
_DEVICE_KINDS_BACK = {name: kind for kind, name in _DEVICE_KINDS.items()}
_PHASES = {
    core.WatchPhase.LISTING: pb.WATCH_PHASE_LISTING,
    core.WatchPhase.SYNCED: pb.WATCH_PHASE_SYNCED,
    core.WatchPhase.ABSENT: pb.WATCH_PHASE_ABSENT,
}
_PHASES_BACK = {number: phase for phase, number in _PHASES.items()}


def read_change(subject: str, data: bytes) -> ClusterChange:
    """Return the change that a message of the cluster stream states. Raises UnknownKind and UndecodableMessage."""
    tokens = subject.split(".")
    word = tokens[_KIND_TOKEN] if len(tokens) > _KIND_TOKEN else ""
    try:
        kind = Kind(word)
    except ValueError as error:
        raise UnknownKind(f"kind {word!r} is not known to this release") from error
    change = decode_change(kind, data)
    expected = change_subject(change)
    if expected != subject:
        raise UndecodableMessage(f"is about an object that has another subject: {expected}")
    return change


def change_id(change: ClusterChange) -> str:
    """Return the event's id: uid and version, or uid and `deleted` for a tombstone.

    A WatchState has neither; its id is unique by what it says.
    """
    if isinstance(change, Deleted):
        return f"{change.metadata.uid}/deleted"
    if isinstance(change.object, core.WatchState):
        state = change.object
        return f"watch/{state.metadata.name}/{state.phase}/{state.api_version}/{state.resource_version}"
    return f"{change.metadata.uid}/{change.metadata.resource_version}"


def change_type(change: ClusterChange) -> str:
    """Return the CloudEvents type of a change."""
    return f"{CLUSTER}.{change.kind.value}.{'deleted' if isinstance(change, Deleted) else 'applied'}"


def change_subject(change: ClusterChange) -> str:
    """Return the bus subject of a change."""
    return cluster_subject(change.kind, change.metadata)


def encode_change(change: ClusterChange) -> bytes:
    """Return a change as bytes. The same change always gives the same bytes."""
    event = pb.ClusterEvent(metadata=_encode_metadata(change.metadata), deleted=isinstance(change, Deleted))
    if isinstance(change, Applied):
        _FILLERS[type(change.object)](event, change.object)
    return event.SerializeToString(deterministic=True)


def decode_change(kind: Kind, data: bytes) -> ClusterChange:
    """Return the change that `data` states; `kind` is the token of the subject it was read from.

    Raises UndecodableMessage.
    """
    event = pb.ClusterEvent()
    try:
        event.ParseFromString(data)
    except DecodeError as error:
        raise UndecodableMessage(f"expected a phalanx.cluster.v1.ClusterEvent of kind {kind}: {error}") from error
    try:
        metadata = _decode_metadata(event.metadata)
    except TimeOutOfRange as error:
        raise UndecodableMessage(f"a ClusterEvent of kind {kind} about {event.metadata.name!r}: {error}") from error
    if event.deleted:
        return Deleted(kind=kind, metadata=metadata)
    which = event.WhichOneof("object")
    if which is None:
        raise UndecodableMessage(f"a ClusterEvent of kind {kind} carries neither an object nor a deletion")
    return Applied(object=_READERS[which](metadata, event))


def _encode_metadata(metadata: Metadata) -> pb.Metadata:
    return pb.Metadata(
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        name=metadata.name,
        namespace=metadata.namespace,
        created_at=to_timestamp(metadata.created_at),
        deleted_at=None if metadata.deleted_at is None else to_timestamp(metadata.deleted_at),
        labels=dict(metadata.labels),
        annotations=dict(metadata.annotations),
        owners=[
            pb.Owner(
                kind=owner.kind,
                name=owner.name,
                uid=owner.uid,
                controller=owner.is_controller,
                api_version=owner.api_version,
            )
            for owner in metadata.owners
        ],
    )


def _decode_metadata(message: pb.Metadata) -> Metadata:
    return Metadata(
        name=message.name,
        namespace=message.namespace,
        uid=core.Uid(message.uid),
        resource_version=message.resource_version,
        created_at=from_timestamp(message.created_at),
        deleted_at=from_timestamp(message.deleted_at) if message.HasField("deleted_at") else None,
        labels=dict(message.labels),
        annotations=dict(message.annotations),
        owners=tuple(
            core.Owner(
                kind=owner.kind,
                name=owner.name,
                uid=core.Uid(owner.uid),
                is_controller=owner.controller,
                api_version=owner.api_version,
            )
            for owner in message.owners
        ),
    )


def _fill_node(event: pb.ClusterEvent, item: core.Node) -> None:
    event.node.CopyFrom(
        pb.Node(
            allocatable=dict(item.allocatable),
            unschedulable=item.is_unschedulable,
            taints=[pb.Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in item.taints],
            ready=item.is_ready,
            features=item.features,
        )
    )


def _read_node(metadata: Metadata, event: pb.ClusterEvent) -> core.Node:
    node = event.node
    return core.Node(
        metadata=metadata,
        allocatable=dict(node.allocatable),
        is_unschedulable=node.unschedulable,
        taints=tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in node.taints),
        is_ready=node.ready,
        features=tuple(node.features),
    )


def _fill_pod_group(event: pb.ClusterEvent, item: core.PodGroup) -> None:
    event.pod_group.CopyFrom(
        pb.PodGroup(
            min_count=item.min_count,
            is_gang=item.is_gang,
            priority=item.priority,
            priority_class=item.priority_class,
            workload=item.workload,
            template=item.template,
            disrupts_all=item.disrupts_all,
            initially_scheduled=item.initially_scheduled,
            topology_keys=item.topology_keys,
            claims=encode_claims(item.claims),
        )
    )


def _read_pod_group(metadata: Metadata, event: pb.ClusterEvent) -> core.PodGroup:
    group = event.pod_group
    return core.PodGroup(
        metadata=metadata,
        min_count=group.min_count,
        is_gang=group.is_gang,
        priority=group.priority,
        priority_class=group.priority_class,
        workload=group.workload,
        template=group.template,
        disrupts_all=group.disrupts_all,
        initially_scheduled=group.initially_scheduled,
        topology_keys=tuple(group.topology_keys),
        claims=decode_claims(group.claims),
    )


def _fill_workload(event: pb.ClusterEvent, item: core.Workload) -> None:
    event.workload.CopyFrom(
        pb.Workload(
            templates=item.templates,
            controller_kind=item.controller_kind,
            controller_name=item.controller_name,
        )
    )


def _read_workload(metadata: Metadata, event: pb.ClusterEvent) -> core.Workload:
    return core.Workload(
        metadata=metadata,
        templates=tuple(event.workload.templates),
        controller_kind=event.workload.controller_kind,
        controller_name=event.workload.controller_name,
    )


def _fill_priority_class(event: pb.ClusterEvent, item: core.PriorityClass) -> None:
    event.priority_class.CopyFrom(
        pb.PriorityClass(
            value=item.value, global_default=item.is_global_default, preemption_policy=item.preemption_policy
        )
    )


def _read_priority_class(metadata: Metadata, event: pb.ClusterEvent) -> core.PriorityClass:
    return core.PriorityClass(
        metadata=metadata,
        value=event.priority_class.value,
        is_global_default=event.priority_class.global_default,
        preemption_policy=event.priority_class.preemption_policy,
    )


def _fill_namespace(event: pb.ClusterEvent, item: core.Namespace) -> None:
    event.namespace.CopyFrom(pb.Namespace(phase=item.phase))


def _read_namespace(metadata: Metadata, event: pb.ClusterEvent) -> core.Namespace:
    return core.Namespace(metadata=metadata, phase=event.namespace.phase)


def _fill_device_object(event: pb.ClusterEvent, item: core.DeviceObject) -> None:
    event.device_object.CopyFrom(
        pb.DeviceObject(kind=_DEVICE_KINDS[item.kind], spec_json=item.spec_json, status_json=item.status_json)
    )


def _read_device_object(metadata: Metadata, event: pb.ClusterEvent) -> core.DeviceObject:
    kind = _DEVICE_KINDS_BACK.get(event.device_object.kind)
    if kind is None:
        raise UndecodableMessage(f"unknown device object kind {event.device_object.kind!r} of {metadata.name}")
    return core.DeviceObject(
        metadata=metadata,
        kind=kind,
        spec_json=event.device_object.spec_json,
        status_json=event.device_object.status_json,
    )


def _fill_watch_state(event: pb.ClusterEvent, item: core.WatchState) -> None:
    event.watch_state.CopyFrom(
        pb.WatchState(
            kind=item.metadata.name,
            phase=_PHASES[item.phase],
            api_version=item.api_version,
            resource_version=item.resource_version,
            object_count=item.object_count,
        )
    )


def _read_watch_state(metadata: Metadata, event: pb.ClusterEvent) -> core.WatchState:
    phase = _PHASES_BACK.get(event.watch_state.phase)
    if phase is None:
        raise UndecodableMessage(f"unknown watch phase {event.watch_state.phase} of kind {metadata.name}")
    return core.WatchState(
        metadata=metadata,
        phase=phase,
        api_version=event.watch_state.api_version,
        resource_version=event.watch_state.resource_version,
        object_count=event.watch_state.object_count,
    )


def _read_group_source(metadata: Metadata, event: pb.ClusterEvent) -> core.GroupSource:
    try:
        return read_group_source(metadata, event)
    except ValueError as error:
        raise UndecodableMessage(f"unknown kind {event.group_source.kind!r} of {metadata.name}") from error


_FILLERS: dict[type, Callable[[pb.ClusterEvent, ClusterObject], None]] = {
    core.Node: _fill_node,  # type: ignore[dict-item]  # each filler is called with the type that is its key
    core.Pod: fill_pod,  # type: ignore[dict-item]
    core.PodGroup: _fill_pod_group,  # type: ignore[dict-item]
    core.Workload: _fill_workload,  # type: ignore[dict-item]
    core.PriorityClass: _fill_priority_class,  # type: ignore[dict-item]
    core.Namespace: _fill_namespace,  # type: ignore[dict-item]
    core.DeviceObject: _fill_device_object,  # type: ignore[dict-item]
    core.WatchState: _fill_watch_state,  # type: ignore[dict-item]
    core.Job: fill_job,  # type: ignore[dict-item]
    core.VolumeClaim: fill_volume_claim,  # type: ignore[dict-item]
    core.Volume: fill_volume,  # type: ignore[dict-item]
    core.StorageClass: fill_storage_class,  # type: ignore[dict-item]
    core.CsiNode: fill_csi_node,  # type: ignore[dict-item]
    core.GroupSource: fill_group_source,  # type: ignore[dict-item]
}
_READERS: dict[str, Callable[[Metadata, pb.ClusterEvent], ClusterObject]] = {
    "node": _read_node,
    "pod": read_pod,
    "pod_group": _read_pod_group,
    "workload": _read_workload,
    "priority_class": _read_priority_class,
    "namespace": _read_namespace,
    "device_object": _read_device_object,
    "watch_state": _read_watch_state,
    "job": read_job,
    "volume_claim": read_volume_claim,
    "volume": read_volume,
    "storage_class": read_storage_class,
    "csi_node": read_csi_node,
    "group_source": _read_group_source,
}
