"""The Kubernetes objects of the demo: PodGroups, and Jobs whose pods are their members."""

from dataclasses import dataclass
from typing import Any

from services.core.names import REPAIR_WINDOW_ANNOTATION, SCHEDULER_NAME

NAMESPACE = "demo"
RUN_SECONDS_ANNOTATION = "sandbox.phalanx.dev/run-seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoGang:
    """One Job of one-GPU pods that is a gang of all of them.

    `repair_window` as in the annotation; empty for the default. `run_s` is how long each pod runs, 0 until deleted.
    """

    name: str
    members: int
    run_s: float
    repair_window: str = ""


def namespace_manifest() -> dict[str, Any]:
    """Return the demo's namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def group_manifest(gang: DemoGang, *, api_version: str) -> dict[str, Any]:
    """Return the PodGroup of a gang."""
    annotations = {REPAIR_WINDOW_ANNOTATION: gang.repair_window} if gang.repair_window else {}
    return {
        "apiVersion": f"scheduling.k8s.io/{api_version}",
        "kind": "PodGroup",
        "metadata": {"name": gang.name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"schedulingPolicy": {"gang": {"minCount": gang.members}}},
    }


def job_manifest(gang: DemoGang, *, parallelism: int) -> dict[str, Any]:
    """Return the Job of a gang, so far with `parallelism` pods.

    Pods that are disrupted, as by an undo, do not count against backoffLimit.
    """
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": gang.name, "namespace": NAMESPACE},
        "spec": {
            "completionMode": "Indexed",
            # Without it, the Job's wait after an undo doubles with every pod of the gang, up to 10 minutes.
            "backoffLimitPerIndex": 6,
            "completions": gang.members,
            "parallelism": parallelism,
            "podFailurePolicy": {"rules": [ignored]},
            "template": {
                "metadata": {"annotations": {RUN_SECONDS_ANNOTATION: f"{gang.run_s:g}"}},
                "spec": {
                    "schedulerName": SCHEDULER_NAME,
                    "schedulingGroup": {"podGroupName": gang.name},
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    }
