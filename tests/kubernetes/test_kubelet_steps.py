"""What a fake kubelet does next, as data."""

from collections.abc import Mapping
from typing import Any

from services.sandbox.controllers.kubelets import EXIT_CODE, REJECT, RUN_SECONDS, START_SECONDS, STOP_SECONDS
from tests.kubernetes.kubelet_steps import (
    ConfirmDeletion,
    Later,
    PatchStatus,
    Seen,
    Step,
    next_step,
    observed,
    shortage,
)

Json = Mapping[str, Any]

_NOW = "2026-12-01T00:00:00Z"
_JOB = {"kind": "Job", "name": "j", "controller": True}


def _pod(
    phase: str = "Pending", *, owner: Json | None = None, grace_s: int | None = None, annotations: Json | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p", "annotations": annotations or {}}
    if owner:
        metadata["ownerReferences"] = [dict(owner)]
    if grace_s is not None:
        metadata |= {"deletionTimestamp": _NOW, "deletionGracePeriodSeconds": grace_s}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "2"}}}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": phase}}


def _step(pod: dict[str, Any], *, seen: Seen, now_s: float, refusal: str | None = None) -> Step | None:
    return next_step(
        pod,
        seen=observed(pod, seen=seen, now_s=now_s),
        now_s=now_s,
        now=_NOW,
        job_run_s=30.0,
        refusal=refusal,
    )


def _phase(step: Step | None) -> str:
    assert isinstance(step, PatchStatus)
    return str(step.status["phase"])


def test_a_bound_pod_starts_at_once() -> None:
    """Without annotations the pod runs, and all its containers are ready."""
    step = _step(_pod(), seen=Seen(), now_s=5.0)
    assert _phase(step) == "Running"
    assert isinstance(step, PatchStatus)
    assert [container["ready"] for container in step.status["containerStatuses"]] == [True]


def test_a_start_may_take_time() -> None:
    """`start-seconds` counts from when the kubelet saw the pod."""
    pod = _pod(annotations={START_SECONDS: "10"})
    assert _step(pod, seen=Seen(bound_s=0.0), now_s=4.0) == Later(after_s=6.0)
    assert _phase(_step(pod, seen=Seen(bound_s=0.0), now_s=10.0)) == "Running"


def test_only_pods_of_jobs_end_by_themselves() -> None:
    """The default run time is for Jobs; a Deployment's pod runs on."""
    seen = Seen(bound_s=0.0, running_s=0.0)
    assert _phase(_step(_pod("Running", owner=_JOB), seen=seen, now_s=30.0)) == "Succeeded"
    assert _step(_pod("Running"), seen=seen, now_s=1000.0) is None


def test_the_annotation_overrides_the_run_time() -> None:
    """`run-seconds` holds for every pod, and 0 means until it is deleted."""
    seen = Seen(bound_s=0.0, running_s=0.0)
    assert _step(_pod("Running", annotations={RUN_SECONDS: "3"}), seen=seen, now_s=1.0) == Later(after_s=2.0)
    assert (
        _phase(_step(_pod("Running", annotations={RUN_SECONDS: "3", EXIT_CODE: "1"}), seen=seen, now_s=3.0)) == "Failed"
    )
    assert _step(_pod("Running", owner=_JOB, annotations={RUN_SECONDS: "0"}), seen=seen, now_s=99.0) is None


def test_a_deleted_pod_reports_its_end_before_it_goes() -> None:
    """The pod fails first, so that its Job counts it; then the deletion is confirmed once."""
    seen = Seen(bound_s=0.0)
    assert _phase(_step(_pod("Running", grace_s=30), seen=seen, now_s=1.0)) == "Failed"
    assert _step(_pod("Failed", grace_s=30), seen=seen, now_s=1.0) == ConfirmDeletion()
    assert _step(_pod("Failed", grace_s=0), seen=seen, now_s=1.0) is None


def test_stopping_takes_at_most_the_grace_period() -> None:
    """`stop-seconds` delays the end, but never beyond the grace period."""
    seen = Seen(bound_s=0.0, stopping_s=0.0)
    assert _step(_pod("Running", grace_s=5, annotations={STOP_SECONDS: "60"}), seen=seen, now_s=2.0) == Later(
        after_s=3.0
    )
    assert _phase(_step(_pod("Running", grace_s=5, annotations={STOP_SECONDS: "60"}), seen=seen, now_s=5.0)) == "Failed"


def test_a_refused_pod_fails_with_the_reason() -> None:
    """A kubelet may refuse by annotation or for want of room."""
    for step in (
        _step(_pod(annotations={REJECT: "OutOfcpu"}), seen=Seen(), now_s=0.0),
        _step(_pod(), seen=Seen(), now_s=0.0, refusal="OutOfcpu"),
    ):
        assert _phase(step) == "Failed"
        assert isinstance(step, PatchStatus)
        assert step.status["reason"] == "OutOfcpu"


def test_room_counts_what_still_runs() -> None:
    """Ended pods free their room, the others hold it."""
    allocatable = {"cpu": "4", "pods": "3"}
    pods = {"a": _pod("Running"), "b": _pod("Succeeded")}
    assert shortage(_pod(), others=pods, allocatable=allocatable) is None
    assert shortage(_pod(), others=pods | {"c": _pod("Running")}, allocatable=allocatable) == "OutOfcpu"
