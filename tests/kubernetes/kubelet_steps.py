"""What a kubelet does next with a bound pod: a function from the pod and the clock to one step.

The meanings of the annotations are those of the sandbox's kubelets, so that a workload behaves alike on both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.core.quantities import added, parse_quantity
from services.sandbox.controllers.kubelets import EXIT_CODE, REJECT, RUN_SECONDS, START_SECONDS, STOP_SECONDS
from services.sandbox.quota import usage_of

Pod = Mapping[str, Any]

_READY_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
_KILLED = 137


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStatus:
    """Report this status."""

    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmDeletion:
    """Let the object go, with grace period 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """Look again after a while."""

    after_s: float


Step = PatchStatus | ConfirmDeletion | Later
"""What a kubelet does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Since when a pod is in the states that take time, on the monotonic clock; None where it is not."""

    bound_s: float | None = None
    running_s: float | None = None
    stopping_s: float | None = None


def observed(pod: Pod, *, seen: Seen, now_s: float) -> Seen:
    """The times after looking at the pod now."""
    is_running = pod["status"].get("phase") == "Running"
    is_stopping = "deletionTimestamp" in pod["metadata"]
    return Seen(
        bound_s=now_s if seen.bound_s is None else seen.bound_s,
        running_s=now_s if is_running and seen.running_s is None else seen.running_s,
        stopping_s=now_s if is_stopping and seen.stopping_s is None else seen.stopping_s,
    )


def next_step(pod: Pod, *, seen: Seen, now_s: float, now: str, job_run_s: float, refusal: str | None) -> Step | None:
    """The next step, or None where only another event can bring one.

    `now` is the wall clock in RFC 3339; `refusal` is the kubelet's reason not to admit a pod that has not started.
    """
    phase = pod["status"].get("phase", "Pending")
    if seen.stopping_s is not None:
        return _stop(pod, phase=phase, since_s=now_s - seen.stopping_s, now=now)
    if phase == "Running" and seen.running_s is not None:
        return _finish(pod, since_s=now_s - seen.running_s, now=now, job_run_s=job_run_s)
    if phase != "Pending" or seen.bound_s is None:
        return None
    reason = _annotation(pod, REJECT) or refusal
    if reason:
        status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected by its node"}
        return PatchStatus(status=status)
    left_s = _seconds(pod, START_SECONDS, default=0.0) - (now_s - seen.bound_s)
    return Later(after_s=left_s) if left_s > 0 else PatchStatus(status=_running(pod, now=now))


def shortage(pod: Pod, *, others: Mapping[str, Pod], allocatable: Mapping[str, str]) -> str | None:
    """The reason `OutOf…` if the node has no room for the pod beside the others that it runs."""
    used: Mapping[str, int] = {}
    for other in others.values():
        if other["status"].get("phase") not in {"Succeeded", "Failed"}:
            used = added(used, usage_of(dict(other)))
    for counted, amount in usage_of(dict(pod)).items():
        name = counted.removeprefix("requests.")
        if counted.startswith("limits.") or not amount:
            continue
        if used.get(counted, 0) + amount > parse_quantity(allocatable.get(name, "0"), resource=name):
            return f"OutOf{name}"
    return None


def _stop(pod: Pod, *, phase: str, since_s: float, now: str) -> Step | None:
    grace_s = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
    left_s = min(_seconds(pod, STOP_SECONDS, default=0.0), grace_s) - since_s
    if left_s > 0:
        return Later(after_s=left_s)
    if phase not in {"Succeeded", "Failed"}:
        # A kubelet reports the end of a pod before it lets the object go: Jobs count by it.
        return PatchStatus(status=_ended(pod, code=_KILLED, now=now))
    # Grace 0 was confirmed already; what is left waits for somebody's finalizer.
    return ConfirmDeletion() if grace_s else None


def _finish(pod: Pod, *, since_s: float, now: str, job_run_s: float) -> Step | None:
    owners = pod["metadata"].get("ownerReferences") or ()
    is_of_job = any(owner.get("kind") == "Job" and owner.get("controller") for owner in owners)
    run_s = _seconds(pod, RUN_SECONDS, default=job_run_s if is_of_job else 0.0)
    if run_s <= 0:
        return None
    if since_s < run_s:
        return Later(after_s=run_s - since_s)
    return PatchStatus(status=_ended(pod, code=int(_seconds(pod, EXIT_CODE, default=0.0)), now=now))


def _running(pod: Pod, *, now: str) -> dict[str, Any]:
    containers = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in pod["spec"]["containers"]
    ]
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in _READY_CONDITIONS]
    return {
        "phase": "Running",
        "startTime": now,
        "hostIP": "127.0.0.1",
        "conditions": conditions,
        "containerStatuses": containers,
    }


def _ended(pod: Pod, *, code: int, now: str) -> dict[str, Any]:
    containers = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            # A strategic patch merges states, and a container can have only one.
            "state": {
                "running": None,
                "terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": now},
            },
        }
        for container in pod["spec"]["containers"]
    ]
    reason = "PodFailed" if code else "PodCompleted"
    conditions = [
        {"type": kind, "status": "False", "reason": reason, "lastTransitionTime": now}
        for kind in ("Ready", "ContainersReady")
    ]
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": conditions,
        "containerStatuses": containers,
    }


def _annotation(pod: Pod, name: str) -> str | None:
    return (pod["metadata"].get("annotations") or {}).get(name)


def _seconds(pod: Pod, annotation: str, *, default: float) -> float:
    """A number from an annotation; one that is not a number counts as absent."""
    text = _annotation(pod, annotation)
    try:
        return default if text is None else float(text)
    except ValueError:
        return default
