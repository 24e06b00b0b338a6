"""A pod reduced to what placement needs. Requests are counted in `services.core.pod_requests`."""

from collections.abc import Iterator, Mapping
from typing import Any

from services.core.manifests import (
    condition,
    integer_at,
    mapping_at,
    numbered,
    objects_at,
    text_at,
    text_mapping_at,
    texts_at,
)
from services.core.objects import Metadata, NodeName, NodeRequirement, NodeSelectorTerm, Pod, Toleration
from services.core.pod_requests import effective_requests

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_NEVER_STARTED = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a terminated container whose process never ran."""


def reduce_pod(metadata: Metadata, manifest: Mapping[str, Any]) -> Pod:
    """Return what placement needs of a pod. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    scheduled = condition(status, "PodScheduled")
    group = mapping_at(spec, "schedulingGroup", at="spec.schedulingGroup")
    return Pod(
        metadata=metadata,
        scheduler_name=text_at(spec, "schedulerName", at="spec.schedulerName", default="default-scheduler"),
        group=text_at(group, "podGroupName", at="spec.schedulingGroup.podGroupName"),
        node=NodeName(text_at(spec, "nodeName", at="spec.nodeName")),
        phase=text_at(status, "phase", at="status.phase", default="Pending"),
        is_gated=bool(objects_at(spec, "schedulingGates", at="spec.schedulingGates")),
        requests=effective_requests(manifest),
        priority=integer_at(spec, "priority", at="spec.priority"),
        node_selector=text_mapping_at(spec, "nodeSelector", at="spec.nodeSelector"),
        node_affinity=_required_terms(spec),
        tolerations=tuple(
            Toleration(
                key=text_at(item, "key", at=f"{path}.key"),
                operator=text_at(item, "operator", at=f"{path}.operator", default="Equal"),
                value=text_at(item, "value", at=f"{path}.value"),
                effect=text_at(item, "effect", at=f"{path}.effect"),
            )
            for path, item in numbered(spec, "tolerations", at="spec.tolerations")
        ),
        unsupported=tuple(_unsupported(spec)),
        has_started=_has_started(status),
        unscheduled_reason=(
            text_at(scheduled, "reason", at="status.conditions[].reason") if scheduled.get("status") == "False" else ""
        ),
    )


def _required_terms(spec: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...] | None:
    affinity = mapping_at(spec, "affinity", at="spec.affinity")
    node_affinity = mapping_at(affinity, "nodeAffinity", at="spec.affinity.nodeAffinity")
    at = f"spec.affinity.nodeAffinity.{REQUIRED}"
    if node_affinity.get(REQUIRED) is None:
        return None
    required = mapping_at(node_affinity, REQUIRED, at=at)
    return tuple(
        NodeSelectorTerm(
            expressions=_requirements(term, "matchExpressions", at=f"{path}.matchExpressions"),
            fields=_requirements(term, "matchFields", at=f"{path}.matchFields"),
        )
        for path, term in numbered(required, "nodeSelectorTerms", at=f"{at}.nodeSelectorTerms")
    )


def _requirements(term: Mapping[str, Any], key: str, *, at: str) -> tuple[NodeRequirement, ...]:
    return tuple(
        NodeRequirement(
            key=text_at(item, "key", at=f"{path}.key"),
            operator=text_at(item, "operator", at=f"{path}.operator"),
            values=texts_at(item, "values", at=f"{path}.values"),
        )
        for path, item in numbered(term, key, at=at)
    )


def _unsupported(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the path of the first use of each rule that the solver does not honour."""
    affinity = mapping_at(spec, "affinity", at="spec.affinity")
    for key in ("podAffinity", "podAntiAffinity"):
        if mapping_at(affinity, key, at=f"spec.affinity.{key}").get(REQUIRED):
            yield f"spec.affinity.{key}.{REQUIRED}"
    for path, item in numbered(spec, "topologySpreadConstraints", at="spec.topologySpreadConstraints"):
        if item.get("whenUnsatisfiable") == "DoNotSchedule":
            yield path
            break
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims"
    host_port = next(_host_ports(spec), None)
    if host_port is not None:
        yield host_port
    for key in ("persistentVolumeClaim", "ephemeral"):
        for path, item in numbered(spec, "volumes", at="spec.volumes"):
            if item.get(key) is not None:
                yield f"{path}.{key}"
                break


def _host_ports(spec: Mapping[str, Any]) -> Iterator[str]:
    for key in ("containers", "initContainers"):
        for path, container in numbered(spec, key, at=f"spec.{key}"):
            for port_path, port in numbered(container, "ports", at=f"{path}.ports"):
                if port.get("hostPort"):
                    yield f"{port_path}.hostPort"


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
