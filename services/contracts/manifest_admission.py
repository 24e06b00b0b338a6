"""What an API server adds to manifests before it stores them, as far as placement reads it.

Manifests that a person writes state limits and the name of a PriorityClass; the stored objects state requests and a
number. Objects that have a uid or a status come from an API server and are left as they are, but for a class that they
name without the number: files that were written by hand have that.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from services.core.manifests import amounts_at, mapping_at, numbered, text_at
from services.core.objects import Kind
from services.core.pod_requests import HUGE_PAGES_PREFIX, MEMORY, effective_requests
from services.core.quantities import CPU

Manifest = Mapping[str, Any]

GLOBAL_DEFAULT = ""
"""Stands for the class of objects that name none."""

_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def is_admitted(manifest: Manifest) -> bool:
    """Tell whether an API server has stored this object already."""
    metadata = manifest.get("metadata")
    return bool(manifest.get("status")) or (isinstance(metadata, dict) and bool(metadata.get("uid")))


def priorities_of(documents: Iterable[Manifest]) -> Mapping[str, int]:
    """Return the value of each PriorityClass among the documents, and of those that every cluster has.

    Documents that cannot be read are passed over: whoever reads them says what is wrong.
    """
    values = dict(_BUILT_IN)
    for document in documents:
        metadata, value = document.get("metadata"), document.get("value")
        if document.get("kind") != "PriorityClass" or not isinstance(metadata, dict) or not isinstance(value, int):
            continue
        values[str(metadata.get("name"))] = value
        if document.get("globalDefault") is True:
            values[GLOBAL_DEFAULT] = value
    return values


def admitted(kind: Kind, manifest: Manifest, *, priorities: Mapping[str, int]) -> Manifest:
    """Return the manifest as it would be stored. Raises FieldError."""
    if kind not in {Kind.POD, Kind.POD_GROUP}:
        return manifest
    is_stored = is_admitted(manifest)
    spec = dict(mapping_at(manifest, "spec", at="spec"))
    class_name = text_at(spec, "priorityClassName", at="spec.priorityClassName")
    # A class that is named counts whatever the status says: who stores the name stores the number as well.
    if spec.get("priority") is None and class_name in priorities and (class_name or not is_stored):
        spec["priority"] = priorities[class_name]
    if kind is Kind.POD and not is_stored:
        spec = _with_requests(spec)
    return {**manifest, "spec": spec}


def _with_requests(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Let limits stand for the requests that are not stated: container by container, then for the whole pod."""
    filled = dict(spec)
    for key in ("initContainers", "containers"):
        if spec.get(key) is not None:
            filled[key] = [
                {**container, "resources": _requested(container, at=path)}
                for path, container in numbered(spec, key, at=f"spec.{key}")
            ]
    limits = amounts_at(mapping_at(spec, "resources", at="spec.resources"), "limits", at="spec.resources.limits")
    if limits:
        filled["resources"] = _requested_by_the_pod(filled, limited=limits)
    return filled


def _requested(container: Manifest, *, at: str) -> Manifest:
    resources = mapping_at(container, "resources", at=f"{at}.resources")
    # Read here, so that a limit that is no quantity is told as a limit.
    if not amounts_at(resources, "limits", at=f"{at}.resources.limits"):
        return resources
    requests = mapping_at(resources, "requests", at=f"{at}.resources.requests")
    return {**resources, "requests": {**resources["limits"], **requests}}


def _requested_by_the_pod(spec: Mapping[str, Any], *, limited: Mapping[str, int]) -> Manifest:
    """Where a pod-level limit stands: what the containers request in sum, else the limit (KEP-2837)."""
    resources = spec["resources"]
    requests = dict(mapping_at(resources, "requests", at="spec.resources.requests"))
    of_containers = effective_requests({"spec": {**spec, "resources": None, "overhead": None}})
    for resource in (CPU, MEMORY):
        if resource in of_containers:
            requests.setdefault(resource, _quantity(of_containers[resource], resource=resource))
    for resource in limited:
        if resource in {CPU, MEMORY} or resource.startswith(HUGE_PAGES_PREFIX):
            requests.setdefault(resource, resources["limits"][resource])
    return {**resources, "requests": requests}


def _quantity(amount: int, *, resource: str) -> str:
    return f"{amount}m" if resource == CPU else str(amount)
