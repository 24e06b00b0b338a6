"""Builders of what other platforms make: their objects, and pods as their controllers would leave them."""

from collections.abc import Mapping
from typing import Any

from services.core.names import GANG_LABEL
from services.core.objects import GroupSource, Job, Kind, Metadata, Owner, Pod, Role, Uid
from tests.builders import NAMESPACE, START, pod

API_VERSIONS: Mapping[str, str] = {
    "Job": "batch/v1",
    "StatefulSet": "apps/v1",
    "Pod": "v1",
    "ReplicaSet": "apps/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
    "RayCluster": "ray.io/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "TFJob": "kubeflow.org/v1",
    "MPIJob": "kubeflow.org/v2beta1",
}


def uid_of(kind: str, name: str, *, namespace: str = NAMESPACE) -> Uid:
    """The uid of an owner of these builders."""
    return Uid(f"uid-{namespace}-{kind}-{name}")


def owner(kind: str, name: str, *, uid: str | None = None, namespace: str = NAMESPACE) -> Owner:
    """A controller reference."""
    found = uid_of(kind, name, namespace=namespace) if uid is None else Uid(uid)
    return Owner(kind=kind, name=name, uid=found, is_controller=True, api_version=API_VERSIONS[kind])


def metadata(kind: str, name: str, *, namespace: str = NAMESPACE, **fields: Any) -> Metadata:
    """The metadata of an owner."""
    values: dict[str, Any] = {"uid": uid_of(kind, name, namespace=namespace), "resource_version": "1"}
    return Metadata(name=name, namespace=namespace, **values | {"created_at": START} | fields)


def job(name: str = "train", *, owners: tuple[Owner, ...] = (), is_gang: bool = False, **fields: Any) -> Job:
    """A batch Job; further fields are those of Job and, as `meta`, of its metadata."""
    labels = {GANG_LABEL: "true"} if is_gang else {}
    meta: dict[str, Any] = {"labels": labels, "owners": owners} | dict(fields.pop("meta", {}))
    return Job(metadata=metadata("Job", name, **meta), **fields)


def source(kind: Kind, word: str, name: str, *, owners: tuple[Owner, ...] = (), **fields: Any) -> GroupSource:
    """An object that groups pods; `word` is its kind as the API spells it."""
    meta: dict[str, Any] = {"owners": owners} | dict(fields.pop("meta", {}))
    return GroupSource(metadata=metadata(word, name, **meta), kind=kind, **fields)


def job_pods(name: str = "train", *, count: int = 2, is_gang: bool = False, **fields: Any) -> tuple[Pod, ...]:
    """The pods of a batch Job."""
    labels = {"batch.kubernetes.io/job-name": name} | ({GANG_LABEL: "true"} if is_gang else {})
    return tuple(
        pod(
            f"{name}-{index}",
            **{"owners": (owner("Job", name),)} | fields | {"labels": labels | dict(fields.get("labels", {}))},
        )
        for index in range(count)
    )


def job_set(name: str = "set", *, suspended: bool = False, roles: Mapping[str, int] | None = None) -> GroupSource:
    """A JobSet of these roles."""
    given = tuple(Role(name=role, count=count) for role, count in (roles or {"driver": 1, "workers": 2}).items())
    size = sum(role.count for role in given)
    return source(Kind.JOB_SET, "JobSet", name, roles=given, size=size, is_suspended=suspended)


def job_set_parts(
    name: str = "set", *, roles: Mapping[str, int] | None = None
) -> tuple[tuple[Job, ...], tuple[Pod, ...]]:
    """The Jobs of a JobSet, one for each role, and their pods."""
    jobs: list[Job] = []
    pods: list[Pod] = []
    for role, count in (roles or {"driver": 1, "workers": 2}).items():
        child = f"{name}-{role}-0"
        labels = {"jobset.sigs.k8s.io/jobset-name": name, "jobset.sigs.k8s.io/replicatedjob-name": role}
        jobs.append(job(child, owners=(owner("JobSet", name),), meta={"labels": labels}, parallelism=count))
        pods += job_pods(child, count=count, labels=labels)
    return tuple(jobs), tuple(pods)


def lws(name: str = "serve", *, size: int = 3, late: bool = False, **fields: Any) -> GroupSource:
    """A LeaderWorkerSet."""
    roles = (Role(name="leader", count=1), Role(name="worker", count=size - 1, is_late=late))
    return source(Kind.LEADER_WORKER_SET, "LeaderWorkerSet", name, roles=roles, size=size, **fields)


def lws_parts(
    name: str = "serve", *, group: int = 0, size: int = 3, **fields: Any
) -> tuple[tuple[GroupSource, ...], tuple[Pod, ...]]:
    """The StatefulSets of one group of a LeaderWorkerSet, and its pods: the leader first."""
    leader = f"{name}-{group}"
    labels = {"leaderworkerset.sigs.k8s.io/name": name, "leaderworkerset.sigs.k8s.io/group-index": str(group)}
    index = "leaderworkerset.sigs.k8s.io/worker-index"
    leaders = source(Kind.STATEFUL_SET, "StatefulSet", name, owners=(owner("LeaderWorkerSet", name),))
    first = pod(
        leader, uid=uid_of("Pod", leader), labels=labels | {index: "0"}, owners=(owner("StatefulSet", name),), **fields
    )
    workers = source(Kind.STATEFUL_SET, "StatefulSet", leader, owners=(owner("Pod", leader),))
    others = tuple(
        pod(
            f"{leader}-{number}", labels=labels | {index: str(number)}, owners=(owner("StatefulSet", leader),), **fields
        )
        for number in range(1, size)
    )
    return (leaders, workers), (first, *others)


def ray_cluster(name: str = "ray", *, workers: int = 2, **fields: Any) -> GroupSource:
    """A RayCluster with one worker group."""
    roles = (Role(name="head", count=1), Role(name="small", count=workers))
    return source(Kind.RAY_CLUSTER, "RayCluster", name, roles=roles, size=workers + 1, **fields)


def ray_pods(name: str = "ray", *, workers: int = 2) -> tuple[Pod, ...]:
    """The head and the workers of a RayCluster."""
    cluster = {"ray.io/cluster": name}
    head = pod(f"{name}-head", labels=cluster | {"ray.io/node-type": "head"}, owners=(owner("RayCluster", name),))
    worker = cluster | {"ray.io/node-type": "worker", "ray.io/group": "small"}
    others = (
        pod(f"{name}-small-{index}", labels=worker, owners=(owner("RayCluster", name),)) for index in range(workers)
    )
    return (head, *others)


def training_pods(kind: str, name: str = "fit", *, replicas: Mapping[str, int] | None = None) -> tuple[Pod, ...]:
    """The pods of a job of the training operator."""
    return tuple(
        pod(
            f"{name}-{role}-{index}",
            labels={"training.kubeflow.org/job-name": name, "training.kubeflow.org/replica-type": role},
            owners=(owner(kind, name),),
        )
        for role, count in (replicas or {"master": 1, "worker": 2}).items()
        for index in range(count)
    )


def kueue_pods(
    name: str = "group", *, count: int = 2, total: int | str | None = None, **fields: Any
) -> tuple[Pod, ...]:
    """Plain pods that Kueue groups."""
    stated = {"kueue.x-k8s.io/pod-group-total-count": str(count if total is None else total)}
    annotations = stated | dict(fields.pop("annotations", {}))
    return tuple(
        pod(f"{name}-{index}", labels={"kueue.x-k8s.io/pod-group-name": name}, annotations=annotations, **fields)
        for index in range(count)
    )
