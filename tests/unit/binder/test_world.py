"""What the binder knows from both streams: promises, setbacks, and the check that rests on them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from services.binder.world import World
from services.core.decisions import (
    Assignment,
    Committed,
    Decision,
    DecisionEvent,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
)
from services.core.names import ALLOW_DELETE_ANNOTATION
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import ReasonCode
from services.core.transaction import begin
from services.core.transaction_check import allows_delete, lost_members, misfits_of, placed_beside
from services.core.transaction_state import TransactionState
from tests.builders import START, applied, deleted, node, pod, pod_group

GANG = GangId("podgroup/team-a/g")
A, B = Uid("uid-team-a-a"), Uid("uid-team-a-b")


def assignment(name: str, *, on: str = "n1") -> Assignment:
    """A pod on a node."""
    return Assignment(pod=name, uid=Uid(f"uid-team-a-{name}"), node=NodeName(on))


def proposed(*names: str, round: int = 0, on: str = "n1") -> Proposed:  # noqa: A002 - as the field is called
    """A round of the gang."""
    return Proposed(
        revision=1,
        deadline=START + timedelta(minutes=1),
        min_count=len(names),
        assignments=tuple(assignment(name, on=on) for name in names),
        round=round,
    )


class Stage:
    """A world with one node of eight GPUs and the members a and b."""

    def __init__(self) -> None:
        self.world = World()
        self.sequence = 0
        for item in (node("n1"), pod_group("g", min_count=2), pod("a", group="g"), pod("b", group="g")):
            self.world.observe_change(applied(item), revision=1)

    def decide(self, event: DecisionEvent, *, transaction: str = "t1", traceparent: str = "", epoch: int = 0) -> None:
        """Fold a decision."""
        self.sequence += 1
        decision = Decision(
            gang=GANG,
            event=event,
            decided_at=START + timedelta(seconds=self.sequence),
            transaction=TransactionId(transaction),
            epoch=epoch,
        )
        self.world.observe_decision(decision, sequence=self.sequence, at=decision.decided_at, traceparent=traceparent)

    @property
    def free(self) -> int:
        """Free GPUs of the node."""
        return self.world.cluster.inventory.free_on(NodeName("n1"))["nvidia.com/gpu"]


@pytest.fixture
def stage() -> Stage:
    """A fresh stage."""
    return Stage()


class TestPromises:
    """Room that is promised and not yet seen taken."""

    def test_a_pod_that_is_seen_after_its_promise_is_charged(self, stage: Stage) -> None:
        """The two streams are read side by side: a promise may be known before its pod."""
        stage.decide(proposed("a", "late"))
        assert stage.free == 7
        stage.world.observe_change(applied(pod("late", group="g")), revision=2)
        assert stage.free == 6

    def test_of_a_lost_stream_promises_stay_until_it_is_known_what_became_of_them(self, stage: Stage) -> None:
        """A binding may be on its way: room is given back once the API server says who is bound, and kept for those."""
        stage.decide(proposed("a", "b"))
        stage.world.adopt_decisions(World())
        assert not list(stage.world.ledger.open())
        assert (stage.world.placed_up_to, stage.free) == (0, 6)
        stage.world.drop_lost_promises({A})
        assert stage.free == 7
        stage.world.observe_change(applied(pod("a", group="g", node="n1", version="2")), revision=3)
        assert (stage.free, stage.world.cluster.promises()) == (7, {})

    def test_what_is_open_in_a_stream_that_was_read_again_stays_promised(self, stage: Stage) -> None:
        """Also what was not known before; what a sweep finds has nothing to do with it."""
        stage.decide(proposed("a"))
        again = Stage()
        again.decide(proposed("a", "b"))
        stage.world.adopt_decisions(again.world)
        stage.world.drop_lost_promises(())
        assert stage.free == 6

    def test_a_refused_node_is_not_charged_again_by_a_new_fold(self, stage: Stage) -> None:
        """What was taken back by a repair stays taken back when the cluster is read anew."""
        stage.decide(proposed("a", "b"))
        stage.decide(
            Repairing(
                round=0,
                bound=(assignment("a"),),
                open=(OpenMember(pod="b", uid=B, excluded_nodes=(NodeName("n1"),)),),
                until=START + timedelta(minutes=1),
                min_count=2,
            )
        )
        assert stage.free == 7
        stage.world.adopt(Stage().world.cluster)
        assert stage.free == 7

    def test_a_bound_member_that_is_not_seen_is_charged_by_a_new_fold(self, stage: Stage) -> None:
        """A cluster that was read anew may lack a binding that a commit has told of."""
        stage.decide(proposed("a", "b"))
        stage.decide(Committed(members=(assignment("a"), assignment("b"))))
        stage.world.adopt(Stage().world.cluster)
        assert stage.free == 6

    def test_a_proposal_holds_its_room(self, stage: Stage) -> None:
        """Others see the node as fuller."""
        stage.decide(proposed("a", "b"))
        assert stage.free == 6

    @pytest.mark.parametrize("ending", [Refused(reasons=()), RolledBack(reasons=())])
    def test_a_failure_gives_it_back(self, stage: Stage, ending: DecisionEvent) -> None:
        """Nothing of it was bound, or all is being deleted."""
        stage.decide(proposed("a", "b"))
        stage.decide(ending)
        assert stage.free == 8

    def test_a_commit_holds_it_until_the_pod_is_seen_bound(self, stage: Stage) -> None:
        """The message may come before the cluster shows it."""
        stage.decide(proposed("a", "b"))
        stage.decide(Committed(members=(assignment("a"),), open=1))
        assert stage.free == 7
        stage.world.observe_change(applied(pod("a", group="g", node="n1", version="2")), revision=2)
        assert stage.free == 7

    def test_open_members_give_theirs_back(self, stage: Stage) -> None:
        """They need another node; the others' promises stand."""
        stage.decide(proposed("a", "b"))
        opened = OpenMember(pod="b", uid=B, excluded_nodes=(NodeName("n1"),))
        stage.decide(Repairing(round=0, bound=(), open=(opened,), until=START, min_count=2))
        assert stage.free == 7

    def test_members_that_are_seen_late_are_promised_then(self, stage: Stage) -> None:
        """The proposal may be read before its newest pods."""
        stage.decide(proposed("a", "c"))
        assert stage.free == 7
        stage.world.observe_change(applied(pod("c", group="g")), revision=2)
        stage.world.promise(TransactionId("t1"))
        assert stage.free == 6

    def test_a_cluster_that_is_read_anew_is_charged_again(self, stage: Stage) -> None:
        """After a gap in the stream."""
        stage.decide(proposed("a", "b"))
        stage.world.adopt(Stage().world.cluster)
        assert stage.free == 6


class TestMemory:
    """What is remembered of transactions."""

    def test_setbacks_make_cautious_until_a_clean_commit(self, stage: Stage) -> None:
        """Refused, repaired and undone gangs are tried with more care."""
        assert not stage.world.had_setback(GANG)
        stage.decide(proposed("a"))
        stage.decide(Refused(reasons=()))
        assert stage.world.had_setback(GANG)
        stage.decide(proposed("a"), transaction="t2")
        stage.decide(Committed(members=(assignment("a"),), repaired=1), transaction="t2")
        assert stage.world.had_setback(GANG)
        stage.decide(proposed("a"), transaction="t3")
        stage.decide(Committed(members=(assignment("a"),)), transaction="t3")
        assert not stage.world.had_setback(GANG)

    def test_the_last_repairing_is_known_after_a_restart(self, stage: Stage) -> None:
        """Only the last message of each subject is read: Repairing of round 0 comes before Proposed of round 1."""
        repairing = Repairing(round=0, bound=(), open=(), until=START, min_count=1)
        stage.decide(repairing)
        stage.decide(proposed("a", round=1))
        transaction = stage.world.ledger.transaction(TransactionId("t1"))
        assert transaction is not None
        assert stage.world.repairing(transaction) == repairing

    def test_a_repairing_of_another_transaction_is_not_taken_for_ours(self, stage: Stage) -> None:
        """An older transaction's repair says nothing about this one."""
        stage.decide(Repairing(round=0, bound=(), open=(), until=START, min_count=1), transaction="t0")
        stage.decide(proposed("a"))
        transaction = stage.world.ledger.transaction(TransactionId("t1"))
        assert transaction is not None
        assert stage.world.repairing(transaction) is None

    def test_traces_go_with_their_transaction(self, stage: Stage) -> None:
        """Kept while it is open."""
        stage.decide(proposed("a"), traceparent="00-a-b-01")
        assert stage.world.traceparent(TransactionId("t1")) == "00-a-b-01"
        stage.decide(Refused(reasons=()))
        assert stage.world.traceparent(TransactionId("t1")) == ""


class TestCheck:
    """Whether promised members still fit."""

    def test_a_gang_does_not_stand_in_its_own_way(self, stage: Stage) -> None:
        """Its own promises fill the node, and it fits all the same."""
        pods = {Uid(f"uid-team-a-{name}"): pod(name, group="g", gpus=4) for name in "ab"}
        for item in pods.values():
            stage.world.observe_change(applied(item), revision=2)
        stage.decide(proposed("a", "b"))
        assert stage.free == 0
        promised = dict.fromkeys(pods, NodeName("n1"))
        assert misfits_of(stage.world.cluster, gang=GANG, pods=pods, promised=promised, placed={}) == {}

    def test_what_others_were_promised_counts(self, stage: Stage) -> None:
        """The later of two promises of the same room fails the check."""
        stage.decide(proposed("a"))
        late = pod("late", gpus=8)
        stage.world.observe_change(applied(late), revision=2)
        found = misfits_of(
            stage.world.cluster,
            gang=GangId("pod/team-a/late"),
            pods={late.metadata.uid: late},
            promised={late.metadata.uid: NodeName("n1")},
            placed={},
        )
        assert found[late.metadata.uid].code is ReasonCode.PLACEMENT_STALE

    def test_a_member_bound_to_a_node_that_does_not_exist(self, stage: Stage) -> None:
        """Somebody else did it, and it will not run there."""
        stray = pod("a", group="g", node="gone")
        found = misfits_of(stage.world.cluster, gang=GANG, pods={A: stray}, promised={}, placed={A: NodeName("gone")})
        assert found[A].code is ReasonCode.BOUND_ELSEWHERE

    def test_members_beside_and_lost(self, stage: Stage) -> None:
        """Placed members outside of the transaction count; deleted and replaced ones inside are lost."""
        stage.world.observe_change(applied(pod("c", group="g", node="n1")), revision=2)
        assert placed_beside(stage.world.cluster, gang=GANG, members=[A, B]) == 1
        stage.world.observe_change(deleted(pod("b", group="g")), revision=3)
        names = {A: "a", B: "b"}
        assert lost_members(stage.world.cluster, namespace="team-a", names=names) == {B}
        stage.world.observe_change(applied(pod("a", group="g", deleted_at=START, version="2")), revision=4)
        assert lost_members(stage.world.cluster, namespace="team-a", names=names) == {A, B}

    @pytest.mark.parametrize(("value", "allowed"), [("true", True), ("True", False), ("", False)])
    def test_only_the_word_true_allows_deletion(self, stage: Stage, value: str, *, allowed: bool) -> None:
        """Anything else keeps the pods."""
        group = pod_group("g", min_count=2, version="2", annotations={ALLOW_DELETE_ANNOTATION: value})
        stage.world.observe_change(applied(group), revision=2)
        assert allows_delete(stage.world.cluster, gang=GANG) is allowed


class TestPassed:
    """Which journal entries describe something that is over."""

    def entry(self) -> TransactionState:
        """The entry of the gang's first transaction."""
        return begin(TransactionId("t1"), gang=GANG, proposal=proposed("a", "b"), at=START)[0]

    def test_an_open_transaction_has_not_passed(self, stage: Stage) -> None:
        """It is known as open."""
        stage.decide(proposed("a", "b"))
        assert not stage.world.has_passed(self.entry())

    def test_an_ended_one_has(self, stage: Stage) -> None:
        """Its ending is in the stream."""
        stage.decide(proposed("a", "b"))
        stage.decide(Refused(reasons=()))
        assert stage.world.has_passed(self.entry())

    def test_one_before_a_later_one_has(self, stage: Stage) -> None:
        """Its ending was replaced by that of the later one."""
        stage.decide(proposed("a", "b"), transaction="t2")
        assert stage.world.has_passed(self.entry())

    def test_one_of_which_the_stream_knows_nothing_is_kept(self, stage: Stage) -> None:
        """The stream was lost, perhaps: nothing is thrown away."""
        assert not stage.world.has_passed(self.entry())


def test_a_transaction_that_is_opened_again_says_nothing_of_placers(stage: Stage) -> None:
    """Its epoch is a binder's: the placer's next proposal, of a lower one, is taken all the same."""
    stage.decide(replace(proposed("a"), is_reopened=True), transaction="t0", epoch=9)
    assert stage.world.newest_epoch == 0
    assert stage.world.objections == {}
