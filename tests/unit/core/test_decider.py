"""The decider: which gangs are tried when, what is promised, and what an event wakes."""

from dataclasses import replace
from datetime import timedelta

from services.core.attention import DecisionPolicy, Outcome
from services.core.cluster import NEEDED_KINDS, OPTIONAL_KINDS
from services.core.decider import Decider
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
    Waiting,
)
from services.core.names import REPAIR_WINDOW_ANNOTATION
from services.core.objects import (
    Applied,
    ClusterObject,
    Deleted,
    GangId,
    Kind,
    NodeName,
    Pod,
    Uid,
    WatchPhase,
    kind_of,
)
from services.core.reasons import Reason, ReasonCode
from tests.builders import START, members, node, pod, pod_group, watch

SETTLE = timedelta(milliseconds=50)
TRAIN = GangId("podgroup/team-a/train")
OTHER = GangId("podgroup/team-a/other")


class Desk:
    """A decider with a clock that the test moves, and a revision that counts changes."""

    def __init__(self, *, nodes: int = 2, gpus: int = 4) -> None:
        """Start with a synced cluster."""
        self.decider = Decider(policy=DecisionPolicy(settle=SETTLE))
        self.now = START
        self.revision = 0
        for kind in (*NEEDED_KINDS, *OPTIONAL_KINDS):
            self.see(watch(kind))
        for index in range(nodes):
            self.see(node(f"n{index}", gpus=gpus))

    def see(self, *objects: ClusterObject, cause: str = "") -> None:
        """Show objects to the decider."""
        for item in objects:
            self.revision += 1
            self.decider.observe_change(Applied(object=item), revision=self.revision, at=self.now, cause=cause)

    def lose(self, *objects: ClusterObject) -> None:
        """Show that objects are gone."""
        for item in objects:
            self.revision += 1
            gone = Deleted(kind=kind_of(item), metadata=item.metadata)
            self.decider.observe_change(gone, revision=self.revision, at=self.now)

    def decide(self, *, after: timedelta = SETTLE) -> tuple[Outcome, ...]:
        """Move the clock and decide."""
        self.now += after
        return self.decider.decide(self.now)

    def hear(self, decision: Decision, event: DecisionEvent) -> None:
        """Show what became of a decision."""
        answer = replace(decision, event=event, decided_at=self.now)
        self.decider.observe_decision(answer, at=self.now)


def only(outcomes: tuple[Outcome, ...]) -> Decision:
    """Return the single decision."""
    assert len(outcomes) == 1, outcomes
    return outcomes[0].decision


def proposal(decision: Decision) -> Proposed:
    """Return the decision's placement."""
    assert isinstance(decision.event, Proposed), decision
    return decision.event


def waiting(decision: Decision) -> Waiting:
    """Return why the gang waits."""
    assert isinstance(decision.event, Waiting), decision
    return decision.event


def codes_of(reasons: tuple[Reason, ...]) -> set[ReasonCode]:
    """Return the codes of reasons."""
    return {reason.code for reason in reasons}


def bound(pod_to_bind: Pod, *, to: str) -> Pod:
    """Return the pod as the stream shows it after its binding."""
    metadata = replace(pod_to_bind.metadata, resource_version=str(int(pod_to_bind.metadata.resource_version) + 1))
    return replace(pod_to_bind, node=NodeName(to), metadata=metadata)


def finished(pod_that_ran: Pod) -> Pod:
    """Return the pod after it ended well."""
    metadata = replace(pod_that_ran.metadata, resource_version=str(int(pod_that_ran.metadata.resource_version) + 1))
    return replace(pod_that_ran, phase="Succeeded", metadata=metadata)


def test_whole_gang_is_proposed_when_it_has_settled() -> None:
    """Nothing is decided while members arrive; then all are placed in one decision."""
    desk = Desk()
    desk.see(pod_group("train", min_count=4), *members("train", count=4))
    assert desk.decide(after=timedelta()) == ()
    assert desk.decider.next_due(desk.now) == desk.now + SETTLE
    placed = proposal(only(desk.decide()))
    assert len(placed.assignments) == 4
    assert placed.min_count == 4
    assert placed.revision == desk.revision


def test_members_that_keep_arriving_do_not_postpone_for_ever() -> None:
    """A group with a quorum is placed at the end of the policy's patience although pods still arrive."""
    desk = Desk(nodes=40, gpus=8)
    desk.see(pod_group("train", min_count=2))
    decided: tuple[Outcome, ...] = ()
    for index in range(400):
        desk.see(pod(f"train-{index:03d}", group="train"))
        decided = desk.decide(after=timedelta(milliseconds=40))
        if decided:
            break
    assert decided
    assert desk.now - START <= DecisionPolicy().patience + timedelta(milliseconds=50)


def test_nothing_is_decided_on_half_a_picture() -> None:
    """While a needed kind is listing, no decision is taken; when it is synced, the same events lead to one."""
    desk = Desk()
    desk.see(pod_group("train", min_count=1), pod("train-0", group="train"))
    desk.see(watch(Kind.NODE, phase=WatchPhase.LISTING))
    assert desk.decide() == ()
    desk.see(watch(Kind.NODE))
    assert proposal(only(desk.decide()))


def test_second_gang_waits_and_runs_when_the_first_has_ended() -> None:
    """What one gang holds, promised or bound, is not there for the other until it is free."""
    desk = Desk(nodes=2, gpus=2)
    first, second = members("train", count=4), members("other", count=4)
    desk.see(pod_group("train", min_count=4), *first)
    desk.see(pod_group("other", min_count=4, created_at=START + timedelta(seconds=1)), *second)
    to_train, to_other = desk.decide()
    placed = proposal(to_train.decision)
    assert codes_of(waiting(to_other.decision).reasons) >= {ReasonCode.INSUFFICIENT_CAPACITY}
    nodes = {one.uid: one.node for one in placed.assignments}
    running = [bound(one, to=nodes[one.metadata.uid]) for one in first]
    desk.see(*running)
    desk.hear(to_train.decision, Committed(members=placed.assignments))
    assert desk.decide() == ()
    for one in running[:3]:
        desk.see(finished(one))
        assert desk.decide() == ()
    desk.see(finished(running[3]))
    assert len(proposal(only(desk.decide())).assignments) == 4


def test_promise_outlives_the_commit_message_until_the_stream_shows_the_binding() -> None:
    """A node does not look free between the message that a gang is bound and the pod that shows it."""
    desk = Desk(nodes=1, gpus=1)
    one = pod("train-0", group="train")
    desk.see(pod_group("train", min_count=1), one)
    decision = only(desk.decide())
    desk.hear(decision, Committed(members=proposal(decision).assignments))
    desk.see(pod_group("other", min_count=1), pod("other-0", group="other"))
    assert waiting(only(desk.decide())).placeable == 0
    desk.see(bound(one, to="n0"))
    assert desk.decide() == ()


def test_refused_proposal_gives_everything_back_and_is_tried_again_at_once() -> None:
    """A refusal costs nothing: the gang is proposed anew with the next decision."""
    desk = Desk(nodes=1, gpus=2)
    desk.see(pod_group("train", min_count=2), *members("train", count=2))
    first = only(desk.decide())
    desk.hear(first, Refused(reasons=(Reason(code=ReasonCode.PLACEMENT_STALE, message="n0 was full"),)))
    again = only(desk.decide(after=timedelta()))
    assert proposal(again)
    assert again.transaction != first.transaction


def test_gang_that_keeps_failing_backs_off() -> None:
    """Each failure in a row doubles the wait, within jitter; there is no hot loop, and it is said once when it ends."""
    desk = Desk(nodes=1, gpus=2)
    desk.see(pod_group("train", min_count=2), *members("train", count=2))
    reason = (Reason(code=ReasonCode.BINDING_REFUSED, message="denied"),)
    waits = []
    moments: list[str] = []
    for _ in range(4):
        before = desk.now
        told: list[Decision] = []
        while not (told and isinstance(told[-1].event, Proposed)):
            told += [one.decision for one in desk.decide(after=timedelta(milliseconds=100))]
            assert desk.now - before < timedelta(minutes=10)
        waits.append(desk.now - before)
        words = [one.event.reasons for one in told if isinstance(one.event, Waiting)]
        assert [[one.code for one in reasons] for reasons in words] == [[ReasonCode.BACKING_OFF]] * (len(waits) > 1)
        moments += [text[0].message for text in words]
        desk.hear(told[-1], RolledBack(reasons=reason))
    assert len(moments) == 3
    assert all("failed in a row; tried again at" in text and text.endswith("UTC: denied") for text in moments)
    assert waits[0] <= timedelta(milliseconds=100)
    assert timedelta(seconds=0.75) <= waits[1] <= timedelta(seconds=1.4)
    assert waits[2] > waits[1]
    assert waits[3] > waits[2] * 1.2


def test_same_reasons_are_told_once() -> None:
    """Waiting is published when its codes change and not with every event."""
    desk = Desk(nodes=1, gpus=2)
    desk.see(pod_group("train", min_count=3), *members("train", count=2))
    assert codes_of(waiting(only(desk.decide())).reasons) == {ReasonCode.MEMBERS_MISSING}
    desk.see(replace(pod("train-0", group="train", version="2"), unscheduled_reason="Unschedulable"))
    assert desk.decide() == ()
    desk.see(pod("train-2", group="train"))
    assert ReasonCode.INSUFFICIENT_CAPACITY in codes_of(waiting(only(desk.decide())).reasons)


def test_waiting_holds_nothing() -> None:
    """A gang that cannot be placed leaves all GPUs to a younger one that can."""
    desk = Desk(nodes=2, gpus=4)
    desk.see(pod_group("train", min_count=3), *members("train", count=3, gpus=4))
    desk.see(pod_group("other", min_count=2, created_at=START + timedelta(seconds=1)))
    desk.see(*members("other", count=2, gpus=2))
    outcomes = {one.decision.gang: one.decision for one in desk.decide()}
    assert waiting(outcomes[TRAIN]).placeable == 2
    assert len(proposal(outcomes[OTHER]).assignments) == 2


def test_room_wakes_only_gangs_that_it_could_help() -> None:
    """A freed GPU is no reason to try a gang that needs four of them at once."""
    desk = Desk(nodes=1, gpus=4)
    busy = [pod(f"busy-{index}", node="n0", scheduler="default-scheduler") for index in range(4)]
    desk.see(*busy, pod_group("train", min_count=4), *members("train", count=4))
    assert waiting(only(desk.decide()))
    desk.see(finished(busy[0]))
    answer_before, _ = desk.decider.answer(TRAIN)
    assert desk.decide() == ()
    answer_after, _ = desk.decider.answer(TRAIN)
    assert answer_after is answer_before
    desk.see(*(finished(one) for one in busy[1:]))
    assert proposal(only(desk.decide(after=timedelta())))


def test_room_that_the_first_took_leaves_the_others_as_they_are() -> None:
    """Of three gangs that wait for the same GPU the oldest gets it, and the others are not tried in vain."""
    desk = Desk(nodes=1, gpus=1)
    busy = pod("busy", node="n0", scheduler="default-scheduler")
    waiting_gangs = [pod_group(f"train-{index}", min_count=1) for index in range(3)]
    desk.see(busy, *waiting_gangs, *(one for index in range(3) for one in members(f"train-{index}", count=1)))
    assert len(desk.decide()) == 3
    others = [GangId(f"podgroup/team-a/train-{index}") for index in (1, 2)]
    before = [desk.decider.answer(gang)[0] for gang in others]
    desk.see(finished(busy))
    assert only(desk.decide()).gang == GangId("podgroup/team-a/train-0")
    after = [desk.decider.answer(gang)[0] for gang in others]
    assert all(one is not None and one is other for one, other in zip(before, after, strict=True))


def test_room_that_one_leaves_over_is_for_the_next() -> None:
    """Where two of three GPUs are freed and the first gang takes one, the second gang takes the other."""
    desk = Desk(nodes=1, gpus=2)
    busy = [pod(f"busy-{index}", node="n0", scheduler="default-scheduler") for index in range(2)]
    waiting_gangs = [pod_group(f"train-{index}", min_count=1) for index in range(3)]
    desk.see(*busy, *waiting_gangs, *(one for index in range(3) for one in members(f"train-{index}", count=1)))
    assert len(desk.decide()) == 3
    desk.see(*(finished(one) for one in busy))
    placed = [one.decision.gang for one in desk.decide(after=timedelta())]
    assert placed == [GangId("podgroup/team-a/train-0"), GangId("podgroup/team-a/train-1")]


def test_lower_min_count_wakes_a_waiting_gang() -> None:
    """A minCount is mutable: lowering it acts at once."""
    desk = Desk(nodes=1, gpus=2)
    desk.see(pod_group("train", min_count=3), *members("train", count=3))
    assert waiting(only(desk.decide()))
    desk.see(pod_group("train", min_count=2, version="2"))
    assert len(proposal(only(desk.decide(after=timedelta()))).assignments) == 2


def test_repair_keeps_what_is_bound_and_avoids_refused_nodes() -> None:
    """The next round repeats the bound members and places the open one elsewhere."""
    desk = Desk(nodes=2, gpus=2)
    desk.see(pod_group("train", min_count=2), *members("train", count=2))
    first = only(desk.decide())
    stays, moves = proposal(first).assignments
    desk.hear(first, repairing(first, bound_members=(stays,), open_members=(refused_at(moves, stays.node),)))
    again = only(desk.decide(after=timedelta()))
    assert again.transaction == first.transaction
    assert proposal(again).round == 1
    assert stays in proposal(again).assignments
    moved = next(one for one in proposal(again).assignments if one.uid == moves.uid)
    assert moved.node != moves.node


def test_repair_goes_ahead_of_an_older_gang() -> None:
    """Room that a repair can use is not given to a newcomer, however important that is."""
    desk = Desk(nodes=2, gpus=1)
    desk.see(pod_group("train", min_count=2), *members("train", count=2))
    first = only(desk.decide())
    stays, moves = proposal(first).assignments
    desk.see(pod_group("other", min_count=2, priority=100), *members("other", count=2))
    assert waiting(only(desk.decide()))
    desk.hear(first, repairing(first, bound_members=(stays,), open_members=(refused_at(moves, moves.node),)))
    assert desk.decide() == ()
    desk.see(node("n9", gpus=1))
    outcomes = desk.decide(after=timedelta())
    repaired = next(one.decision for one in outcomes if one.decision.gang == TRAIN)
    assert {one.node for one in proposal(repaired).assignments} == {stays.node, NodeName("n9")}
    assert not any(isinstance(one.decision.event, Proposed) for one in outcomes if one.decision.gang == OTHER)


def test_repair_holds_what_it_could_get_so_far() -> None:
    """Nodes that free up one by one are kept for the repair that needs two of them."""
    desk = Desk(nodes=3, gpus=1)
    desk.see(pod_group("train", min_count=3), *members("train", count=3))
    first = only(desk.decide())
    stays, *move = proposal(first).assignments
    everywhere = [one.node for one in proposal(first).assignments]
    desk.hear(
        first,
        repairing(first, bound_members=(stays,), open_members=tuple(refused_at(one, *everywhere) for one in move)),
    )
    desk.decide()
    desk.see(node("n8", gpus=1), pod("eager", gpus=1, created_at=START - timedelta(hours=1)))
    assert {one.node for outcome in desk.decide() for one in proposal(outcome.decision).assignments} <= set(everywhere)
    desk.see(node("n9", gpus=1))
    again = next(one.decision for one in desk.decide() if one.decision.gang == TRAIN)
    assert {one.node for one in proposal(again).assignments} == {stays.node, NodeName("n8"), NodeName("n9")}


def test_recreated_member_joins_the_repair() -> None:
    """A pod that replaces a lost member is placed in the same transaction."""
    desk = Desk(nodes=2, gpus=2)
    pods = members("train", count=2)
    desk.see(pod_group("train", min_count=2), *pods)
    first = only(desk.decide())
    stays, lost = proposal(first).assignments
    gone = next(one for one in pods if one.metadata.uid == lost.uid)
    desk.lose(gone)
    desk.hear(first, repairing(first, bound_members=(stays,), open_members=(refused_at(lost),)))
    assert desk.decide(after=timedelta()) == ()
    desk.see(pod(gone.metadata.name, group="train", uid="uid-successor", version="9"))
    again = proposal(only(desk.decide(after=timedelta())))
    assert {one.uid for one in again.assignments} == {stays.uid, Uid("uid-successor")}


def test_rejected_decision_is_taken_back() -> None:
    """A proposal that another placer overtook holds nothing and the gang is tried again."""
    desk = Desk(nodes=1, gpus=2)
    desk.see(pod_group("train", min_count=2), *members("train", count=2))
    lost = only(desk.decide())
    desk.decider.reject(lost)
    assert not desk.decider.cluster.promises()
    assert proposal(only(desk.decide()))


def test_restarted_decider_knows_what_is_promised() -> None:
    """Folding both streams again gives the same promises, and nothing is proposed twice."""
    desk = Desk(nodes=1, gpus=2)
    objects: tuple[ClusterObject, ...] = (pod_group("train", min_count=2), *members("train", count=2))
    desk.see(*objects)
    decision = only(desk.decide())
    fresh = Desk(nodes=1, gpus=2)
    fresh.see(*objects)
    fresh.decider.observe_decision(decision, at=fresh.now)
    assert fresh.decider.cluster.promises() == desk.decider.cluster.promises()
    assert fresh.decide() == ()


def test_late_message_of_an_ended_transaction_changes_nothing() -> None:
    """A proposal that is delivered again after its end promises nothing."""
    desk = Desk(nodes=1, gpus=2)
    pods = members("train", count=2)
    desk.see(pod_group("train", min_count=2), *pods)
    decision = only(desk.decide())
    desk.lose(*pods)
    desk.hear(decision, Refused(reasons=()))
    desk.decider.observe_decision(decision, at=desk.now)
    assert not desk.decider.cluster.promises()


def test_causes_become_the_trace_and_its_links() -> None:
    """The last member's event is the cause, the other members' events are links."""
    desk = Desk()
    desk.see(pod_group("train", min_count=3), cause="tp-group")
    for index, one in enumerate(members("train", count=3)):
        desk.see(one, cause=f"tp-{index}")
    outcome = desk.decide()[0]
    assert outcome.cause == "tp-2"
    assert set(outcome.links) == {"tp-0", "tp-1"}


def test_unreadable_annotation_makes_the_gang_wait() -> None:
    """A setting that cannot be read is named, not guessed."""
    desk = Desk()
    group = pod_group("train", min_count=1, annotations={REPAIR_WINDOW_ANNOTATION: "soon"})
    desk.see(group, pod("train-0", group="train"))
    reasons = waiting(only(desk.decide())).reasons
    assert codes_of(reasons) == {ReasonCode.MISCONFIGURED}
    assert "'soon'" in reasons[0].message


def test_terminating_member_leaves_the_gang_at_once() -> None:
    """A pod that is being deleted neither counts nor is placed."""
    desk = Desk()
    pods = members("train", count=3)
    desk.see(pod_group("train", min_count=3), *pods)
    dying = replace(pods[2], metadata=replace(pods[2].metadata, deleted_at=START, resource_version="2"))
    desk.see(dying)
    reasons = waiting(only(desk.decide())).reasons
    assert reasons[0].message == "2 of the 3 needed pods exist"


def repairing(
    decision: Decision, *, bound_members: tuple[Assignment, ...], open_members: tuple[OpenMember, ...]
) -> Repairing:
    """Return the event by which the binder asks for other nodes."""
    return Repairing(
        round=proposal(decision).round,
        bound=bound_members,
        open=open_members,
        until=decision.decided_at + timedelta(seconds=30),
        min_count=proposal(decision).min_count,
    )


def refused_at(assignment: Assignment, *nodes: str) -> OpenMember:
    """Return the member as open, refused on the given nodes."""
    return OpenMember(pod=assignment.pod, uid=assignment.uid, excluded_nodes=tuple(NodeName(one) for one in nodes))


def test_pod_that_shrinks_in_place_wakes_a_waiting_gang() -> None:
    """An in-place resize frees resources just as an end does."""
    desk = Desk(nodes=1, gpus=4)
    busy = pod("busy", gpus=4, node="n0", scheduler="default-scheduler")
    desk.see(busy, pod_group("train", min_count=2), *members("train", count=2))
    assert waiting(only(desk.decide())).placeable == 0
    desk.see(pod("busy", gpus=2, node="n0", scheduler="default-scheduler", version="2"))
    assert len(proposal(only(desk.decide(after=timedelta()))).assignments) == 2


def test_pod_replaced_into_another_group_leaves_its_old_gang() -> None:
    """A successor of the same name in another group makes the old gang be looked at again."""
    desk = Desk()
    desk.see(pod_group("train", min_count=2), pod_group("other", min_count=1), *members("train", count=2))
    desk.see(pod("train-1", group="other", uid="uid-successor", version="9"))
    outcomes = {one.decision.gang: one.decision for one in desk.decide()}
    assert codes_of(waiting(outcomes[TRAIN]).reasons) == {ReasonCode.MEMBERS_MISSING}
    assert proposal(outcomes[OTHER])


def test_assignments_are_in_the_order_of_names() -> None:
    """What the binder tries first depends on names, not on uids, which the API server draws at random."""
    desk = Desk(nodes=1, gpus=3)
    uids = ("uid-c", "uid-a", "uid-b")
    desk.see(pod_group("train", min_count=3))
    desk.see(*(pod(f"train-{index}", group="train", uid=uid) for index, uid in enumerate(uids)))
    assert [one.pod for one in proposal(only(desk.decide())).assignments] == ["train-0", "train-1", "train-2"]
