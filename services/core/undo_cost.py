"""What an undo would cost the owner of a gang, told before anything is bound.

Kubernetes has no unbind: an undo deletes bound pods, and a Job counts them as failed unless its podFailurePolicy
ignores the condition DisruptionTarget, which the binder sets first. What the Job controller of 1.37 does with them is
in `docs/how-a-gang-runs.md`.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

from services.core.gangs import Gang
from services.core.names import ALLOW_DELETE_ANNOTATION
from services.core.objects import Job, Owner, Pod
from services.core.reasons import Reason, ReasonCode

FIRST_DELAY = timedelta(seconds=10)
LONGEST_DELAY = timedelta(minutes=10)
"""The Job controller waits so long before it replaces a failed pod, doubled with each further one, ignored or not."""

LONG_DELAY = timedelta(minutes=1)
"""A delay from which on it is worth a warning."""

MAX_WARNINGS = 3
"""Told of one gang: its owners are alike, as a rule."""

_IGNORE = "let spec.podFailurePolicy ignore the condition DisruptionTarget"
_EACH = "set spec.backoffLimitPerIndex"

JobOf = Callable[[str, str], Job | None]
"""Returns a Job by namespace and name, where it is followed."""


def undo_warnings(gang: Gang, *, job_of: JobOf) -> tuple[Reason, ...]:
    """Return what the owners would suffer from an undo of the gang's open members; empty where that is little.

    A gang that lacks one member at most is never undone: as soon as one is bound, it is whole.
    """
    at_risk = min(gang.needed - 1, len(gang.open))
    if at_risk < 1:
        return ()
    warnings: list[Reason] = []
    orphans = [pod for pod in gang.open if _controller(pod) is None]
    if orphans and gang.annotations.get(ALLOW_DELETE_ANNOTATION) != "true":
        warnings.append(_kept(len(orphans), of=len(gang.open)))
    for owner, count in _jobs(gang.open).items():
        job = job_of(gang.open[0].metadata.namespace, owner.name)
        if job is not None and job.metadata.uid == owner.uid:
            warnings += _of_job(job, deleted=min(count, at_risk))
    return tuple(warnings[:MAX_WARNINGS])


def _of_job(job: Job, *, deleted: int) -> Iterable[Reason]:
    name = job.metadata.name
    would = f"an undo would delete up to {deleted} pods of Job {name}"
    if job.fails_on_disruption_target:
        text = f"{would}, and its podFailurePolicy fails the Job for that: {_IGNORE} instead"
        yield _fatal(text, field="spec.podFailurePolicy", deleted=deleted)
    elif not job.ignores_disruption_target and job.backoff_limit_per_index is not None:
        if job.backoff_limit_per_index < 1:
            text = f"{would}, and each of their indexes fails with its first pod (spec.backoffLimitPerIndex): {_IGNORE}"
            yield _fatal(text + _needs(job), field="spec.backoffLimitPerIndex", deleted=deleted)
    elif not job.ignores_disruption_target and job.failed + deleted > job.backoff_limit:
        failed = f", {job.failed} have failed" if job.failed else ""
        text = (
            f"{would}, and it survives {job.backoff_limit} failed pods (spec.backoffLimit){failed}: "
            f"{_IGNORE}, and {_EACH}"
        )
        yield _fatal(text + _needs(job), field="spec.backoffLimit", deleted=deleted)
    elif job.backoff_limit_per_index is None and (delay := _delay(deleted)) >= LONG_DELAY:
        text = f"{would}, and it would wait up to {delay.total_seconds():.0f} s before it makes new ones: {_EACH}"
        yield Reason(
            code=ReasonCode.UNDO_SLOW, message=text + _needs(job), count=deleted, subject="spec.backoffLimitPerIndex"
        )


def _fatal(message: str, *, field: str, deleted: int) -> Reason:
    return Reason(code=ReasonCode.UNDO_FATAL, message=message, count=deleted, subject=field)


def _needs(job: Job) -> str:
    """Return what the API asks of a Job with these fields, where it is not so yet."""
    needs = [] if job.is_indexed else ["spec.completionMode Indexed for an index's own limit"]
    if job.restart_policy != "Never":
        needs.append("restartPolicy Never for both")
    return f" (the API asks for {' and '.join(needs)})" if needs else ""


def _kept(count: int, *, of: int) -> Reason:
    text = (
        f"{count} of {of} pods have no controller and would not be deleted by an undo: the gang would stay partly "
        f"bound until it is repaired; set the annotation {ALLOW_DELETE_ANNOTATION} on its PodGroup, or use a Job"
    )
    return Reason(code=ReasonCode.KEPT_WITHOUT_CONTROLLER, message=text, count=count, subject=ALLOW_DELETE_ANNOTATION)


def _delay(deleted: int) -> timedelta:
    """Return how long the Job controller waits after so many failed pods (its backoff, not counted per index)."""
    return min(FIRST_DELAY * float(2 ** min(deleted - 1, 20)), LONGEST_DELAY)


def _jobs(pods: Iterable[Pod]) -> dict[Owner, int]:
    counts: dict[Owner, int] = {}
    for pod in pods:
        owner = _controller(pod)
        if owner is not None and owner.kind == "Job" and owner.api_version.startswith("batch/"):
            counts[owner] = counts.get(owner, 0) + 1
    return counts


def _controller(pod: Pod) -> Owner | None:
    return next((owner for owner in pod.metadata.owners if owner.is_controller), None)
