"""The pod templates in workloads that people write, with the names, labels and owners that their controllers give.

Names end where a controller would append random letters.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from services.core.gang_sizes import LWS_SIZE_ANNOTATION
from services.core.manifests import FieldError, flag_at, integer_at, mapping_at, numbered, text_at
from services.core.membership import (
    COMPLETION_INDEX_LABEL,
    JOB_SET_LABEL,
    JOB_SET_ROLE_LABEL,
    LWS_GROUP_LABEL,
    LWS_NAME_LABEL,
    LWS_SUBGROUP_LABEL,
    LWS_WORKER_LABEL,
    RAY_CLUSTER_LABEL,
    RAY_GROUP_LABEL,
    RAY_NODE_TYPE_LABEL,
    TRAINING_NAME_LABEL,
    TRAINING_ROLE_LABELS,
)

Spec = Mapping[str, Any]
MAX_IMAGINED_PODS = 4096
"""Pods that one workload may stand for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImaginedPods:
    """Pods of one template. `at` is its path, `counted_by` the field that says how many there are.

    `labels` are those of each pod beside the `common_labels`; `owner` is kind and name of an object between pods and
    workload, None where the workload itself owns them.
    """

    at: str
    template: Spec
    counted_by: str
    names: Sequence[str]
    labels: Sequence[Mapping[str, str]] = ()
    common_labels: Mapping[str, str] = field(default_factory=dict)
    common_annotations: Mapping[str, str] = field(default_factory=dict)
    owner: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadTemplates:
    """How the templates of one kind are found; `group` is its API group."""

    group: str
    read: Callable[[str, Spec], Iterator[ImaginedPods]]


def _count(parent: Spec, key: str, *, at: str, default: int = 1) -> int:
    count = integer_at(parent, key, at=at, default=default)
    if not 0 <= count <= MAX_IMAGINED_PODS:
        raise FieldError(field=at, expected=f"0 to {MAX_IMAGINED_PODS} pods", got=count)
    return count


def _replicated(name: str, spec: Spec) -> Iterator[ImaginedPods]:
    count = _count(spec, "replicas", at="spec.replicas")
    yield ImaginedPods(
        at="spec.template",
        template=mapping_at(spec, "template", at="spec.template"),
        counted_by="spec.replicas",
        names=[f"{name}-{index}" for index in range(count)],
    )


def _job(name: str, spec: Spec) -> Iterator[ImaginedPods]:
    yield _job_pods(name, spec, at="spec", labels={"batch.kubernetes.io/job-name": name})


def _job_pods(
    name: str,
    spec: Spec,
    *,
    at: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str] | None = None,
    owner: tuple[str, str] | None = None,
) -> ImaginedPods:
    """Return the pods of one Job, alone or in a JobSet."""
    count = _count(spec, "parallelism", at=f"{at}.parallelism")
    count = min(count, _count(spec, "completions", at=f"{at}.completions", default=count))
    return ImaginedPods(
        at=f"{at}.template",
        template=mapping_at(spec, "template", at=f"{at}.template"),
        counted_by=f"{at}.parallelism",
        names=[f"{name}-{index}" for index in range(count)],
        labels=[{COMPLETION_INDEX_LABEL: str(index)} for index in range(count)],
        common_labels=labels,
        common_annotations=annotations or {},
        owner=owner,
    )


def _job_set(name: str, spec: Spec) -> Iterator[ImaginedPods]:
    for path, item in numbered(spec, "replicatedJobs", at="spec.replicatedJobs"):
        role = text_at(item, "name", at=f"{path}.name")
        template = mapping_at(item, "template", at=f"{path}.template")
        job = mapping_at(template, "spec", at=f"{path}.template.spec")
        own = mapping_at(template, "metadata", at=f"{path}.template.metadata")
        annotations = mapping_at(own, "annotations", at=f"{path}.template.metadata.annotations")
        for index in range(_count(item, "replicas", at=f"{path}.replicas")):
            child = f"{name}-{role}-{index}"
            labels = {JOB_SET_LABEL: name, JOB_SET_ROLE_LABEL: role, "jobset.sigs.k8s.io/job-index": str(index)}
            yield _job_pods(
                child,
                job,
                at=f"{path}.template.spec",
                labels=labels,
                annotations=annotations,
                owner=("Job", child),
            )


def _leader_worker_set(name: str, spec: Spec) -> Iterator[ImaginedPods]:
    at = "spec.leaderWorkerTemplate"
    templates = mapping_at(spec, "leaderWorkerTemplate", at=at)
    size = _count(templates, "size", at=f"{at}.size")
    policy = mapping_at(templates, "subGroupPolicy", at=f"{at}.subGroupPolicy")
    subgroup = _count(policy, "subGroupSize", at=f"{at}.subGroupPolicy.subGroupSize", default=0)
    leads = "leaderTemplate" if templates.get("leaderTemplate") is not None else "workerTemplate"
    for group in range(_count(spec, "replicas", at="spec.replicas")):
        leader = f"{name}-{group}"
        common = {LWS_NAME_LABEL: name, LWS_GROUP_LABEL: str(group)}
        for key, members, owner in ((leads, range(1), name), ("workerTemplate", range(1, size), leader)):
            yield ImaginedPods(
                at=f"{at}.{key}",
                template=mapping_at(templates, key, at=f"{at}.{key}"),
                counted_by=f"{at}.size",
                names=[leader if member == 0 else f"{leader}-{member}" for member in members],
                labels=[_lws_labels(member, size=size, subgroup=subgroup) for member in members],
                common_labels=common,
                common_annotations={LWS_SIZE_ANNOTATION: str(size)},
                owner=("StatefulSet", owner),
            )


def _lws_labels(member: int, *, size: int, subgroup: int) -> Mapping[str, str]:
    """Return the labels of one member; where the leader is one too many for even subgroups it goes with the first."""
    labels = {LWS_WORKER_LABEL: str(member)}
    if subgroup:
        shift = 1 if (size - 1) % subgroup == 0 else 0
        labels[LWS_SUBGROUP_LABEL] = str(max(member - shift, 0) // subgroup)
    return labels


def _ray_cluster(name: str, spec: Spec) -> Iterator[ImaginedPods]:
    head = mapping_at(spec, "headGroupSpec", at="spec.headGroupSpec")
    yield ImaginedPods(
        at="spec.headGroupSpec.template",
        template=mapping_at(head, "template", at="spec.headGroupSpec.template"),
        counted_by="spec.headGroupSpec",
        names=[f"{name}-head"],
        common_labels={RAY_CLUSTER_LABEL: name, RAY_NODE_TYPE_LABEL: "head"},
    )
    for path, item in numbered(spec, "workerGroupSpecs", at="spec.workerGroupSpecs"):
        if flag_at(item, "suspend", at=f"{path}.suspend"):
            continue
        group = text_at(item, "groupName", at=f"{path}.groupName")
        replicas = max(_count(item, key, at=f"{path}.{key}", default=0) for key in ("replicas", "minReplicas"))
        count = replicas * _count(item, "numOfHosts", at=f"{path}.numOfHosts")
        yield ImaginedPods(
            at=f"{path}.template",
            template=mapping_at(item, "template", at=f"{path}.template"),
            counted_by=f"{path}.replicas",
            names=[f"{name}-{group}-{index}" for index in range(min(count, MAX_IMAGINED_PODS + 1))],
            common_labels={RAY_CLUSTER_LABEL: name, RAY_NODE_TYPE_LABEL: "worker", RAY_GROUP_LABEL: group},
        )


def _training(key: str) -> Callable[[str, Spec], Iterator[ImaginedPods]]:
    def read(name: str, spec: Spec) -> Iterator[ImaginedPods]:
        for replica, item in mapping_at(spec, key, at=f"spec.{key}").items():
            at, role = f"spec.{key}.{replica}", replica.lower()
            count = _count(item, "replicas", at=f"{at}.replicas")
            yield ImaginedPods(
                at=f"{at}.template",
                template=mapping_at(item, "template", at=f"{at}.template"),
                counted_by=f"{at}.replicas",
                names=[f"{name}-{role}-{index}" for index in range(count)],
                common_labels={TRAINING_NAME_LABEL: name, TRAINING_ROLE_LABELS[0]: role},
            )

    return read


TEMPLATES: Mapping[str, WorkloadTemplates] = {
    "Deployment": WorkloadTemplates(group="apps", read=_replicated),
    "ReplicaSet": WorkloadTemplates(group="apps", read=_replicated),
    "StatefulSet": WorkloadTemplates(group="apps", read=_replicated),
    "Job": WorkloadTemplates(group="batch", read=_job),
    "JobSet": WorkloadTemplates(group="jobset.x-k8s.io", read=_job_set),
    "LeaderWorkerSet": WorkloadTemplates(group="leaderworkerset.x-k8s.io", read=_leader_worker_set),
    "RayCluster": WorkloadTemplates(group="ray.io", read=_ray_cluster),
    "PyTorchJob": WorkloadTemplates(group="kubeflow.org", read=_training("pytorchReplicaSpecs")),
    "TFJob": WorkloadTemplates(group="kubeflow.org", read=_training("tfReplicaSpecs")),
    "MPIJob": WorkloadTemplates(group="kubeflow.org", read=_training("mpiReplicaSpecs")),
}
"""Workloads by the kind that people write."""
