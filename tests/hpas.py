"""HorizontalPodAutoscalers for tests, as the API's JSON."""

from collections.abc import Mapping
from typing import Any

Manifest = dict[str, Any]


def external(
    name: str = "queue_depth", *, each: str = "10", total: str = "", labels: Mapping[str, str] = {}
) -> Manifest:
    """An External metric: `each` is what one replica is to have; with `total`, what all together are to have."""
    metric: Manifest = {"name": name} | ({"selector": {"matchLabels": dict(labels)}} if labels else {})
    target = {"type": "Value", "value": total} if total else {"type": "AverageValue", "averageValue": each}
    return {"type": "External", "external": {"metric": metric, "target": target}}


def cpu() -> Manifest:
    """A metric of the pods themselves."""
    target = {"type": "Utilization", "averageUtilization": 80}
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def hpa_manifest(
    name: str = "infer",
    *,
    namespace: str = "team-a",
    target: str = "infer",
    least: int = 0,
    most: int = 10,
    metrics: tuple[Manifest, ...] = (),
    scaled_to_zero: str = "",
    annotations: Mapping[str, str] = {},
    kind: str = "Deployment",
    api_version: str = "apps/v1",
    behavior: Manifest | None = None,
) -> Manifest:
    """An HPA; `scaled_to_zero` is the status of that condition, empty for none."""
    conditions = [{"type": "ScaledToZero", "status": scaled_to_zero}] if scaled_to_zero else []
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": namespace, "annotations": dict(annotations)},
        "spec": {
            "scaleTargetRef": {"apiVersion": api_version, "kind": kind, "name": target},
            "minReplicas": least,
            "maxReplicas": most,
            "metrics": list(metrics or (external(),)),
            **({} if behavior is None else {"behavior": behavior}),
        },
        "status": {"conditions": conditions},
    }
