"""What nothing explains: half bound gangs of transactions that neither stream nor journal knows any more."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from services.core.cluster import Cluster
from services.core.decisions import Assignment, Committed, Decision, DecisionEvent, Proposed, RolledBack
from services.core.ledger import Ledger
from services.core.names import REPAIR_WINDOW_ANNOTATION, TRANSACTION_ANNOTATION
from services.core.objects import GangId, NodeName, Pod, TransactionId, Uid
from services.core.sweeping import Leftover, leftovers
from tests.builders import START, applied, members, pod, pod_group, synced

GANG = GangId("podgroup/team-a/train")
OLD, NEW = TransactionId("20260701T120000-a"), TransactionId("20260701T130000-b")


def by(transaction: str, *pods: Pod, node: str = "n1") -> tuple[Pod, ...]:
    """Pods as a transaction bound them."""
    return tuple(
        replace(
            one,
            node=NodeName(node),
            metadata=replace(
                one.metadata,
                resource_version="2",
                annotations={TRANSACTION_ANNOTATION: transaction} if transaction else {},
            ),
        )
        for one in pods
    )


class Scene:
    """A gang of four, as it is followed and as it is live."""

    def __init__(self, *, min_count: int = 4, **group: str) -> None:
        """Nothing is bound."""
        self.cluster, self.ledger = Cluster(), Ledger()
        self.pods = members("train", count=4)
        self.group = pod_group("train", min_count=min_count, **group)  # type: ignore[arg-type]
        for change in (*synced(), applied(self.group), *(applied(one) for one in self.pods)):
            self.cluster.apply(change, revision=7)

    def decided(self, event: DecisionEvent, *, transaction: TransactionId = OLD) -> None:
        """Fold a decision."""
        self.ledger.apply(Decision(gang=GANG, event=event, decided_at=START, transaction=transaction))

    def found(self, live: Iterable[Pod]) -> tuple[Leftover, ...]:
        """What a sweep finds."""
        return leftovers(self.cluster, self.ledger, live={one.metadata.uid: one for one in live})


def test_half_a_gang_is_found_though_it_is_not_followed_yet() -> None:
    """The API server has two of four on nodes; the stream still shows them open, and knows no transaction."""
    scene = Scene()
    (one,) = scene.found(by(OLD, *scene.pods[:2]))
    assert (one.gang, one.transaction, one.min_count, one.already_placed) == (GANG, OLD, 4, 0)
    assert [member.pod for member in one.members] == ["train-0", "train-1"]
    reopened = one.reopened(revision=7, now=START)
    assert reopened.is_reopened
    assert (reopened.round, reopened.repair_window) == (0, timedelta(seconds=30))


def test_its_window_is_the_groups() -> None:
    """The annotation is still there, whatever is lost."""
    scene = Scene()
    scene.cluster.apply(
        applied(pod_group("train", min_count=4, version="9", annotations={REPAIR_WINDOW_ANNOTATION: "2m"})), revision=8
    )
    assert scene.found(by(OLD, scene.pods[0]))[0].repair_window == timedelta(minutes=2)


@pytest.mark.parametrize("count", [0, 4])
def test_nothing_and_all_are_whole(count: int) -> None:
    """There is nothing to explain."""
    scene = Scene()
    assert scene.found(by(OLD, *scene.pods[:count])) == ()


def test_an_open_transaction_explains_it() -> None:
    """It is being worked on."""
    scene = Scene()
    assignments = tuple(
        Assignment(pod=one.metadata.name, uid=one.metadata.uid, node=NodeName("n1")) for one in scene.pods
    )
    scene.decided(Proposed(revision=7, deadline=START, min_count=4, assignments=assignments))
    assert scene.found(by(OLD, *scene.pods[:2])) == ()


def test_an_ended_one_is_never_opened_again() -> None:
    """It has its one ending; what was kept then stays."""
    scene = Scene()
    scene.decided(RolledBack(reasons=()))
    assert scene.found(by(OLD, *scene.pods[:2])) == ()


def test_a_gang_that_was_committed_is_not_ours_to_take_back() -> None:
    """By the stream, or by the condition on its group where the stream is lost."""
    scene = Scene()
    scene.decided(Committed(members=()))
    assert scene.found(by(OLD, *scene.pods[:2])) == ()
    lost = Scene()
    lost.cluster.apply(applied(pod_group("train", min_count=4, version="9", initially_scheduled="True")), revision=8)
    assert lost.found(by(OLD, *lost.pods[:2])) == ()


def test_pods_that_others_bound_are_not_ours() -> None:
    """Without our annotation there is no transaction of ours to open."""
    scene = Scene()
    assert scene.found(by("", *scene.pods[:2])) == ()


def test_the_latest_of_two_is_opened_first() -> None:
    """What the earlier one left counts beside it, and has its turn."""
    scene = Scene()
    (one,) = scene.found((*by(OLD, scene.pods[0]), *by(NEW, scene.pods[1])))
    assert (one.transaction, one.already_placed) == (NEW, 1)
    assert [member.uid for member in one.members] == [scene.pods[1].metadata.uid]


def test_pods_that_end_or_are_unknown_do_not_count() -> None:
    """A terminating one is going anyway; one that is not followed yet is looked at by the next sweep."""
    scene = Scene()
    going = replace(by(OLD, scene.pods[0])[0])
    going = replace(going, metadata=replace(going.metadata, deleted_at=START))
    assert scene.found((going, *by(OLD, pod("train-9", group="train", uid=Uid("new"))))) == ()


def test_single_pods_are_never_half_bound() -> None:
    """A gang that needs one member is whole with any."""
    scene = Scene(min_count=1)
    assert scene.found(by(OLD, scene.pods[0])) == ()
