"""The cluster as a fold: what is free, which gangs there are, and what each change may have altered."""

from datetime import timedelta

import pytest

from services.core.cluster import NEEDED_KINDS, OPTIONAL_KINDS, Cluster
from services.core.effects import Effects, Promise
from services.core.objects import (
    Applied,
    ClusterChange,
    Deleted,
    GangId,
    Job,
    Kind,
    KubernetesObject,
    Metadata,
    NodeName,
    Pod,
    PriorityClass,
    TransactionId,
    Uid,
    WatchPhase,
    WatchState,
)
from services.core.versions import is_older
from tests.builders import GPU, START, applied, deleted, node, pod, pod_group, synced, watch

N1 = NodeName("n1")
GANG = GangId("podgroup/team-a/g")
NOTHING = Effects()


def cluster_of(*items: KubernetesObject) -> Cluster:
    """A cluster in which these objects were seen."""
    made = Cluster()
    for revision, item in enumerate(items, start=1):
        made.apply(applied(item), revision=revision)
    return made


def free_gpus(cluster: Cluster, name: str = "n1") -> int:
    """What is free of them on a node."""
    return cluster.inventory.free_on(NodeName(name)).get(GPU, 0)


def promise_for(item: Pod, *, node: str = "n1") -> Promise:
    """A promise of that node to the pod."""
    return Promise(
        uid=item.metadata.uid,
        gang=GANG,
        transaction=TransactionId("t1"),
        node=NodeName(node),
        pod=item,
    )


class TestPods:
    """A bound pod holds its amounts until it has ended or is gone."""

    def test_a_bound_pod_holds_what_it_asks_for(self) -> None:
        """A waiting one holds nothing."""
        assert free_gpus(cluster_of(node(), pod("a", gpus=3, node="n1"), pod("b", gpus=2))) == 5

    def test_a_pod_that_is_going_away_still_holds(self) -> None:
        """Until the kubelet has ended it."""
        cluster = cluster_of(
            node(), pod("a", gpus=3, node="n1"), pod("a", gpus=3, node="n1", version="2", deleted_at=START)
        )
        assert free_gpus(cluster) == 5

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_a_pod_that_has_ended_frees(self, phase: str) -> None:
        """Its node may have room now, and its gang may have changed."""
        cluster = cluster_of(node(), pod("a", group="g", gpus=3, node="n1"))
        effects = cluster.apply(applied(pod("a", group="g", gpus=3, node="n1", version="2", phase=phase)), revision=3)
        assert effects == Effects(gangs=frozenset({GANG}), roomier_nodes=frozenset({N1}), moves_pods=True)
        assert free_gpus(cluster) == 8

    def test_a_pod_that_is_deleted_frees(self) -> None:
        """As above; deleting it again changes nothing."""
        item = pod("a", group="g", gpus=3, node="n1")
        cluster = cluster_of(node(), item)
        effects = cluster.apply(deleted(item), revision=3)
        assert effects == Effects(gangs=frozenset({GANG}), roomier_nodes=frozenset({N1}), moves_pods=True)
        assert cluster.apply(deleted(item), revision=4) == NOTHING
        assert free_gpus(cluster) == 8
        assert cluster.gang_ids() == frozenset()

    def test_a_tombstone_of_a_predecessor_changes_nothing(self) -> None:
        """A pod of the same name has taken its place."""
        old, new = pod("a", uid="u1", node="n1"), pod("a", uid="u2", node="n1", version="2")
        cluster = cluster_of(node(), old, new)
        assert cluster.apply(deleted(old), revision=4) == NOTHING
        assert cluster.pod("team-a", "a") == new

    def test_an_older_version_changes_nothing(self) -> None:
        """Redelivery and a second watcher may bring it."""
        cluster = cluster_of(node(), pod("a", node="n1", version="10"))
        assert cluster.apply(applied(pod("a", version="9")), revision=3) == NOTHING
        assert free_gpus(cluster) == 7

    def test_a_replaced_pod_frees_and_takes(self) -> None:
        """The deletion between the two need not be seen."""
        cluster = cluster_of(node(), node("n2"), pod("a", uid="u1", gpus=3, node="n1"))
        effects = cluster.apply(applied(pod("a", uid="u2", gpus=1, node="n2", version="2")), revision=4)
        assert effects.roomier_nodes == {N1}
        assert (free_gpus(cluster), free_gpus(cluster, "n2")) == (8, 7)

    def test_the_same_again_changes_nothing(self) -> None:
        """Delivery is at least once."""
        item = pod("a", gpus=3, node="n1")
        cluster = cluster_of(node(), item)
        assert cluster.apply(applied(item), revision=3) == NOTHING
        assert free_gpus(cluster) == 5


class TestPromises:
    """What is promised is held, until the stream shows how it ended."""

    def test_a_promise_holds_and_is_kept_once(self) -> None:
        """Promising again replaces; binding turns it into use without counting twice."""
        item = pod("a", group="g", gpus=3)
        cluster = cluster_of(node(), node("n2"), item)
        cluster.promise(promise_for(item, node="n2"))
        cluster.promise(promise_for(item))
        assert (free_gpus(cluster), free_gpus(cluster, "n2")) == (5, 8)
        effects = cluster.apply(applied(pod("a", group="g", gpus=3, node="n1", version="2")), revision=4)
        assert (free_gpus(cluster), cluster.promises()) == (5, {})
        assert effects.roomier_nodes == frozenset()

    def test_a_pod_bound_elsewhere_frees_what_was_promised(self) -> None:
        """Somebody else bound it: the promised node has room, the other has not."""
        item = pod("a", gpus=3)
        cluster = cluster_of(node(), node("n2"), item)
        cluster.promise(promise_for(item))
        effects = cluster.apply(applied(pod("a", gpus=3, node="n2", version="2")), revision=4)
        assert effects.roomier_nodes == {N1}
        assert (free_gpus(cluster), free_gpus(cluster, "n2")) == (8, 5)

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(applied(pod("a", gpus=3, version="2", deleted_at=START)), id="terminating"),
            pytest.param(applied(pod("a", gpus=3, version="2", phase="Failed")), id="failed"),
            pytest.param(applied(pod("a", gpus=3, version="2", uid="u2")), id="replaced"),
            pytest.param(deleted(pod("a", gpus=3)), id="deleted"),
        ],
    )
    def test_a_member_that_is_gone_gives_its_promise_back(self, change: ClusterChange) -> None:
        """It will not run: its place is free at once."""
        item = pod("a", gpus=3)
        cluster = cluster_of(node(), item)
        cluster.promise(promise_for(item))
        assert cluster.apply(change, revision=3).roomier_nodes == {N1}
        assert (free_gpus(cluster), cluster.promises()) == (8, {})

    def test_a_promise_can_be_withdrawn(self) -> None:
        """Once; afterwards there is none."""
        item = pod("a", gpus=3)
        cluster = cluster_of(node(), item)
        cluster.promise(promise_for(item))
        assert cluster.withdraw(item.metadata.uid) == N1
        assert cluster.withdraw(item.metadata.uid) is None
        assert cluster.withdraw(Uid("unknown")) is None
        assert free_gpus(cluster) == 8

    def test_a_change_of_a_waiting_member_keeps_its_promise(self) -> None:
        """A new label is no reason to give the place away."""
        item = pod("a", gpus=3)
        cluster = cluster_of(node(), item)
        cluster.promise(promise_for(item))
        cluster.apply(applied(pod("a", gpus=3, version="2", labels={"x": "y"})), revision=3)
        assert free_gpus(cluster) == 5


class TestNodes:
    """Nodes come, change and go."""

    def test_a_new_or_changed_node_may_have_room(self) -> None:
        """The same node again has not."""
        cluster = Cluster()
        assert cluster.apply(applied(node()), revision=1).roomier_nodes == {N1}
        assert cluster.apply(applied(node()), revision=2) == NOTHING
        assert cluster.apply(applied(node(version="2", is_unschedulable=True)), revision=3).roomier_nodes == {N1}
        assert cluster.apply(applied(node()), revision=4) == NOTHING

    def test_a_node_that_is_gone_takes_its_room_along(self) -> None:
        """Its pods keep their hold, in case that it comes back under them."""
        item = node()
        cluster = cluster_of(item, pod("a", gpus=3, node="n1"))
        assert cluster.apply(deleted(item), revision=3) == Effects(moves_pods=True)
        assert cluster.inventory.node_count == 0
        cluster.apply(applied(node(version="2")), revision=4)
        assert free_gpus(cluster) == 5

    def test_a_tombstone_of_a_predecessor_changes_nothing(self) -> None:
        """The machine was set up anew under the same name."""
        old = node(uid="u1")
        cluster = cluster_of(old, node(uid="u2", version="2"))
        cluster.apply(deleted(old), revision=3)
        assert cluster.inventory.node_count == 1


class TestGroups:
    """Groups declare gangs."""

    def test_a_group_makes_its_pods_a_gang(self) -> None:
        """Whichever is seen first."""
        cluster = cluster_of(pod("g-0", group="g"), pod_group("g", min_count=2))
        found = cluster.gang(GANG)
        assert found is not None
        assert (found.is_declared, found.min_count, len(found.open)) == (True, 2, 1)
        assert cluster.gang_ids() == {GANG}

    def test_what_placement_does_not_read_changes_nothing(self) -> None:
        """Our own writes to its status come back here."""
        cluster = cluster_of(pod("g-0", group="g"), pod_group("g", min_count=2))
        written = pod_group("g", min_count=2, version="2", initially_scheduled="False")
        assert cluster.apply(applied(written), revision=3) == NOTHING
        lowered = pod_group("g", min_count=1, version="3")
        assert cluster.apply(applied(lowered), revision=4).gangs == {GANG}
        assert cluster.apply(applied(written), revision=5) == NOTHING

    def test_a_group_that_is_deleted_leaves_its_pods_undeclared(self) -> None:
        """They wait for somebody to declare it again."""
        group = pod_group("g", min_count=1)
        cluster = cluster_of(pod("g-0", group="g"), group)
        assert cluster.apply(deleted(group), revision=3).gangs == {GANG}
        assert cluster.apply(deleted(group), revision=4) == NOTHING
        found = cluster.gang(GANG)
        assert found is not None
        assert not found.is_declared

    def test_gangs_of_other_schedulers_are_not_ours(self) -> None:
        """They are neither listed nor assembled; what they use is counted all the same."""
        cluster = cluster_of(node(), pod("g-0", group="g", scheduler="other", node="n1", gpus=2))
        assert cluster.gang_ids() == frozenset()
        assert cluster.gang(GANG) is None
        assert free_gpus(cluster) == 6

    def test_a_pod_and_a_group_of_one_name_are_two_gangs(self) -> None:
        """Their ids differ in kind."""
        cluster = cluster_of(pod("g"), pod("g-0", group="g"), pod_group("g", min_count=1))
        assert cluster.gang_ids() == {GANG, GangId("pod/team-a/g")}
        lone = cluster.gang(GangId("pod/team-a/g"))
        assert lone is not None
        assert lone.group is None


class TestSyncing:
    """Nothing is decided on half a picture."""

    def test_every_needed_kind_must_be_followed(self) -> None:
        """An API that is absent needs no following where it is optional."""
        cluster = Cluster()
        assert cluster.unsynced() == (*NEEDED_KINDS, *OPTIONAL_KINDS)
        for change in synced():
            cluster.apply(change, revision=1)
        assert cluster.unsynced() == ()
        cluster.apply(Applied(object=watch(Kind.POD_GROUP, phase=WatchPhase.ABSENT)), revision=2)
        assert cluster.unsynced() == ()

    @pytest.mark.parametrize(("kind", "phase"), [(Kind.POD, WatchPhase.LISTING), (Kind.NODE, WatchPhase.ABSENT)])
    def test_a_kind_that_is_listed_again_or_absent(self, kind: Kind, phase: WatchPhase) -> None:
        """While pods are being listed anew they may be anywhere; without nodes there is no cluster."""
        cluster = Cluster()
        for change in (*synced(), Applied(object=watch(kind, phase=phase))):
            cluster.apply(change, revision=1)
        assert cluster.unsynced() == (kind.value,)


def test_the_revision_never_goes_back() -> None:
    """A repeated message has an older one."""
    cluster = cluster_of(node(), pod())
    cluster.apply(applied(node()), revision=1)
    assert cluster.revision == 2


def test_kinds_that_are_not_read_yet_have_no_effect() -> None:
    """Their revision counts."""
    cluster = Cluster()
    assert cluster.apply(applied(PriorityClass(metadata=Metadata(name="a"))), revision=7) == NOTHING
    assert cluster.revision == 7


def test_a_job_is_kept_until_it_is_gone() -> None:
    """An older version replaces nothing, and the end of a namesake before it is not its end."""
    cluster = Cluster()

    def job(version: str, *, uid: str = "u", limit: int = 6) -> Job:
        return Job(
            metadata=Metadata(name="a", namespace="team-a", uid=Uid(uid), resource_version=version), backoff_limit=limit
        )

    for number, version in enumerate(("5", "4")):
        cluster.apply(applied(job(version, limit=int(version))), revision=number)
    assert cluster.job("team-a", "a") == job("5", limit=5)
    cluster.apply(Deleted(kind=Kind.JOB, metadata=job("3", uid="before").metadata), revision=3)
    assert cluster.job("team-a", "a") is not None
    cluster.apply(Deleted(kind=Kind.JOB, metadata=job("6").metadata), revision=4)
    assert cluster.job("team-a", "a") is None


@pytest.mark.parametrize(
    ("left", "right", "older"),
    [("1", "2", True), ("2", "1", False), ("2", "2", False), ("9", "10", True), ("", "1", False), ("x", "1", False)],
)
def test_versions_compare_as_numbers(*, left: str, right: str, older: bool) -> None:
    """What is no number is never older: it could be anything."""
    one = Metadata(name="a", resource_version=left, created_at=START + timedelta(days=1))
    assert is_older(one, than=Metadata(name="a", resource_version=right, created_at=START)) is older


def test_watch_of_a_kind_from_a_later_release_is_passed_over() -> None:
    """A newer watcher may be rolled out before placer and binder, which go on."""
    cluster = Cluster()
    state = WatchState(metadata=Metadata(name="compositepodgroup"), phase=WatchPhase.SYNCED)
    assert cluster.apply(Applied(object=state), revision=1) == NOTHING
    assert cluster.unsynced() == (*NEEDED_KINDS, *OPTIONAL_KINDS)
