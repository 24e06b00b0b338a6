"""What a pod takes from a node, exactly as kube-scheduler 1.37 counts it.

The formula is part of the Kubernetes API (KEP-753 sidecars, KEP-2837 pod-level resources, KEP-1287 and KEP-5419 resize
in place): the larger of what the spec wants, what the kubelet has allocated and what is in effect. A resize that the
kubelet has called infeasible leaves the spec out. Limits do not count: the API server has copied them to requests.
"""

from collections.abc import Callable, Mapping
from typing import Any

from services.core.manifests import FieldError, amounts_at, condition, mapping_at, numbered
from services.core.quantities import CPU, MAX_AMOUNT, PODS, Resources, added, larger

MEMORY = "memory"
HUGE_PAGES_PREFIX = "hugepages-"

_Amounts = dict[str, int]
_View = Callable[[Resources, Mapping[str, Any] | None, str, bool], Resources]
"""Which amounts of a container count: from its spec requests, its status, the status' path, infeasible resize."""


def effective_requests(manifest: Mapping[str, Any]) -> _Amounts:
    """Return the pod's effective requests, with one of `pods` for the slot that it occupies. Raises FieldError."""
    spec = mapping_at(manifest, "spec", at="spec")
    status = mapping_at(manifest, "status", at="status")
    is_infeasible = condition(status, "PodResizePending").get("reason") == "Infeasible"
    total = _container_requests(spec, status, is_infeasible=is_infeasible)
    total.update(_pod_level_requests(spec, status, is_infeasible=is_infeasible))
    total = added(total, amounts_at(spec, "overhead", at="spec.overhead"))
    for resource, amount in total.items():
        # Each quantity is bounded on its own; their sum must still fit the 64 bits of the message.
        if amount > MAX_AMOUNT:
            raise FieldError(
                field=f"spec.containers[].resources.requests.{resource}",
                expected=f"at most {MAX_AMOUNT} units in sum",
                got=amount,
            )
    total[PODS] = 1
    return total


def _container_requests(spec: Mapping[str, Any], status: Mapping[str, Any], *, is_infeasible: bool) -> _Amounts:
    statuses = _statuses_with_resources(status)
    wanted = _aggregated(spec, statuses, view=_wanted, is_infeasible=is_infeasible)
    if not statuses and "allocatedResources" not in status and not is_infeasible:
        return wanted
    resources = mapping_at(status, "resources", at="status.resources")
    if "allocatedResources" in status and "requests" in resources:
        allocated = amounts_at(status, "allocatedResources", at="status.allocatedResources")
        actuated = amounts_at(resources, "requests", at="status.resources.requests")
    else:
        allocated = _aggregated(spec, statuses, view=_allocated, is_infeasible=is_infeasible)
        actuated = _aggregated(spec, statuses, view=_actuated, is_infeasible=is_infeasible)
    held = larger(actuated, allocated)
    return held if is_infeasible else larger(wanted, held)


def _statuses_with_resources(status: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return path and status by container name, for the statuses that state resources; ordinary containers win."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for key in ("initContainerStatuses", "containerStatuses"):
        for path, item in numbered(status, key, at=f"status.{key}"):
            if item.get("allocatedResources") is not None or item.get("resources") is not None:
                found[str(item.get("name"))] = (path, item)
    return found


def _aggregated(
    spec: Mapping[str, Any],
    statuses: Mapping[str, tuple[str, Mapping[str, Any]]],
    *,
    view: _View,
    is_infeasible: bool,
) -> _Amounts:
    """Return the sum of the containers and sidecars, or the peak of initialisation where that is larger."""

    def requests_of(path: str, container: Mapping[str, Any]) -> Resources:
        resources = mapping_at(container, "resources", at=f"{path}.resources")
        requests = amounts_at(resources, "requests", at=f"{path}.resources.requests")
        status_path, item = statuses.get(str(container.get("name")), ("", None))
        return view(requests, item, status_path, is_infeasible)

    total: _Amounts = {}
    for path, container in numbered(spec, "containers", at="spec.containers"):
        total = added(total, requests_of(path, container))
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for path, container in numbered(spec, "initContainers", at="spec.initContainers"):
        requests = requests_of(path, container)
        if container.get("restartPolicy") == "Always":
            total = added(total, requests)
            sidecars = added(sidecars, requests)
            peak = larger(peak, sidecars)
        else:
            peak = larger(peak, added(sidecars, requests))
    return larger(total, peak)


def _wanted(requests: Resources, _item: Mapping[str, Any] | None, _path: str, _is_infeasible: bool) -> Resources:  # noqa: FBT001 - the shape of all views
    return requests


def _allocated(requests: Resources, item: Mapping[str, Any] | None, path: str, is_infeasible: bool) -> Resources:  # noqa: FBT001 - as above
    if item is not None and item.get("allocatedResources") is not None:
        return amounts_at(item, "allocatedResources", at=f"{path}.allocatedResources")
    return {} if is_infeasible else requests


def _actuated(requests: Resources, item: Mapping[str, Any] | None, path: str, is_infeasible: bool) -> Resources:  # noqa: FBT001 - as above
    if item is not None:
        resources = mapping_at(item, "resources", at=f"{path}.resources")
        if resources.get("requests") is not None:
            return amounts_at(resources, "requests", at=f"{path}.resources.requests")
    return _allocated(requests, item, path, is_infeasible)


def _pod_level_requests(spec: Mapping[str, Any], status: Mapping[str, Any], *, is_infeasible: bool) -> _Amounts:
    """Return the requests that stand for the whole pod: they replace those of its containers."""
    resources = mapping_at(spec, "resources", at="spec.resources")
    requests = _supported(amounts_at(resources, "requests", at="spec.resources.requests"))
    if not requests:
        return {}
    in_effect = mapping_at(status, "resources", at="status.resources")
    if not in_effect:
        return requests
    held = larger(
        _supported(amounts_at(in_effect, "requests", at="status.resources.requests")),
        _supported(amounts_at(status, "allocatedResources", at="status.allocatedResources")),
    )
    return held if is_infeasible else larger(requests, held)


def _supported(requests: Resources) -> _Amounts:
    return {
        resource: amount
        for resource, amount in requests.items()
        if resource in {CPU, MEMORY} or resource.startswith(HUGE_PAGES_PREFIX)
    }
