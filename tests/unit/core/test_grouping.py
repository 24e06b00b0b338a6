"""Which pods make a gang: every row of the table, who is believed, and that the order of arrival does not matter."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from services.core.cluster import Cluster
from services.core.gangs import Gang
from services.core.objects import (
    Applied,
    Deleted,
    GangId,
    GroupSource,
    Job,
    Kind,
    NodeName,
    Pod,
    Role,
    Uid,
    WatchPhase,
    kind_of,
)
from services.core.quorum import quorum_reasons
from services.core.reasons import ReasonCode
from tests import groups
from tests.builders import START, members, pod, pod_group, seconds, watch
from tests.groups import owner

Item = Pod | Job | GroupSource


def folded(*items: Item | Any, trusts_unseen: bool = False) -> Cluster:
    """A cluster that has seen these objects in this order."""
    cluster = Cluster(trusts_unseen=trusts_unseen)
    for item in items:
        cluster.apply(Applied(object=item), revision=0)
    return cluster


def gang_of(cluster: Cluster, gang: str) -> Gang:
    """A gang that must exist."""
    found = cluster.gang(GangId(gang))
    assert found is not None, sorted(cluster.gang_ids())
    return found


def ids(cluster: Cluster) -> list[str]:
    """The gangs of a cluster."""
    return sorted(cluster.gang_ids())


def names(pods: Iterable[Pod]) -> list[str]:
    """Names of pods."""
    return [one.metadata.name for one in pods]


def codes(gang: Gang) -> list[ReasonCode]:
    """Why a gang cannot be tried."""
    return [reason.code for reason in quorum_reasons(gang)]


COSCHEDULED = tuple(pod(f"w-{index}", labels={"scheduling.x-k8s.io/pod-group": "g"}) for index in range(2))
VOLCANO = tuple(pod(f"w-{index}", annotations={"scheduling.k8s.io/group-name": "g"}) for index in range(2))
_JOB_SET_JOBS, _JOB_SET_PODS = groups.job_set_parts()
_LWS_SETS, _LWS_PODS = groups.lws_parts()
_FIT = groups.training_pods("PyTorchJob")
_FIT_ROLES = (Role(name="master", count=1), Role(name="worker", count=2))

RECOGNISED: tuple[tuple[str, tuple[Any, ...], str, int, int], ...] = (
    ("podgroup", (pod_group("g", min_count=2), *members("g", count=3)), "podgroup/team-a/g", 2, 3),
    ("basic podgroup", (pod_group("g", min_count=0, is_gang=False), *members("g", count=3)), "podgroup/team-a/g", 1, 3),
    (
        "coscheduling",
        (groups.source(Kind.COSCHEDULING_GROUP, "PodGroup", "g", min_count=2), *COSCHEDULED),
        "coscheduling/team-a/g",
        2,
        2,
    ),
    ("kueue", groups.kueue_pods(count=3, total=4), "kueue/team-a/group", 4, 3),
    (
        "volcano",
        (groups.source(Kind.VOLCANO_GROUP, "PodGroup", "g", min_count=2), *VOLCANO),
        "volcano/team-a/g",
        2,
        2,
    ),
    ("jobset", (groups.job_set(), *_JOB_SET_JOBS, *_JOB_SET_PODS), "jobset/team-a/set", 3, 3),
    ("lws", (groups.lws(), *_LWS_SETS, *_LWS_PODS), "lws/team-a/serve-0", 3, 3),
    ("raycluster", (groups.ray_cluster(), *groups.ray_pods()), "raycluster/team-a/ray", 3, 3),
    (
        "pytorchjob",
        (groups.source(Kind.PYTORCH_JOB, "PyTorchJob", "fit", roles=_FIT_ROLES, size=3), *_FIT),
        "pytorchjob/team-a/fit",
        3,
        3,
    ),
    (
        "tfjob",
        (groups.source(Kind.TF_JOB, "TFJob", "fit", min_count=2, size=3), *groups.training_pods("TFJob")),
        "tfjob/team-a/fit",
        2,
        3,
    ),
    (
        "mpijob",
        (groups.source(Kind.MPI_JOB, "MPIJob", "fit", roles=_FIT_ROLES), *groups.training_pods("MPIJob")),
        "mpijob/team-a/fit",
        3,
        3,
    ),
    (
        "job by its own label",
        (groups.job(parallelism=4, is_gang=True), *groups.job_pods(count=3)),
        "job/team-a/train",
        4,
        3,
    ),
    (
        "job by its pods' label",
        (groups.job(parallelism=4, completions=2), *groups.job_pods(is_gang=True)),
        "job/team-a/train",
        2,
        2,
    ),
)


@pytest.mark.parametrize("backwards", [False, True], ids=["owners first", "pods first"])
@pytest.mark.parametrize(
    ("items", "gang", "needed", "count"), [one[1:] for one in RECOGNISED], ids=[one[0] for one in RECOGNISED]
)
def test_recognised(items: tuple[Any, ...], gang: str, needed: int, count: int, *, backwards: bool) -> None:
    """Each row of the table makes one gang of all its pods, with what it needs at once."""
    cluster = folded(*(reversed(items) if backwards else items))
    assert ids(cluster) == [gang]
    found = gang_of(cluster, gang)
    assert (found.min_count, len(found.open), found.unverified) == (needed, count, ())
    assert found.is_declared


@pytest.mark.parametrize(
    "pods",
    [
        (pod("a"), pod("b")),
        (pod("a", owners=(owner("ReplicaSet", "web"),)), pod("b", owners=(owner("ReplicaSet", "web"),))),
        (pod("a", owners=(owner("StatefulSet", "db"),)), pod("b", owners=(owner("StatefulSet", "db"),))),
        (pod("a", labels={"spark-role": "driver"}), pod("b", labels={"spark-role": "executor"})),
    ],
    ids=["plain", "deployment", "statefulset", "spark"],
)
def test_pods_that_are_alone(pods: tuple[Pod, ...]) -> None:
    """What is no gang must not be made one."""
    cluster = folded(*pods)
    assert ids(cluster) == ["pod/team-a/a", "pod/team-a/b"]
    assert all(codes(gang_of(cluster, gang)) == [] for gang in ids(cluster))


def test_pods_of_an_ordinary_job_are_alone() -> None:
    """A Job is a gang only where it says so; until it was seen its pods wait, because it may."""
    cluster = folded(*groups.job_pods())
    assert codes(gang_of(cluster, "pod/team-a/train-0")) == [ReasonCode.OWNER_NOT_SEEN]
    cluster.apply(Applied(object=groups.job()), revision=1)
    assert ids(cluster) == ["pod/team-a/train-0", "pod/team-a/train-1"]
    assert codes(gang_of(cluster, "pod/team-a/train-0")) == []


def test_first_row_that_matches_wins() -> None:
    """A PodGroup that is named goes before a label, and a label that names a group before the owners."""
    jobs, pods = groups.job_set_parts()
    both = [replace(one, group="g") for one in pods]
    assert ids(folded(groups.job_set(), *jobs, *both)) == ["podgroup/team-a/g"]
    labels = {"kueue.x-k8s.io/pod-group-name": "k", "scheduling.x-k8s.io/pod-group": "c"}
    assert ids(folded(pod("w", labels=labels, group="g"))) == ["podgroup/team-a/g"]
    assert ids(folded(pod("w", labels=labels))) == ["coscheduling/team-a/c"]


def test_each_group_of_a_leader_worker_set_is_a_gang() -> None:
    """Its replicas are placed one by one, each whole."""
    sets, first = groups.lws_parts(group=0)
    more, second = groups.lws_parts(group=1)
    cluster = folded(groups.lws(), *sets, *more, *first, *second)
    assert ids(cluster) == ["lws/team-a/serve-0", "lws/team-a/serve-1"]
    assert names(gang_of(cluster, "lws/team-a/serve-1").open) == ["serve-1", "serve-1-1", "serve-1-2"]


def test_late_roles_count_once_they_are_there() -> None:
    """Workers that are made when their leader runs are not waited for, but then all of them are needed."""
    sets, (leader, *workers) = groups.lws_parts(size=4)
    cluster = folded(groups.lws(size=4, late=True), *sets, leader)
    assert gang_of(cluster, "lws/team-a/serve-0").min_count == 1
    cluster.apply(
        Applied(object=replace(leader, node=NodeName("n1"), metadata=replace(leader.metadata, resource_version="2"))),
        revision=1,
    )
    cluster.apply(Applied(object=workers[0]), revision=2)
    found = gang_of(cluster, "lws/team-a/serve-0")
    assert (found.min_count, found.needed, codes(found)) == (4, 3, [ReasonCode.MEMBERS_MISSING])


# Who is believed.


def spoofers() -> list[Any]:
    """Pods that say they belong to a gang of others."""
    jobs, (driver, *_) = groups.job_set_parts()
    sets, (leader, worker, _) = groups.lws_parts()
    stolen = {"uid": "uid-of-nobody"}
    return [
        pytest.param(
            (groups.job_set(), *jobs), pod("x", labels=driver.metadata.labels), "jobset/team-a/set", id="no owner"
        ),
        pytest.param(
            (groups.job_set(), *jobs),
            pod("x", labels=driver.metadata.labels, owners=(owner("Job", "set-driver-0", **stolen),)),
            "jobset/team-a/set",
            id="a Job of another uid",
        ),
        pytest.param(
            (groups.job_set(), *jobs, groups.job("mine")),
            pod("x", labels=driver.metadata.labels, owners=(owner("Job", "mine"),)),
            "jobset/team-a/set",
            id="a Job of one's own",
        ),
        pytest.param(
            (groups.job_set(), *jobs, groups.job("mine", owners=(owner("JobSet", "set", **stolen),))),
            pod("x", labels=driver.metadata.labels, owners=(owner("Job", "mine"),)),
            "jobset/team-a/set",
            id="a Job with a JobSet of another uid",
        ),
        pytest.param(
            (groups.lws(), *sets, leader),
            pod("x", labels=worker.metadata.labels, owners=(owner("StatefulSet", "serve-0", **stolen),)),
            "lws/team-a/serve-0",
            id="a StatefulSet of another uid",
        ),
        pytest.param(
            (groups.lws(), *sets, leader),
            pod("x", labels=worker.metadata.labels),
            "lws/team-a/serve-0",
            id="a LeaderWorkerSet without owner",
        ),
        pytest.param(
            (groups.ray_cluster(),),
            pod(
                "x",
                labels={"ray.io/cluster": "ray", "ray.io/group": "small"},
                owners=(owner("RayCluster", "ray", **stolen),),
            ),
            "raycluster/team-a/ray",
            id="a RayCluster of another uid",
        ),
        pytest.param(
            (groups.job(is_gang=True),),
            groups.job_pods(count=1, is_gang=True, owners=(owner("Job", "train", **stolen),))[0],
            "job/team-a/train",
            id="a gang Job of another uid",
        ),
        pytest.param(
            (groups.ray_cluster(),),
            pod("x", namespace="team-b", labels={"ray.io/cluster": "ray"}, owners=(owner("RayCluster", "ray"),)),
            "raycluster/team-a/ray",
            id="another namespace",
        ),
    ]


@pytest.mark.parametrize(("owners", "spoofer", "gang"), spoofers())
def test_label_alone_neither_joins_nor_blocks_a_gang(owners: tuple[Any, ...], spoofer: Pod, gang: str) -> None:
    """The gang has no member by it, whatever comes first; and where nothing is claimed in truth the pod is alone."""
    for items in ((*owners, spoofer), (spoofer, *owners)):
        found = folded(*items).gang(GangId(gang))
        assert found is None or spoofer not in (*found.open, *found.placed, *found.gated)
        assert found is None or found.existing < found.min_count


def test_spoofer_beside_a_whole_gang_makes_no_difference() -> None:
    """Its members are placed; the stranger is told that its owner was not seen."""
    stranger = groups.job_pods("train", count=1, is_gang=True, owners=(owner("Job", "train", uid="other"),))[0]
    stranger = replace(stranger, metadata=replace(stranger.metadata, name="x", uid=Uid("x")))
    cluster = folded(stranger, *groups.job_pods(is_gang=True), groups.job(parallelism=2, is_gang=True))
    found = gang_of(cluster, "job/team-a/train")
    assert names(found.open) == ["train-0", "train-1"]
    assert names(found.unverified) == ["x"]
    assert codes(found) == []


def test_pods_of_an_earlier_owner_do_not_count() -> None:
    """A Job that was deleted and made again under its name has pods of its own only."""
    old = groups.job_pods(is_gang=True, count=1, node="n1", owners=(owner("Job", "train", uid="old"),))
    new = groups.job_pods(is_gang=True, count=3)[1:]
    found = gang_of(folded(groups.job(parallelism=2, is_gang=True), *old, *new), "job/team-a/train")
    assert (names(found.open), found.placed, found.needed) == (["train-1", "train-2"], (), 2)


def test_kueue_group_is_not_held_up_by_a_pod_that_gainsays_it() -> None:
    """What the first pod says of the size counts."""
    stranger = replace(
        groups.kueue_pods(count=1, total=99)[0],
        metadata=replace(groups.kueue_pods(count=1, total=99)[0].metadata, name="x", created_at=START + seconds(1)),
    )
    found = gang_of(folded(stranger, *groups.kueue_pods(count=2)), "kueue/team-a/group")
    assert (found.min_count, names(found.open), names(found.unverified)) == (2, ["group-0", "group-1"], ["x"])


@pytest.mark.parametrize("total", ["", "many", "0", "-1", "1.5", "9" * 30, "²"])
def test_count_that_cannot_be_read(total: str) -> None:
    """The group waits, and the reason names pod, annotation and what was expected."""
    (reason,) = quorum_reasons(gang_of(folded(*groups.kueue_pods(total=total)), "kueue/team-a/group"))
    assert reason.code is ReasonCode.MISCONFIGURED
    assert "pod group-0: annotation kueue.x-k8s.io/pod-group-total-count: expected a count of pods" in reason.message


# What is not there.


def test_group_that_does_not_exist() -> None:
    """Pods that name a group wait for it, by the name that its users know."""
    (reason,) = quorum_reasons(gang_of(folded(*COSCHEDULED), "coscheduling/team-a/g"))
    assert reason.code is ReasonCode.GROUP_NOT_FOUND
    assert reason.message == "PodGroup (scheduling.x-k8s.io) g does not exist in namespace team-a; 2 pods name it"


def test_owner_of_a_kind_that_is_not_served_is_taken_at_its_word() -> None:
    """Without its definition there is nothing to compare with; the pods that exist are the gang."""
    cluster = folded(*groups.ray_pods())
    assert codes(gang_of(cluster, "raycluster/team-a/ray")) == [ReasonCode.OWNER_NOT_SEEN]
    cluster.apply(Applied(object=watch(Kind.RAY_CLUSTER, phase=WatchPhase.ABSENT)), revision=1)
    found = gang_of(cluster, "raycluster/team-a/ray")
    assert (found.min_count, codes(found), found.trusted) == (3, [], ("RayCluster ray",))
    cluster.apply(Applied(object=watch(Kind.RAY_CLUSTER)), revision=2)
    assert codes(gang_of(cluster, "raycluster/team-a/ray")) == [ReasonCode.OWNER_NOT_SEEN]


def test_plan_of_files_trusts_owners_that_are_not_stated() -> None:
    """But not pods that name another uid than that of an owner which is stated."""
    found = gang_of(folded(*groups.job_pods(is_gang=True), trusts_unseen=True), "job/team-a/train")
    assert (found.min_count, codes(found), found.trusted) == (2, [], ("Job train",))
    other = groups.job(is_gang=True, meta={"uid": Uid("other")})
    found = gang_of(folded(other, *groups.job_pods(is_gang=True), trusts_unseen=True), "job/team-a/train")
    assert (found.existing, codes(found)[0]) == (0, ReasonCode.OWNER_NOT_SEEN)


def test_owner_that_is_deleted_leaves_pods_that_wait() -> None:
    """They will be deleted too; until then none of them is placed."""
    cluster = folded(groups.ray_cluster(), *groups.ray_pods())
    item = groups.ray_cluster()
    cluster.apply(Deleted(kind=kind_of(item), metadata=item.metadata), revision=1)
    assert codes(gang_of(cluster, "raycluster/team-a/ray")) == [ReasonCode.OWNER_NOT_SEEN]


@pytest.mark.parametrize(
    "items",
    [
        (groups.job_set(suspended=True), *_JOB_SET_JOBS, *_JOB_SET_PODS),
        (groups.job(is_gang=True, is_suspended=True), *groups.job_pods(is_gang=True)),
        (groups.ray_cluster(is_suspended=True), *groups.ray_pods()),
    ],
    ids=["jobset", "job", "raycluster"],
)
def test_suspended(items: tuple[Any, ...]) -> None:
    """Nothing of it is placed, and the reason says so."""
    cluster = folded(*items)
    (gang,) = ids(cluster)
    assert codes(gang_of(cluster, gang)) == [ReasonCode.SUSPENDED]


# What a change alters.


def test_change_of_an_owner_tells_its_gang() -> None:
    """A size that changes wakes the gang; how far a Job has come does not."""
    cluster = folded(groups.job(parallelism=3, is_gang=True), *groups.job_pods(is_gang=True))
    smaller = groups.job(parallelism=2, is_gang=True, meta={"resource_version": "2"})
    assert cluster.apply(Applied(object=smaller), revision=1).gangs == {"job/team-a/train"}
    failed = replace(smaller, failed=1, metadata=replace(smaller.metadata, resource_version="3"))
    assert cluster.apply(Applied(object=failed), revision=2).gangs == frozenset()
    older = groups.job(parallelism=9, is_gang=True)
    assert cluster.apply(Applied(object=older), revision=3).gangs == frozenset()
    assert gang_of(cluster, "job/team-a/train").min_count == 2


def test_job_that_becomes_a_gang_takes_its_pods_along() -> None:
    """Both the gangs that they leave and the one that they join are told."""
    cluster = folded(groups.job(), *groups.job_pods())
    effects = cluster.apply(Applied(object=groups.job(is_gang=True, meta={"resource_version": "2"})), revision=1)
    assert effects.gangs == {"pod/team-a/train-0", "pod/team-a/train-1", "job/team-a/train"}
    assert names(effects.moved) == ["train-0", "train-1"]
    assert ids(cluster) == ["job/team-a/train"]
