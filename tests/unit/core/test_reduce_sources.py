"""What is read of other platforms' objects: how many pods must run at once, in which roles, and what is refused."""

from typing import Any

import pytest

from services.core.objects import GroupSource, Kind, Role
from services.core.reduce import MalformedObject, reduce


def source(kind: Kind, *, annotations: dict[str, str] | None = None, **spec: Any) -> GroupSource:
    """The reduced form of an object with this spec."""
    found = reduce(kind, {"metadata": {"name": "x", "namespace": "a", "annotations": annotations or {}}, "spec": spec})
    assert isinstance(found, GroupSource)
    assert found.kind is kind
    return found


def replicated(name: str, *, replicas: int = 1, **job: Any) -> dict[str, Any]:
    """One replicatedJob of a JobSet."""
    return {"name": name, "replicas": replicas, "template": {"spec": job}}


@pytest.mark.parametrize("kind", [Kind.COSCHEDULING_GROUP, Kind.VOLCANO_GROUP])
def test_groups_of_other_schedulers(kind: Kind) -> None:
    """They say `minMember`; one that says nothing needs one pod."""
    assert source(kind, minMember=8).min_count == 8
    assert source(kind).min_count == 1


def test_job_set_is_the_sum_of_its_roles() -> None:
    """Replicas times parallelism, where completions are no fewer."""
    roles = [replicated("driver"), replicated("workers", replicas=2, parallelism=4, completions=4)]
    found = source(Kind.JOB_SET, replicatedJobs=[*roles, replicated("tail", parallelism=8, completions=3)])
    assert found.roles == (Role(name="driver", count=1), Role(name="workers", count=8), Role(name="tail", count=3))
    assert (found.min_count, found.size, found.is_suspended) == (None, 12, False)


def test_job_set_whose_roles_start_one_after_the_other() -> None:
    """What comes later must not be waited for: InOrder, and dependsOn."""
    roles = [replicated("driver"), replicated("workers", parallelism=4)]
    ordered = source(Kind.JOB_SET, replicatedJobs=roles, startupPolicy={"startupPolicyOrder": "InOrder"}, suspend=True)
    assert [role.is_late for role in ordered.roles] == [False, True]
    assert ordered.is_suspended
    depends = [roles[0], roles[1] | {"dependsOn": [{"name": "driver", "status": "Ready"}]}]
    assert [role.is_late for role in source(Kind.JOB_SET, replicatedJobs=depends).roles] == [False, True]


def test_job_set_with_exclusive_domains() -> None:
    """Only the first pod of each Job is made before it has a node, unless the domains were assigned beforehand."""
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "example.com/rack"}
    roles = [replicated("workers", replicas=2, parallelism=4)]
    assert source(Kind.JOB_SET, annotations=exclusive, replicatedJobs=roles).roles == (
        Role(name="workers", count=2),
        Role(name="workers/followers", count=6, is_late=True),
    )
    assigned = exclusive | {"alpha.jobset.sigs.k8s.io/node-selector": "true"}
    assert source(Kind.JOB_SET, annotations=assigned, replicatedJobs=roles).roles == (Role(name="workers", count=8),)


@pytest.mark.parametrize(
    ("spec", "annotations", "is_late"),
    [
        ({}, {}, False),
        ({"startupPolicy": "LeaderCreated"}, {}, False),
        ({"startupPolicy": "LeaderReady"}, {}, True),
        ({}, {"leaderworkerset.sigs.k8s.io/exclusive-topology": "example.com/rack"}, True),
    ],
)
def test_leader_worker_set(spec: dict[str, Any], annotations: dict[str, str], *, is_late: bool) -> None:
    """One leader and its workers, which come later where the leader has to run, or to have a node, first."""
    found = source(Kind.LEADER_WORKER_SET, annotations=annotations, leaderWorkerTemplate={"size": 4}, **spec)
    assert found.roles == (Role(name="leader", count=1), Role(name="worker", count=3, is_late=is_late))
    assert found.size == 4


def test_ray_cluster() -> None:
    """The head, and of each worker group the least that it may have, on all of its hosts."""
    groups = [
        {"groupName": "small", "replicas": 4, "minReplicas": 2, "maxReplicas": 9},
        {"groupName": "slices", "replicas": 2, "minReplicas": 1, "numOfHosts": 4},
        {"groupName": "asleep", "replicas": 5, "minReplicas": 5, "suspend": True},
        {"groupName": "fixed", "replicas": 3, "minReplicas": 0},
    ]
    found = source(Kind.RAY_CLUSTER, workerGroupSpecs=groups, suspend=True)
    assert [(role.name, role.count) for role in found.roles] == [("head", 1), ("small", 2), ("slices", 4), ("fixed", 3)]
    assert (found.size, found.is_suspended) == (16, True)
    scaled = source(Kind.RAY_CLUSTER, workerGroupSpecs=groups, enableInTreeAutoscaling=True)
    assert [(role.name, role.count) for role in scaled.roles][-1] == ("fixed", 0)


def test_training_jobs() -> None:
    """All replicas, the least of an elastic job, or what the scheduling policy says; an MPI launcher may come later."""
    replicas = {"Master": {}, "Worker": {"replicas": 7}}
    assert source(Kind.PYTORCH_JOB, pytorchReplicaSpecs=replicas).roles == (
        Role(name="master", count=1),
        Role(name="worker", count=7),
    )
    elastic = source(Kind.PYTORCH_JOB, pytorchReplicaSpecs=replicas, elasticPolicy={"minReplicas": 3})
    assert [role.count for role in elastic.roles] == [1, 3]
    assert elastic.size == 8
    policy = {"schedulingPolicy": {"minAvailable": 5}, "suspend": True}
    told = source(Kind.TF_JOB, tfReplicaSpecs={"PS": {"replicas": 2}, "Worker": {"replicas": 4}}, runPolicy=policy)
    assert (told.min_count, told.size, told.is_suspended) == (5, 6, True)
    mpi = source(Kind.MPI_JOB, mpiReplicaSpecs={"Launcher": {"replicas": 1}, "Worker": {"replicas": 4}})
    assert mpi.roles == (Role(name="launcher", count=1, is_late=True), Role(name="worker", count=4))


def test_stateful_set_tells_its_owner_alone() -> None:
    """Its pods are no gang; it may stand between a LeaderWorkerSet and its pods."""
    assert source(Kind.STATEFUL_SET, replicas=9).size == 0


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (Kind.COSCHEDULING_GROUP, {"minMember": -1}, "spec.minMember"),
        (Kind.VOLCANO_GROUP, {"minMember": "many"}, "spec.minMember"),
        (Kind.JOB_SET, {"replicatedJobs": [{"replicas": -1}]}, "spec.replicatedJobs[0].replicas"),
        (
            Kind.JOB_SET,
            {"replicatedJobs": [replicated("x", replicas=2**30, parallelism=2**30)]},
            "spec.replicatedJobs",
        ),
        (Kind.LEADER_WORKER_SET, {"leaderWorkerTemplate": {"size": 0}}, "spec.leaderWorkerTemplate.size"),
        (Kind.RAY_CLUSTER, {"workerGroupSpecs": [{"numOfHosts": True}]}, "spec.workerGroupSpecs[0].numOfHosts"),
        (Kind.PYTORCH_JOB, {"pytorchReplicaSpecs": {"Worker": 3}}, "spec.pytorchReplicaSpecs.Worker"),
        (Kind.MPI_JOB, {"runPolicy": {"suspend": "no"}}, "spec.runPolicy.suspend"),
    ],
)
def test_what_cannot_be_read_is_named(kind: Kind, spec: dict[str, Any], field: str) -> None:
    """The error names object, field and what was expected."""
    with pytest.raises(MalformedObject) as error:
        source(kind, **spec)
    assert error.value.field == field
    assert f"{kind.value} a/x" in str(error.value)
