"""Gangs that ran and have lost members: repaired first, with room held for them, and kept or released in the end."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.core.attention import DecisionPolicy
from services.core.decisions import (
    Committed,
    Decision,
    Degraded,
    DegradedPolicy,
    Proposed,
    Refused,
    RolledBack,
    Waiting,
)
from services.core.degraded import DegradedTerms
from services.core.names import (
    ALLOW_DELETE_ANNOTATION,
    DEGRADED_POLICY_ANNOTATION,
    DEGRADED_TIMEOUT_ANNOTATION,
)
from services.core.objects import NodeName, Owner, Pod, Uid
from services.core.reasons import ReasonCode
from tests.builders import START, members, node, pod, pod_group
from tests.unit.core.test_decider import OTHER, SETTLE, TRAIN, Desk, bound, codes_of, only, proposal

JOB = Owner(kind="Job", name="train", uid=Uid("job-1"), is_controller=True)
TOLD = timedelta(seconds=1)
TIMEOUT = DegradedTerms().timeout
MEMORY = DecisionPolicy().rejection_memory


class Ward(Desk):
    """A desk with a gang of four that runs, two members on each of two nodes."""

    def __init__(self, *, nodes: int = 2, gpus: int = 2, annotations: Mapping[str, str] | None = None) -> None:
        """Place and commit the gang."""
        super().__init__(nodes=nodes, gpus=gpus)
        self.group = pod_group("train", min_count=4, annotations=annotations)
        pods = members("train", count=4, owners=(JOB,))
        self.see(self.group, *pods)
        self.first = only(self.decide())
        where = {one.uid: one.node for one in proposal(self.first).assignments}
        self.running = [bound(one, to=where[one.metadata.uid]) for one in pods]
        self.see(*self.running)
        self.hear(self.first, Committed(members=proposal(self.first).assignments))
        assert self.decide() == ()

    def successor(self, number: int = 9, **fields: Any) -> Pod:
        """Show the pod that the Job makes in the place of a lost one."""
        made = pod(f"train-{number}", group="train", owners=(JOB,), created_at=self.now, **fields)
        self.see(made)
        return made

    def fall(self, *pods: Pod) -> None:
        """Show that members are gone, which is not told yet."""
        self.lose(*pods)
        assert self.decide(after=timedelta()) == ()

    def told(self, *, after: timedelta = TOLD) -> Degraded:
        """Return the only thing that is decided after a while."""
        event = only(self.decide(after=after)).event
        assert isinstance(event, Degraded)
        return event

    def reject(self, member: Pod, *, reason: str = "OutOfcpu") -> None:
        """Let the kubelet reject a bound member."""
        version = str(int(member.metadata.resource_version) + 1)
        self.see(
            replace(member, phase="Failed", failure=reason, metadata=replace(member.metadata, resource_version=version))
        )


def annotated(**annotations: str) -> dict[str, str]:
    """Annotations by short names."""
    names = {
        "policy": DEGRADED_POLICY_ANNOTATION,
        "timeout": DEGRADED_TIMEOUT_ANNOTATION,
        "allow": ALLOW_DELETE_ANNOTATION,
    }
    return {names[key]: value for key, value in annotations.items()}


def test_a_lost_member_is_replaced_ahead_of_a_newcomer_of_any_priority() -> None:
    """One GPU is free, for which an urgent newcomer waits: the successor gets it, beside the survivors."""
    ward = Ward()
    ward.lose(ward.running[0])
    ward.see(pod_group("other", min_count=1, priority=100), pod("other-0", group="other", priority=100))
    held = [outcome.decision for outcome in ward.decide()]
    assert [(one.gang, type(one.event)) for one in held] == [(OTHER, Waiting)]
    made = ward.successor()
    placed = proposal(only(ward.decide()))
    assert [(one.uid, one.node) for one in placed.assignments] == [(made.metadata.uid, ward.running[0].node)]
    assert (placed.min_count, placed.already_placed) == (4, 3)


def test_room_is_held_in_the_domain_of_those_that_are_left() -> None:
    """A gang that has to be in one rack is given its room there, and a newcomer gets the node of another rack."""
    desk = Desk(nodes=0)
    for name, rack in (("n0", "r1"), ("n1", "r0"), ("n2", "r0")):
        desk.see(node(name, gpus=2, labels={"rack": rack}))
    pods = members("train", count=2, gpus=2, owners=(JOB,))
    desk.see(pod_group("train", min_count=2, topology_keys=("rack",)), *pods)
    first = only(desk.decide())
    where = {one.uid: one.node for one in proposal(first).assignments}
    assert set(where.values()) == {"n1", "n2"}
    running = [bound(one, to=where[one.metadata.uid]) for one in pods]
    desk.see(*running)
    desk.hear(first, Committed(members=proposal(first).assignments))
    assert desk.decide() == ()
    desk.lose(running[1])
    desk.see(pod_group("other", min_count=1, priority=100), pod("other-0", group="other", gpus=2, priority=100))
    placed = proposal(only(desk.decide()))
    assert [one.node for one in placed.assignments] == ["n0"]


def test_degraded_is_told_once_and_taken_back_by_the_commit() -> None:
    """After a second, with numbers; nothing more while it lasts; the commit of the repair ends it."""
    ward = Ward()
    ward.fall(*ward.running[:2])
    event = ward.told()
    assert (event.placed, event.min_count, event.policy, event.is_over) == (2, 4, DegradedPolicy.KEEP, False)
    assert event.until == ward.now - TOLD + TIMEOUT
    assert codes_of(event.reasons) == {ReasonCode.QUORUM_LOST}
    assert ward.decide(after=timedelta(seconds=9)) == ()
    made = [ward.successor(7), ward.successor(8)]
    repair = only(ward.decide())
    assert len(proposal(repair).assignments) == 2
    where = {one.uid: one.node for one in proposal(repair).assignments}
    ward.hear(repair, Committed(members=proposal(repair).assignments))
    ward.see(*(bound(one, to=where[one.metadata.uid]) for one in made))
    assert ward.decide() == ()
    assert ward.decider.mending.count == 0
    assert ward.decider.ledger.degraded(TRAIN) is None


def test_a_gang_that_is_deleted_is_not_degraded() -> None:
    """Its pods go one after the other, and nothing is told when they are gone within a second."""
    ward = Ward()
    for one in ward.running:
        ward.lose(one)
        assert ward.decide() == ()
    assert ward.decide(after=TIMEOUT) == ()


def test_a_gang_of_which_nobody_is_left_is_degraded_no_more() -> None:
    """The condition must not stay, and its successors are a gang again."""
    ward = Ward()
    ward.fall(ward.running[0])
    ward.told()
    ward.lose(*ward.running[1:])
    over = ward.told(after=SETTLE)
    assert (over.is_over, over.placed) == (True, 0)
    ward.successor(1)
    assert [type(outcome.decision.event) for outcome in ward.decide()] == [Waiting]


def test_lowering_the_quorum_ends_it() -> None:
    """What is left is enough then."""
    ward = Ward()
    ward.fall(ward.running[0])
    ward.told()
    ward.see(replace(ward.group, min_count=3, metadata=replace(ward.group.metadata, resource_version="9")))
    over = ward.told(after=SETTLE)
    assert (over.is_over, over.placed, over.min_count) == (True, 3, 3)


def test_room_is_held_for_a_bounded_time() -> None:
    """Nobody makes the lost one anew: a newcomer gets its room when the time is over, and the gang is kept."""
    ward = Ward()
    ward.fall(ward.running[0])
    ward.told()
    ward.see(pod_group("other", min_count=1), pod("other-0", group="other"))
    assert [type(outcome.decision.event) for outcome in ward.decide()] == [Waiting]
    due = ward.decider.next_due(ward.now)
    assert due is not None
    late, placed = ward.decide(after=due - ward.now)
    assert isinstance(late.decision.event, Degraded)
    assert codes_of(late.decision.event.reasons) == {ReasonCode.QUORUM_LOST, ReasonCode.DEGRADED_TOO_LONG}
    assert placed.decision.gang == OTHER
    assert ward.decide(after=TIMEOUT) == ()


def test_what_is_left_is_released_where_the_policy_says_so() -> None:
    """A transaction that places nothing names the survivors; when they are gone, the gang is degraded no more."""
    ward = Ward(annotations=annotated(policy="release", timeout="1m"))
    ward.fall(ward.running[0])
    assert ward.told().policy is DegradedPolicy.RELEASE
    decision = only(ward.decide(after=timedelta(minutes=1)))
    placed = proposal(decision)
    assert placed.is_release
    assert {one.uid for one in placed.assignments} == {one.metadata.uid for one in ward.running[1:]}
    assert ward.decider.cluster.promises() == {}
    ward.hear(decision, RolledBack(reasons=(), undone=placed.assignments))
    ward.lose(*ward.running[1:])
    assert ward.told(after=SETTLE).is_over
    # It did what it was for: the gang's successors wait for nothing.
    ward.see(*members("train", count=4, owners=(JOB,), uid=None, created_at=ward.now, version="20"))
    assert len(proposal(only(ward.decide())).assignments) == 4


def test_a_refused_release_backs_off() -> None:
    """There is no hot loop of releases."""
    ward = Ward(annotations=annotated(policy="release", timeout="1s"))
    ward.fall(ward.running[0])
    ward.told()
    tries = 0
    for _ in range(40):
        for outcome in ward.decide(after=timedelta(milliseconds=100)):
            assert proposal(outcome.decision).is_release
            tries += 1
            ward.hear(outcome.decision, Refused(reasons=()))
    assert 1 <= tries <= 4


def test_pods_that_nobody_would_recreate_are_not_released() -> None:
    """They are kept, and the message says what would release them; with the annotation they go."""
    for allowed, is_released in ((False, False), (True, True)):
        ward = Ward(annotations=annotated(policy="release", **({"allow": "true"} if allowed else {})))
        orphan = replace(ward.running[1], metadata=replace(ward.running[1].metadata, owners=(), resource_version="7"))
        ward.see(orphan)
        ward.fall(ward.running[0])
        ward.told()
        event = only(ward.decide(after=TIMEOUT)).event
        if is_released:
            assert isinstance(event, Proposed)
            assert event.is_release
        else:
            assert isinstance(event, Degraded)
            assert ReasonCode.KEPT_WITHOUT_CONTROLLER in codes_of(event.reasons)


def test_a_restarted_placer_keeps_the_time_that_was_told() -> None:
    """It folds the last message of each subject, tells nothing twice, and holds no longer than its predecessor."""
    ward = Ward()
    ward.fall(ward.running[0])
    told = only(ward.decide(after=TOLD))
    committed = replace(ward.first, event=Committed(members=proposal(ward.first).assignments), decided_at=START)
    successor = Desk(nodes=2, gpus=2)
    successor.now = ward.now + timedelta(seconds=30)
    successor.see(ward.group, *ward.running[1:])
    for decision in (ward.first, committed, told):
        successor.decider.observe_decision(decision, at=successor.now)
    assert successor.decide() == ()
    assert isinstance(told.event, Degraded)
    assert successor.decider.next_due(successor.now) == told.event.until


def test_a_gang_that_was_never_committed_is_not_degraded() -> None:
    """What an unfinished transaction left is the binder's affair; what was committed is also known from the group."""
    for scheduled, is_told in (("", False), ("True", True)):
        desk = Desk(nodes=2, gpus=2)
        desk.see(pod_group("train", min_count=4, initially_scheduled=scheduled), *members("train", count=2, node="n0"))
        assert desk.decide() == ()
        assert bool(desk.decide(after=TOLD)) is is_told


class TestRejections:
    """What a kubelet rejects."""

    def test_the_successor_goes_elsewhere_and_the_node_is_forgotten_in_time(self) -> None:
        """Both nodes have room; the one that rejected gets nobody of the same kind until its time is over."""
        ward = Ward(nodes=3, gpus=2)
        ward.reject(ward.running[0])
        ward.successor()
        placed = proposal(only(ward.decide()))
        assert [one.node for one in placed.assignments] == ["n2"]

    def test_it_waits_for_the_only_node_no_longer_than_it_is_remembered(self) -> None:
        """No hot loop on a node that says it has room: one try, and another when it is forgotten."""
        ward = Ward()
        ward.reject(ward.running[0], reason="OutOfnvidia.com/gpu")
        ward.successor()
        at = ward.now
        waits = [outcome.decision for moment in (SETTLE, TOLD) for outcome in ward.decide(after=moment)]
        assert {type(one.event) for one in waits} == {Waiting, Degraded}
        assert _codes(waits) >= {ReasonCode.NODE_EXCLUDED, ReasonCode.KUBELET_REJECTED, ReasonCode.QUORUM_LOST}
        while (due := ward.decider.next_due(ward.now)) is not None and due < at + MEMORY:
            assert not [one for one in ward.decide(after=due - ward.now) if isinstance(one.decision.event, Proposed)]
        again = [one.decision for one in ward.decide(after=at + MEMORY - ward.now)]
        assert [proposal(one).assignments[0].node for one in again if isinstance(one.event, Proposed)] == [
            ward.running[0].node
        ]

    def test_members_that_ask_for_something_else_are_not_concerned(self) -> None:
        """The node rejected one of one GPU; one that asks for CPU besides may be tried there."""
        ward = Ward()
        ward.reject(ward.running[0])
        ward.successor(cpu=100)
        assert proposal(only(ward.decide())).assignments[0].node == ward.running[0].node

    def test_a_pod_rejected_long_ago_is_no_news_to_a_new_process(self) -> None:
        """What its kubelet wrote as the time counts."""
        old = pod("train-0", group="train", node="n0", phase="Failed", failure="OutOfcpu", rejected_at=START - MEMORY)
        desk = Desk(nodes=1)
        desk.see(pod_group("train", min_count=1), old, pod("train-1", group="train"))
        assert proposal(only(desk.decide())).assignments[0].node == "n0"

    @pytest.mark.parametrize(
        "fields",
        [{"has_started": True}, {"deleted_at": START}, {"failure": ""}],
        ids=["worked", "deleted", "no reason"],
    )
    def test_a_failure_of_another_kind_excludes_no_node(self, fields: dict[str, Any]) -> None:
        """It failed at its work, was deleted before it began, or is failed by somebody else than its kubelet."""
        given: dict[str, Any] = {"failure": "OutOfcpu"} | fields
        desk = Desk(nodes=1)
        desk.see(pod_group("train", min_count=1), pod("train-0", group="train", node="n0", phase="Failed", **given))
        desk.see(pod("train-1", group="train"))
        assert proposal(only(desk.decide())).assignments[0].node == NodeName("n0")


def _codes(decisions: list[Decision]) -> set[ReasonCode]:
    return {
        reason.code for one in decisions if isinstance(one.event, Waiting | Degraded) for reason in one.event.reasons
    }


def test_an_annotation_that_cannot_be_read_is_told() -> None:
    """By the gang that waits; until it is corrected, the settings hold."""
    desk = Desk()
    desk.see(pod_group("train", min_count=1, annotations=annotated(policy="never", timeout="soon")))
    desk.see(pod("train-0", group="train"))
    event = only(desk.decide()).event
    assert isinstance(event, Waiting)
    assert {(one.code, one.subject) for one in event.reasons} == {
        (ReasonCode.MISCONFIGURED, DEGRADED_POLICY_ANNOTATION),
        (ReasonCode.MISCONFIGURED, DEGRADED_TIMEOUT_ANNOTATION),
    }
