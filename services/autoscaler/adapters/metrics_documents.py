"""The documents of `external.metrics.k8s.io/v1beta1`, as the HPA's controller and discovery read them."""

from collections.abc import Iterable, Mapping
from datetime import UTC
from typing import Any

from services.core.metrics_registration import API_GROUP, API_VERSION
from services.core.served_metrics import ServedItem

GROUP_VERSION = f"{API_GROUP}/{API_VERSION}"
_THOUSAND = 1000


def group_document() -> Mapping[str, Any]:
    """Return the API group."""
    version = {"groupVersion": GROUP_VERSION, "version": API_VERSION}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": API_GROUP,
        "versions": [version],
        "preferredVersion": version,
    }


def resources_document(metrics: Iterable[str]) -> Mapping[str, Any]:
    """Return the resources: each metric is one. The API server asks for this to see whether we are there."""
    resources = [
        {"name": name, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
        for name in metrics
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP_VERSION, "resources": resources}


def values_document(metric: str, *, items: Iterable[ServedItem]) -> Mapping[str, Any]:
    """Return the numbers of a metric; the HPA adds them up."""
    values = [
        {
            "metricName": metric,
            "metricLabels": dict(item.labels),
            "timestamp": item.taken_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": quantity(item.milli),
        }
        for item in items
    ]
    return {"kind": "ExternalMetricValueList", "apiVersion": GROUP_VERSION, "metadata": {}, "items": values}


def status_document(code: int, *, reason: str, message: str) -> Mapping[str, Any]:
    """Return an error as the API server's clients read it."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def quantity(milli: int) -> str:
    """Return thousandths as a quantity: whole where it is whole."""
    return f"{milli}m" if milli % _THOUSAND else str(milli // _THOUSAND)
