"""Pods between the core's value and `phalanx.cluster.v1.Pod`."""

from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.contracts.pod_devices_codec import decode_devices, encode_devices
from services.contracts.rules_codec import decode_rules, decode_term, encode_rules, encode_term
from services.contracts.timestamps import from_timestamp, to_timestamp
from services.core import objects as core
from services.core.constraints import NO_RULES, Toleration
from services.core.objects import Metadata
from services.core.pod_devices import NO_DEVICES


def fill_pod(event: pb.ClusterEvent, item: core.Pod) -> None:
    """Write a pod into an event."""
    event.pod.CopyFrom(
        pb.Pod(
            scheduler_name=item.scheduler_name,
            group=item.group,
            node=item.node,
            phase=item.phase,
            gated=item.is_gated,
            requests=dict(item.requests),
            priority=item.priority,
            never_preempts=item.never_preempts,
            node_selector=dict(item.node_selector),
            has_node_affinity=item.node_affinity is not None,
            node_affinity=[encode_term(term) for term in item.node_affinity or ()],
            tolerations=[
                pb.Toleration(key=one.key, operator=one.operator, value=one.value, effect=one.effect)
                for one in item.tolerations
            ],
            unsupported=item.unsupported,
            started=item.has_started,
            unscheduled_reason=item.unscheduled_reason,
            rules=encode_rules(item.rules),
            devices=None if item.devices == NO_DEVICES else encode_devices(item.devices),
            unreadable=item.unreadable,
            failure=item.failure,
            rejected_at=None if item.rejected_at is None else to_timestamp(item.rejected_at),
        )
    )


def read_pod(metadata: Metadata, event: pb.ClusterEvent) -> core.Pod:
    """Return the pod of an event. Raises TimeOutOfRange."""
    pod = event.pod
    return core.Pod(
        metadata=metadata,
        scheduler_name=pod.scheduler_name,
        group=pod.group,
        node=core.NodeName(pod.node),
        phase=pod.phase,
        is_gated=pod.gated,
        requests=dict(pod.requests),
        priority=pod.priority,
        never_preempts=pod.never_preempts,
        node_selector=dict(pod.node_selector),
        node_affinity=tuple(decode_term(term) for term in pod.node_affinity) if pod.has_node_affinity else None,
        tolerations=tuple(
            Toleration(key=one.key, operator=one.operator, value=one.value, effect=one.effect)
            for one in pod.tolerations
        ),
        unsupported=tuple(pod.unsupported),
        has_started=pod.started,
        unscheduled_reason=pod.unscheduled_reason,
        rules=decode_rules(pod.rules) if pod.HasField("rules") else NO_RULES,
        devices=decode_devices(pod.devices) if pod.HasField("devices") else NO_DEVICES,
        unreadable=pod.unreadable,
        failure=pod.failure,
        rejected_at=from_timestamp(pod.rejected_at) if pod.HasField("rejected_at") else None,
    )
