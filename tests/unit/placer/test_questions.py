"""What is answered about the placer's state: where pods would go, and what is known of a gang."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.manifest_files import Manifests
from services.core.attention import DecisionPolicy
from services.core.decider import Decider
from services.core.decisions import (
    Committed,
    Decision,
    DecisionEvent,
    Degraded,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
)
from services.core.objects import (
    Applied,
    ClusterObject,
    GangId,
    Kind,
    KubernetesObject,
    NodeName,
    Owner,
    Uid,
    WatchPhase,
)
from services.core.plan import PlanOutcome
from services.core.reasons import Reason, ReasonCode
from services.placer.questions import (
    MAX_PODS,
    Explanation,
    NotSynced,
    PlanAnswer,
    TooMany,
    explanation,
    plan_question,
)
from tests import groups
from tests.builders import START, deleted, members, node, pod, pod_group, seconds, synced, watch
from tests.property.strategies import nodes

TRAIN = GangId("podgroup/team-a/train")
LONE = GangId("pod/team-a/w-0")
STALE = Reason(code=ReasonCode.PLACEMENT_STALE, message="a node is gone")


class Room:
    """A decider that has seen some objects."""

    def __init__(self, *objects: ClusterObject, is_synced: bool = True) -> None:
        """Show the objects."""
        self.decider = Decider(policy=DecisionPolicy(settle=timedelta(0)))
        self.now = START
        self.revision = 0
        if is_synced:
            for change in synced():
                self.decider.observe_change(change, revision=0, at=START)
        self.show(*objects)

    def show(self, *objects: ClusterObject) -> None:
        """Show more objects."""
        for item in objects:
            self.revision += 1
            self.decider.observe_change(Applied(object=item), revision=self.revision, at=self.now)

    def decide(self) -> list[Decision]:
        """Decide one second later."""
        self.now += seconds(1)
        return [outcome.decision for outcome in self.decider.decide(self.now)]

    def end(self, decision: Decision, event: DecisionEvent) -> None:
        """Say what became of a decision, one second later."""
        self.now += seconds(1)
        self.decider.observe_decision(replace(decision, event=event, decided_at=self.now), at=self.now)

    def explain(self, gang: GangId = TRAIN) -> Explanation:
        """What is known of a gang."""
        found = explanation(self.decider, gang_id=gang)
        assert found is not None
        return found

    def plan(self, *objects: KubernetesObject, takes_all_schedulers: bool = False) -> PlanAnswer:
        """Where the objects' pods would go."""
        question = plan_question(Manifests(objects=objects), takes_all_schedulers=takes_all_schedulers)
        return question(self.decider)


def train(*, size: int = 2, gpus: int = 1) -> tuple[KubernetesObject, ...]:
    """A gang."""
    return (pod_group("train", min_count=size), *members("train", count=size, gpus=gpus))


def codes_of(found: Explanation) -> list[ReasonCode]:
    """The codes of its reasons."""
    return [reason.code for reason in found.reasons]


def proposal_of(room: Room) -> tuple[Decision, Proposed]:
    """The only decision, a proposal."""
    (decision,) = room.decide()
    assert isinstance(decision.event, Proposed)
    return decision, decision.event


def test_gang_that_was_never_seen() -> None:
    """Nothing is known of it."""
    assert explanation(Room().decider, gang_id=TRAIN) is None


@pytest.mark.parametrize("asked", ["job/team-a/part", "replicaset/team-a/part"])
def test_owner_of_members_of_a_group(asked: str) -> None:
    """A Job whose pods are another object's gang is none itself: the answer is about theirs, of whatever kind it is."""
    owner = Owner(api_version="v1", kind="Job" if "job" in asked else "ReplicaSet", name="part", uid=Uid("u"))
    room = Room(pod_group("train", min_count=3), *members("train", count=2, owners=(owner,)))
    assert room.explain(GangId(asked)).gang == TRAIN
    assert explanation(room.decider, gang_id=GangId(asked.replace("team-a", "team-b"))) is None


def test_arriving_gang() -> None:
    """It has not been tried: that is the reason."""
    found = Room(node(), *train()).explain()
    assert (found.state, codes_of(found)) == ("waiting", [ReasonCode.MEMBERS_ARRIVING])
    assert (found.min_count, found.existing, found.placed, found.position) == (2, 2, 0, 0)


def test_gang_that_fell_below_its_quorum_names_what_is_missing() -> None:
    """A gang that lost members from outside has nothing to place, and is not said to be arriving."""
    found = Room(node(), pod_group("train", min_count=2), pod("train-0", group="train", node="n1")).explain()
    assert (found.state, codes_of(found)) == ("waiting", [ReasonCode.MEMBERS_MISSING])
    assert found.reasons[0].message == "1 of the 2 needed pods exist"


def test_gang_on_a_cluster_that_is_not_followed() -> None:
    """It may fit or not; the reason names the kinds that are missing."""
    room = Room(node(), *train(), watch(Kind.NODE, phase=WatchPhase.LISTING), is_synced=False)
    (reason,) = room.explain().reasons
    assert reason.code is ReasonCode.CLUSTER_NOT_SYNCED
    assert "node" in reason.message


def test_waiting_gang_has_reasons_a_place_and_a_since() -> None:
    """`since` is when its present reasons began to hold, not when they were looked at last."""
    room = Room(node(gpus=3), *train(size=4))
    room.decide()
    began = room.now
    room.show(node(gpus=3, cpu=1, version="2"))
    room.decide()
    found = room.explain()
    assert (found.state, codes_of(found)) == (
        "waiting",
        [ReasonCode.INSUFFICIENT_CAPACITY, ReasonCode.INSUFFICIENT_RESOURCE],
    )
    assert (found.position, found.since, found.revision) == (1, began, room.revision)


def test_position_is_that_of_the_queue() -> None:
    """Priority first, then age, then name."""
    room = Room(node(gpus=1))
    room.show(pod_group("old", min_count=2), *members("old", count=2))
    later = START + seconds(60)
    room.show(pod_group("new", min_count=2, created_at=later), *members("new", count=2))
    room.show(pod_group("first", min_count=2, created_at=later, priority=9), *members("first", count=2))
    room.decide()
    places = {name: room.explain(GangId(f"podgroup/team-a/{name}")).position for name in ("first", "old", "new")}
    assert places == {"first": 1, "old": 2, "new": 3}


def test_proposed_gang() -> None:
    """Nodes are those that are promised."""
    room = Room(node(), *train())
    decision, _ = proposal_of(room)
    found = room.explain()
    assert (found.state, found.reasons, found.position) == ("proposed", (), 0)
    assert found.nodes == {"train-0": "n1", "train-1": "n1"}
    assert (found.transaction, found.since) == (decision.transaction, decision.decided_at)


def test_repairing_gang() -> None:
    """Its transaction is open, and the placer or the binder is at work on it."""
    room = Room(node(), *train())
    decision, event = proposal_of(room)
    bound, lost = event.assignments
    open_member = OpenMember(pod=lost.pod, uid=lost.uid, excluded_nodes=(lost.node,))
    room.end(
        decision,
        Repairing(round=0, bound=(bound,), open=(open_member,), until=room.now + seconds(30), min_count=2),
    )
    found = room.explain()
    assert (found.state, found.transaction, found.since) == ("repairing", decision.transaction, room.now)


def test_running_gang() -> None:
    """Since its commit; nodes are those where it runs."""
    room = Room(node(), *train())
    decision, event = proposal_of(room)
    room.show(*(replace(item, node=NodeName("n1")) for item in members("train", count=2, version="2")))
    room.end(decision, Committed(members=event.assignments))
    found = room.explain()
    assert (found.state, found.placed, found.since) == ("running", 2, room.now)
    assert found.nodes == {"train-0": "n1", "train-1": "n1"}
    assert (found.transaction, found.reasons) == ("", ())


def test_gang_that_others_bound() -> None:
    """Nothing was decided about it, so nothing is said about since when."""
    room = Room(node(), *(replace(item, node=NodeName("n1")) for item in members("train", count=2)))
    room.show(pod_group("train", min_count=2))
    room.decide()
    assert (room.explain().state, room.explain().since) == ("running", None)


@pytest.mark.parametrize("event", [Refused(reasons=(STALE,)), RolledBack(reasons=(STALE,))])
def test_gang_that_failed_says_why(event: DecisionEvent) -> None:
    """Until it is tried again, the reasons are those of its last transaction."""
    room = Room(node(), *train())
    decision, _ = proposal_of(room)
    room.end(decision, event)
    found = room.explain()
    assert (found.state, found.reasons) == ("waiting", (STALE,))


def test_gang_that_lost_a_member_is_degraded() -> None:
    """It is said as such, with why, and since when it was told; and no more once its members are back."""
    room = Room(node(), *train())
    decision, proposed = proposal_of(room)
    bound = [replace(item, node=NodeName("n1")) for item in members("train", count=2)]
    room.show(*bound)
    room.end(decision, Committed(members=proposed.assignments))
    lost = deleted(bound[1])
    room.revision += 1
    room.decider.observe_change(lost, revision=room.revision, at=room.now)
    room.decide()
    (told,) = room.decide()
    assert isinstance(told.event, Degraded)
    found = room.explain()
    assert (found.state, found.placed, found.since) == ("degraded", 1, told.decided_at)
    assert ReasonCode.QUORUM_LOST in codes_of(found)
    room.show(bound[1])
    room.decide()
    assert room.explain().state == "running"


def test_gang_that_is_gone() -> None:
    """What is left is its last decision."""
    room = Room(node(), *train())
    decision, _ = proposal_of(room)
    for item in members("train", count=2):
        room.decider.observe_change(deleted(item), revision=9, at=room.now)
    found = room.explain()
    assert (found.state, found.transaction) == ("unknown", decision.transaction)


def test_plan_is_about_what_is_free_now() -> None:
    """Pods that run, and pods that are promised, are in the way."""
    room = Room(node(gpus=4), pod("runs", gpus=1, node="n1"), pod("promised", gpus=1))
    proposal_of(room)
    answer = room.plan(pod("two", gpus=2), pod("three", gpus=3))
    assert answer.plans[GangId("pod/team-a/two")].outcome is PlanOutcome.PLACED
    assert answer.plans[GangId("pod/team-a/three")].outcome is PlanOutcome.WAITING
    assert answer.revision == room.revision


def test_plan_holds_no_waiting_gang_against_it() -> None:
    """The question is about the pods that are given; others that wait are not planned."""
    room = Room(node(gpus=4), *train(size=8))
    room.decide()
    answer = room.plan(pod("new", gpus=4))
    assert list(answer.plans) == ["pod/team-a/new"]
    assert answer.plans[GangId("pod/team-a/new")].outcome is PlanOutcome.PLACED


def test_plan_imagines_nodes() -> None:
    """A given node stands beside the real ones, or in the place of the one of its name."""
    room = Room(node("n1", gpus=1))
    gang: tuple[KubernetesObject, ...] = (pod_group("g", min_count=4), *members("g", count=4))
    assert room.plan(*gang).plans[GangId("podgroup/team-a/g")].outcome is PlanOutcome.WAITING
    answer = room.plan(node("n2", gpus=3), *gang).plans[GangId("podgroup/team-a/g")]
    assert answer.outcome is PlanOutcome.PLACED
    assert sorted(answer.bound.values()) == ["n1", "n2", "n2", "n2"]
    assert room.plan(node("n1", gpus=4), *gang).plans[GangId("podgroup/team-a/g")].outcome is PlanOutcome.PLACED


def test_plan_takes_pods_of_other_schedulers_where_asked() -> None:
    """Only those that are not bound: a running pod is where it is."""
    room = Room(node(gpus=2))
    given_pods = (pod("theirs", scheduler="default-scheduler"), pod("runs", scheduler="default-scheduler", node="n1"))
    assert room.plan(*given_pods).plans == {}
    answer = room.plan(*given_pods, takes_all_schedulers=True)
    assert {gang: one.outcome for gang, one in answer.plans.items()} == {"pod/team-a/theirs": PlanOutcome.PLACED}


def test_plan_needs_a_cluster_that_is_followed() -> None:
    """Otherwise the answer could be wrong; it says what is missing."""
    with pytest.raises(NotSynced, match="node, pod, podgroup"):
        Room(is_synced=False).plan(pod())


def test_plan_has_a_limit() -> None:
    """It is told before the state is asked."""
    pods = tuple(pod(f"p-{index}") for index in range(MAX_PODS + 1))
    with pytest.raises(TooMany, match="at most 4096 pods, got 4097"):
        plan_question(Manifests(objects=pods), takes_all_schedulers=False)


@st.composite
def rooms(draw: Callable[..., Any]) -> Room:
    """A decider with running, promised and waiting pods."""
    room = Room(*draw(nodes()))
    for index in range(draw(st.integers(0, 3))):
        room.show(pod(f"runs-{index}", node=draw(st.sampled_from(["n0", "n1", "gone"]))))
    for name in draw(st.lists(st.sampled_from("abc"), unique=True)):
        size = draw(st.integers(1, 4))
        room.show(pod_group(name, min_count=size), *members(name, count=size, gpus=draw(st.integers(0, 4))))
        if draw(st.booleans()):
            room.decide()
    return room


@st.composite
def manifests(draw: Callable[..., Any]) -> tuple[KubernetesObject, ...]:
    """Nodes that may be real ones, gangs that may be real ones, and pods of others."""
    objects: list[KubernetesObject] = list(draw(nodes(most=3)))
    for name in draw(st.lists(st.sampled_from("abcd"), unique=True)):
        size = draw(st.integers(1, 5))
        objects += [pod_group(name, min_count=size), *members(name, count=size, gpus=draw(st.integers(0, 4)))]
    if draw(st.booleans()):
        objects.append(pod("other", scheduler="default-scheduler", node=draw(st.sampled_from(["", "n0", "gone"]))))
    return tuple(objects)


@given(room=rooms(), objects=manifests(), takes_all_schedulers=st.booleans())
def test_questions_change_nothing(
    room: Room, objects: tuple[KubernetesObject, ...], *, takes_all_schedulers: bool
) -> None:
    """After any question every byte of the state is what it was; and the same question has the same answer."""
    before = pickle.dumps(room.decider)
    answer = room.plan(*objects, takes_all_schedulers=takes_all_schedulers)
    for gang in (TRAIN, LONE, *(GangId(f"podgroup/team-a/{name}") for name in "abcd")):
        explanation(room.decider, gang_id=gang)
    assert pickle.dumps(room.decider) == before
    assert room.plan(*objects, takes_all_schedulers=takes_all_schedulers) == answer


def test_since_is_a_moment_of_the_clock_that_was_given() -> None:
    """No clock is read here."""
    room = Room(node(gpus=0), pod("w-0"))
    room.decide()
    assert room.explain(LONE).since == datetime(2026, 7, 1, 12, 0, 1, tzinfo=START.tzinfo)
    assert Uid("uid-team-a-w-0") not in room.decider.cluster.promises()


def test_group_that_lives_already_is_planned_once_more() -> None:
    """The plan is about the group in the question, under its own name, beside the one that runs."""
    running = tuple(replace(one, node=NodeName("n1")) for one in members("train", count=2))
    room = Room(node(gpus=8), pod_group("train", min_count=2), *running)
    (again,) = room.plan(*train(size=6)).plans.items()
    assert (again[0], again[1].outcome, len(again[1].bound)) == (TRAIN, PlanOutcome.PLACED, 6)
    assert room.plan(*train(size=7)).plans[TRAIN].outcome is PlanOutcome.WAITING


def test_member_of_a_group_is_answered_for_its_group() -> None:
    """Nothing is decided about the pod alone."""
    room = Room(node(gpus=1), *train(size=2))
    room.decide()
    assert room.explain(GangId("pod/team-a/train-0")) == room.explain(TRAIN)


def test_gang_that_is_asked_for_by_name() -> None:
    """Whatever its kind; of several of one name the PodGroup is meant, and a lone pod last."""
    room = Room(node(gpus=1), groups.job(is_gang=True, parallelism=9), *groups.job_pods(is_gang=True), pod("train"))
    room.decide()
    asked = GangId("*/team-a/train")
    assert room.explain(asked).gang == "job/team-a/train"
    room.show(pod_group("train", min_count=2), *members("train", count=2, uid="other"))
    assert room.explain(asked).gang == TRAIN
    assert room.explain(GangId("*/team-a/train-1")).gang == TRAIN


def test_gang_whose_members_finish() -> None:
    """It runs while one does, and has finished once none does."""
    room = Room(node(), pod_group("train", min_count=2))
    found = []
    for phases in (("Running", "Running"), ("Succeeded", "Running"), ("Succeeded", "Failed")):
        for index, phase in enumerate(phases):
            room.show(pod(f"train-{index}", group="train", node="n1", phase=phase, has_started=True))
        answer = room.explain()
        found.append((answer.state, answer.placed, answer.finished))
    assert found == [("running", 2, 0), ("running", 2, 1), ("finished", 2, 2)]
