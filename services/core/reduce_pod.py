"""A pod reduced to what placement needs. Requests are counted in `services.core.pod_requests`."""

from collections.abc import Mapping
from typing import Any

from services.core.constraints import Toleration
from services.core.manifests import (
    FieldError,
    condition,
    integer_at,
    mapping_at,
    numbered,
    objects_at,
    text_at,
    text_mapping_at,
    time_at,
)
from services.core.membership import is_name, names_of_groups
from services.core.objects import Metadata, NodeName, Pod
from services.core.pod_requests import effective_requests
from services.core.quantities import MAX_AMOUNT, PODS
from services.core.reduce_devices import reduce_devices
from services.core.reduce_rules import reduce_rules, required_node_terms

_NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a terminated container whose process never ran."""


def reduce_pod(metadata: Metadata, manifest: Mapping[str, Any]) -> Pod:
    """Return what placement needs of a pod. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    scheduled = condition(status, "PodScheduled")
    group = mapping_at(spec, "schedulingGroup", at="spec.schedulingGroup")
    group_name = text_at(group, "podGroupName", at="spec.schedulingGroup.podGroupName")
    phase = text_at(status, "phase", at="status.phase", default="Pending")
    is_failed, has_started = phase == "Failed", _has_started(status)
    return Pod(
        metadata=metadata,
        scheduler_name=text_at(spec, "schedulerName", at="spec.schedulerName", default="default-scheduler"),
        group=group_name,
        unreadable=_unreadable_group(metadata, group=group_name),
        node=NodeName(text_at(spec, "nodeName", at="spec.nodeName")),
        phase=phase,
        is_gated=bool(objects_at(spec, "schedulingGates", at="spec.schedulingGates")),
        requests=effective_requests(manifest),
        priority=integer_at(spec, "priority", at="spec.priority"),
        never_preempts=text_at(spec, "preemptionPolicy", at="spec.preemptionPolicy") == "Never",
        node_selector=text_mapping_at(spec, "nodeSelector", at="spec.nodeSelector"),
        node_affinity=required_node_terms(spec),
        tolerations=tuple(
            Toleration(
                key=text_at(item, "key", at=f"{path}.key"),
                operator=text_at(item, "operator", at=f"{path}.operator", default="Equal"),
                value=text_at(item, "value", at=f"{path}.value"),
                effect=text_at(item, "effect", at=f"{path}.effect"),
            )
            for path, item in numbered(spec, "tolerations", at="spec.tolerations")
        ),
        has_started=has_started,
        rules=reduce_rules(metadata, spec),
        devices=reduce_devices(spec, status),
        failure=text_at(status, "reason", at="status.reason") if is_failed else "",
        rejected_at=time_at(status, "startTime", at="status.startTime") if is_failed and not has_started else None,
        unscheduled_reason=(
            text_at(scheduled, "reason", at="status.conditions[].reason") if scheduled.get("status") == "False" else ""
        ),
    )


def unreadable_pod(metadata: Metadata, manifest: Mapping[str, Any], *, problem: FieldError) -> Pod:
    """Return what can be known of a pod with a field that cannot be read: whose it is, where, and what is wrong.

    What it asks for is unknown, and unknown is never zero: on a node it takes all that is left there. Raises FieldError
    where not even that can be read.
    """
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    group = mapping_at(spec, "schedulingGroup", at="spec.schedulingGroup")
    return Pod(
        metadata=metadata,
        scheduler_name=text_at(spec, "schedulerName", at="spec.schedulerName", default="default-scheduler"),
        group=text_at(group, "podGroupName", at="spec.schedulingGroup.podGroupName"),
        node=NodeName(text_at(spec, "nodeName", at="spec.nodeName")),
        phase=text_at(status, "phase", at="status.phase", default="Pending"),
        is_gated=bool(objects_at(spec, "schedulingGates", at="spec.schedulingGates")),
        requests={PODS: MAX_AMOUNT},
        unreadable=str(problem),
    )


def _unreadable_group(metadata: Metadata, *, group: str) -> str:
    """Return what is wrong with the group's name, empty where nothing is. Such a pod waits, and is not placed alone."""
    field, name = next(names_of_groups(metadata, group=group), ("", ""))
    if not name or is_name(name):
        return ""
    return str(FieldError(field=field, expected="the name of a group, in lower case, as team-a.train-1", got=name))


def _has_started(status: Mapping[str, Any]) -> bool:
    return any(
        _container_started(path, item)
        for key in ("containerStatuses", "initContainerStatuses")
        for path, item in numbered(status, key, at=f"status.{key}")
    )


def _container_started(path: str, item: Mapping[str, Any]) -> bool:
    state = mapping_at(item, "state", at=f"{path}.state")
    if state.get("running") is not None:
        return True
    last = mapping_at(item, "lastState", at=f"{path}.lastState")
    return any(
        _process_ran(mapping_at(one, "terminated", at=f"{path}.state.terminated"))
        for one in (state, last)
        if one.get("terminated") is not None
    )


def _process_ran(terminated: Mapping[str, Any]) -> bool:
    """Return whether a terminated container's process had started.

    A runtime that could not start it reports the reason, and the year 1970 as the start.
    """
    return terminated.get("reason") not in _NEVER_STARTED and not str(terminated.get("startedAt") or "").startswith(
        "1970-"
    )
