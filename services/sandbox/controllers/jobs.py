"""The Job controller: creates pods, counts what became of them once, and ends the Job.

Counting rests on the finalizer `batch.kubernetes.io/job-tracking`, as in Kubernetes: a pod that has finished or is
being deleted is counted when its finalizer is removed, so nobody can make a failure disappear by deleting the pod.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers import failure_policy, indexes
from services.sandbox.controllers.owned import BURST, OwnedObjects, is_active, pod_from_template, split
from services.sandbox.deletion import DeleteOptions
from services.sandbox.objects import (
    Obj,
    condition_status,
    controller_of,
    is_deleting,
    is_terminal,
    metadata,
    name_of,
    spec,
    status,
    uid_of,
    with_condition,
    with_metadata,
    with_status,
)
from services.sandbox.watching import Change, Stored

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_POD = "pod:"
_LONGEST_BACKOFF_S = 600.0


@dataclass(slots=True)
class _Tally:
    """What one look at a Job found out; becomes its status."""

    succeeded: int
    failed: int
    done: set[int]
    new_failures: int = 0
    failure: tuple[str, str] | None = None
    active: list[Stored] = field(default_factory=list)
    terminating: int = 0


class JobController:
    """Its keys are `namespace/name` of Jobs, and `pod:namespace/name` of pods that may be orphans."""

    name = "jobs"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._writer = cluster.writer
        self._pods = OwnedObjects(table.POD, owner_kind="Job")
        #: Consecutive failures and the time of the last one, by uid of the Job.
        self._failures: dict[str, tuple[int, float]] = {}

    def observe(self, change: Change) -> Iterable[str]:
        """Jobs, the Jobs of pods, and pods that no Job may hold any longer."""
        obj, key = change.stored.obj, change.stored.key
        if change.stored.kind is table.JOB:
            if change.type == "DELETED":
                self._failures.pop(uid_of(obj), None)
            yield key
        elif change.stored.kind is table.POD:
            yield from self._pods.observe(change)
            loose = controller_of(obj) is None or is_deleting(obj)
            if change.type != "DELETED" and loose and _is_tracked(obj):
                yield _POD + key

    def reconcile(self, key: str) -> float | None:
        """Count, then create or delete pods, then write the status."""
        if key.startswith(_POD):
            self._free_orphan(key.removeprefix(_POD))
            return None
        namespace, name = split(key)
        stored = self._store.get(table.JOB, namespace=namespace, name=name)
        if stored is None:
            return None
        job = stored.obj
        if is_deleting(job) or finished(job):
            self._let_go(job)
            return None
        tally = self._count(job)
        try:
            return self._act(job, tally)
        finally:
            # What was counted must be written even where a quota refuses new pods: it is counted only once.
            self._report(key, tally)

    def _free_orphan(self, pod_key: str) -> None:
        """Stop holding a pod whose Job is gone or has let go of it: nobody would count it."""
        namespace, name = split(pod_key)
        pod = self._store.get(table.POD, namespace=namespace, name=name)
        if pod is None:
            return
        owner = controller_of(pod.obj) or {}
        job = self._store.get(table.JOB, namespace=namespace, name=owner.get("name", ""))
        if job is None or uid_of(job.obj) != owner.get("uid"):
            self._untrack(pod)

    def _let_go(self, job: Obj) -> None:
        """Nothing is counted any more, so nothing that ends is held."""
        for pod in self._pods.of(job):
            if is_terminal(pod.obj) or is_deleting(pod.obj):
                self._untrack(pod)

    def _untrack(self, pod: Stored) -> Stored:
        if not _is_tracked(pod.obj):
            return pod
        finalizers = metadata(pod.obj)["finalizers"]
        kept = [name for name in finalizers if name != TRACKING]
        return self._writer.commit(pod, with_metadata(pod.obj, finalizers=kept or None))

    def _count(self, job: Obj) -> _Tally:
        found = status(job)
        tally = _Tally(
            succeeded=found.get("succeeded", 0),
            failed=found.get("failed", 0),
            done=indexes.parse(found.get("completedIndexes", "")),
        )
        for pod in self._pods.of(job):
            if is_active(pod.obj):
                tally.active.append(pod)
            elif _is_tracked(pod.obj):
                self._count_pod(job, pod, tally)
            elif not is_terminal(pod.obj):
                tally.terminating += 1
        return tally

    def _count_pod(self, job: Obj, pod: Stored, tally: _Tally) -> None:
        phase = status(pod.obj).get("phase")
        index = index_of(pod.obj)
        if phase == "Succeeded":
            if index is None:
                tally.succeeded += 1
            elif index < (spec(job).get("completions") or 0):
                tally.done.add(index)
            self._failures.pop(uid_of(job), None)
        elif phase == "Failed" or not self._replaces_failed_only(job):
            self._count_failure(job, pod.obj, tally)
        else:
            # Still stopping: only a pod that has reached Failed may be replaced.
            tally.terminating += 1
            self._fail_unbound(pod)
            return
        self._untrack(pod)

    def _fail_unbound(self, pod: Stored) -> None:
        """No kubelet will ever end a pod without node, so the pod collector marks it Failed."""
        if not spec(pod.obj).get("nodeName"):
            self._writer.commit(pod, with_status(pod.obj, phase="Failed"))

    @staticmethod
    def _replaces_failed_only(job: Obj) -> bool:
        return spec(job).get("podReplacementPolicy") == "Failed"

    def _count_failure(self, job: Obj, pod: Obj, tally: _Tally) -> None:
        verdict = failure_policy.verdict(job, pod)
        if verdict == "Ignore":
            return
        tally.failed += 1
        tally.new_failures += 1
        if verdict == "FailJob":
            message = f"Pod {metadata(pod)['namespace']}/{name_of(pod)} matching a FailJob rule"
            tally.failure = ("PodFailurePolicy", message)
        count, _ = self._failures.get(uid_of(job), (0, 0.0))
        self._failures[uid_of(job)] = (count + 1, self._cluster.clock.monotonic())

    def _act(self, job: Obj, tally: _Tally) -> float | None:
        holder = spec(job)
        if tally.failed > holder.get("backoffLimit", 6) and tally.failure is None:
            tally.failure = ("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if tally.failure or self._is_complete(job, tally):
            for pod in tally.active:
                self._cluster.remover.delete(pod, DeleteOptions(uid=uid_of(pod.obj)))
            return None
        if holder.get("suspend"):
            self._shed(tally, keep=0)
            return None
        wanted = self._wanted(job, tally)
        if len(tally.active) > wanted:
            self._shed(tally, keep=wanted)
            return None
        blocked = tally.terminating if self._replaces_failed_only(job) else 0
        lacking = wanted - len(tally.active) - blocked
        if lacking <= 0:
            return None
        if (delay_s := self._backoff_left_s(job)) > 0:
            return delay_s
        self._create(job, tally, min(lacking, BURST))
        return None

    def _backoff_left_s(self, job: Obj) -> float:
        count, last = self._failures.get(uid_of(job), (0, 0.0))
        if not count:
            return 0.0
        backoff_s = min(self._cluster.settings.job_backoff_s * 2 ** min(count - 1, 10), _LONGEST_BACKOFF_S)
        return float(last + backoff_s - self._cluster.clock.monotonic())

    @staticmethod
    def _succeeded(job: Obj, tally: _Tally) -> int:
        return len(tally.done) if spec(job).get("completionMode") == "Indexed" else tally.succeeded

    def _is_complete(self, job: Obj, tally: _Tally) -> bool:
        completions = spec(job).get("completions")
        succeeded = self._succeeded(job, tally)
        if completions is None:
            return bool(succeeded) and not tally.active
        return succeeded >= int(completions)

    def _wanted(self, job: Obj, tally: _Tally) -> int:
        holder = spec(job)
        parallelism, completions = int(holder.get("parallelism", 1)), holder.get("completions")
        succeeded = self._succeeded(job, tally)
        if completions is None:
            # A work queue: once one pod has succeeded, no new ones are started.
            return len(tally.active) if succeeded else parallelism
        return min(parallelism, int(completions) - succeeded)

    def _shed(self, tally: _Tally, *, keep: int) -> None:
        """Delete pods that are no longer wanted; they are no failures. Unbound ones go first."""
        order = sorted(tally.active, key=lambda pod: bool(spec(pod.obj).get("nodeName")))
        for pod in order[: len(tally.active) - keep]:
            self._cluster.remover.delete(self._untrack(pod), DeleteOptions(uid=uid_of(pod.obj)))
        tally.active = order[len(tally.active) - keep :]

    def _create(self, job: Obj, tally: _Tally, count: int) -> None:
        if spec(job).get("completionMode") == "Indexed":
            taken = tally.done | {index_of(pod.obj) or 0 for pod in tally.active}
            numbers: list[int | None] = list(indexes.missing(int(spec(job)["completions"]), taken=taken, count=count))
        else:
            numbers = [None] * count
        for index in numbers:
            pod = self._pod(job, index)
            namespace = metadata(job)["namespace"]
            tally.active.append(self._writer.create(table.POD, pod, namespace=namespace))

    @staticmethod
    def _pod(job: Obj, index: int | None) -> Obj:
        name = name_of(job)
        base = f"{name}-" if index is None else f"{name}-{index}-"
        pod = pod_from_template(spec(job)["template"], owner=job, kind=table.JOB, name_base=base)
        meta = pod["metadata"]
        meta["finalizers"] = [*(meta.get("finalizers") or ()), TRACKING]
        if index is not None:
            meta["labels"] = {**(meta.get("labels") or {}), INDEX: str(index)}
            meta["annotations"] = {**(meta.get("annotations") or {}), INDEX: str(index)}
            pod["spec"].setdefault("hostname", f"{name}-{index}")
            source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
            for container in pod["spec"].get("containers") or ():
                variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
                container["env"] = [*(container.get("env") or ()), variable]
        return pod

    def _report(self, key: str, tally: _Tally) -> None:
        namespace, name = split(key)
        stored = self._store.get(table.JOB, namespace=namespace, name=name)
        if stored is None:
            return
        job, now = stored.obj, self._writer.now()
        active = [pod for pod in self._pods.of(job) if is_active(pod.obj)]
        ready = [pod for pod in active if condition_status(pod.obj, "Ready") == "True"]
        changed = with_status(
            job,
            active=len(active) or None,
            ready=len(ready),
            terminating=tally.terminating,
            succeeded=self._succeeded(job, tally) or None,
            failed=tally.failed or None,
            uncountedTerminatedPods={},
            startTime=status(job).get("startTime") or (None if spec(job).get("suspend") else now),
        )
        if spec(job).get("completionMode") == "Indexed":
            changed = with_status(changed, completedIndexes=indexes.shown(tally.done) or None)
        self._writer.commit(stored, self._concluded(changed, tally, now=now))

    def _concluded(self, job: Obj, tally: _Tally, *, now: str) -> Obj:
        if tally.failure:
            reason, message = tally.failure
            for type_ in ("FailureTarget", "Failed"):
                job = with_condition(job, now=now, type=type_, status="True", reason=reason, message=message)
        elif self._is_complete(job, tally):
            message = "Reached expected number of succeeded pods"
            for type_ in ("SuccessCriteriaMet", "Complete"):
                reason = "CompletionsReached"
                job = with_condition(job, now=now, type=type_, status="True", reason=reason, message=message)
            job = with_status(job, completionTime=now)
        elif spec(job).get("suspend"):
            suspended = {"type": "Suspended", "reason": "JobSuspended", "message": "Job suspended"}
            job = with_condition(with_status(job, startTime=None), now=now, status="True", **suspended)
        elif condition_status(job, "Suspended") == "True":
            resumed = {"type": "Suspended", "reason": "JobResumed", "message": "Job resumed"}
            job = with_condition(job, now=now, status="False", **resumed)
        return job


def finished(job: Obj) -> bool:
    """Whether the Job is complete or has failed."""
    return "True" in {condition_status(job, "Complete"), condition_status(job, "Failed")}


def _is_tracked(pod: Obj) -> bool:
    return TRACKING in (metadata(pod).get("finalizers") or ())


def index_of(pod: Obj) -> int | None:
    """The completion index of a pod of an Indexed Job."""
    text = (metadata(pod).get("annotations") or {}).get(INDEX)
    return int(text) if text is not None and text.isdecimal() else None
