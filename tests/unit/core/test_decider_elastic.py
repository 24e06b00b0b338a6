"""Gangs that grow, shrink, arrive late and change their minds, and owners that are seen after their pods."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from services.core.decisions import Committed, Decision, Proposed, Waiting
from services.core.names import TRANSACTION_ANNOTATION
from services.core.objects import GangId, NodeName, Pod
from services.core.reasons import ReasonCode
from tests import groups
from tests.builders import members, pod, pod_group, seconds
from tests.unit.core.test_decider import Desk, only

AT_ONCE = timedelta()


def proposed(decision: Decision) -> Proposed:
    """The event of a decision that places."""
    assert isinstance(decision.event, Proposed), decision.event
    return decision.event


def waiting(decision: Decision) -> Waiting:
    """The event of a decision that does not place."""
    assert isinstance(decision.event, Waiting), decision.event
    return decision.event


def bound(pods: Iterable[Pod], event: Proposed) -> list[Pod]:
    """The pods as they are when the binder is done."""
    nodes = {one.uid: one.node for one in event.assignments}
    return [
        replace(
            one,
            node=NodeName(nodes[one.metadata.uid]),
            metadata=replace(one.metadata, resource_version="9", annotations={TRANSACTION_ANNOTATION: "t"}),
        )
        for one in pods
        if one.metadata.uid in nodes
    ]


def settle(desk: Desk, decision: Decision, pods: Iterable[Pod]) -> Proposed:
    """Bind what was proposed, and show it."""
    event = proposed(decision)
    desk.see(*bound(pods, event))
    desk.hear(decision, Committed(members=event.assignments))
    assert desk.decide() == ()
    return event


def test_as_many_as_there_is_room_for_but_no_fewer_than_needed() -> None:
    """Ten may run and four must: on eight GPUs eight do."""
    desk = Desk(nodes=2, gpus=4)
    desk.see(pod_group("train", min_count=4), *members("train", count=10))
    assert len(proposed(only(desk.decide())).assignments) == 8


def test_gang_grows_when_there_is_room() -> None:
    """Members that did not fit are placed as soon as something ends, and hold up nobody while they wait."""
    desk = Desk(nodes=1, gpus=4)
    pods = members("train", count=5)
    desk.see(pod_group("train", min_count=2), *pods)
    first = settle_whole(desk, pods)
    assert len(first.assignments) == 4
    desk.see(pod("small", gpus=0, cpu=1))
    assert len(proposed(only(desk.decide())).assignments) == 1
    ended = replace(bound(pods, first)[0], phase="Succeeded", metadata=replace(pods[0].metadata, resource_version="10"))
    desk.see(ended)
    grown = proposed(only(desk.decide()))
    assert ([one.pod for one in grown.assignments], grown.already_placed) == (["train-4"], 4)


def settle_whole(desk: Desk, pods: Iterable[Pod]) -> Proposed:
    """Let a gang be placed and bound, and its growth be told that it waits."""
    decision = only(desk.decide())
    event = proposed(decision)
    desk.see(*bound(pods, event))
    desk.hear(decision, Committed(members=event.assignments))
    assert [type(one.decision.event) for one in desk.decide()] == [Waiting]
    return event


def test_late_member_of_a_committed_gang_is_placed_as_growth() -> None:
    """A quorum runs already, so one more is enough."""
    desk = Desk()
    pods = members("train", count=3)
    desk.see(pod_group("train", min_count=2), *pods[:2])
    settle(desk, only(desk.decide()), pods)
    desk.see(pods[2])
    late = proposed(only(desk.decide()))
    assert ([one.pod for one in late.assignments], late.min_count, late.already_placed) == (["train-2"], 2, 2)


def test_gated_extra_member_does_not_hold_up_the_others() -> None:
    """It joins when its gate is gone."""
    desk = Desk()
    *pods, gated = members("train", count=3)
    desk.see(pod_group("train", min_count=2), *pods, replace(gated, is_gated=True))
    settle(desk, only(desk.decide()), pods)
    desk.see(replace(gated, metadata=replace(gated.metadata, resource_version="2")))
    assert [one.pod for one in proposed(only(desk.decide())).assignments] == ["train-2"]


def test_raised_min_count_takes_nobody_away() -> None:
    """What runs goes on; the gang that is being bound keeps the number with which it began."""
    desk = Desk()
    pods = members("train", count=2)
    desk.see(pod_group("train", min_count=2), *pods)
    decision = only(desk.decide())
    desk.see(pod_group("train", min_count=5, version="2"))
    assert desk.decide() == ()
    settle(desk, decision, pods)
    late = members("train", count=4)[2:]
    desk.see(*late)
    told = waiting(only(desk.decide()))
    assert (told.min_count, told.existing) == (5, 4)
    assert [reason.code for reason in told.reasons] == [ReasonCode.MEMBERS_MISSING]
    desk.see(pod_group("train", min_count=4, version="3"))
    assert len(proposed(only(desk.decide())).assignments) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (groups.job(parallelism=3, is_gang=True), groups.job(parallelism=2, is_gang=True)),
        (groups.job(parallelism=2, is_gang=True, is_suspended=True), groups.job(parallelism=2, is_gang=True)),
    ],
    ids=["fewer", "resumed"],
)
def test_owner_that_changes_wakes_its_gang(before: Any, after: Any) -> None:
    """At once: nothing but the owner held it up."""
    desk = Desk()
    desk.see(before, *groups.job_pods())
    assert isinstance(only(desk.decide()).event, Waiting)
    desk.see(replace(after, metadata=replace(after.metadata, resource_version="2")))
    assert len(proposed(only(desk.decide(after=AT_ONCE))).assignments) == 2


def test_group_that_is_complete_is_not_kept_waiting_for_more() -> None:
    """A lone pod, a Job of two, and a group of Kueue: all that can come has come."""
    desk = Desk()
    desk.see(pod("alone"))
    assert proposed(only(desk.decide(after=AT_ONCE)))
    desk.see(groups.job(parallelism=2, is_gang=True), *groups.job_pods(is_gang=True))
    assert len(proposed(only(desk.decide(after=AT_ONCE))).assignments) == 2
    desk.see(*groups.kueue_pods(count=2))
    assert len(proposed(only(desk.decide(after=AT_ONCE))).assignments) == 2


def test_pods_that_come_before_their_owner_are_neither_placed_nor_told() -> None:
    """Mostly the owner is but a moment behind."""
    desk = Desk()
    desk.see(*groups.job_pods())
    assert desk.decide(after=seconds(1)) == ()
    desk.see(groups.job(parallelism=2, is_gang=True))
    decision = only(desk.decide(after=AT_ONCE))
    assert (decision.gang, len(proposed(decision).assignments)) == ("job/team-a/train", 2)


def test_pod_of_an_ordinary_job_is_placed_when_the_job_is_seen() -> None:
    """It is alone, and the first to come does not wait for the others."""
    desk = Desk()
    desk.see(*groups.job_pods(count=1))
    assert desk.decide(after=seconds(1)) == ()
    desk.see(groups.job())
    assert only(desk.decide(after=AT_ONCE)).gang == "pod/team-a/train-0"


def test_owner_that_never_comes_is_told_after_a_while() -> None:
    """The reason names the owner; `next_due` says when."""
    desk = Desk()
    desk.see(*groups.ray_pods())
    assert desk.decide() == ()
    due = desk.decider.next_due(desk.now)
    assert due is not None
    told = waiting(only(desk.decide(after=due - desk.now)))
    assert told.reasons[0].code is ReasonCode.OWNER_NOT_SEEN
    assert "RayCluster ray (uid uid-team-a-RayCluster-ray)" in told.reasons[0].message
    assert desk.decide(after=seconds(60)) == ()


def test_each_group_of_a_leader_worker_set_is_decided_for_itself() -> None:
    """There is room for one of two groups; the other holds nothing."""
    desk = Desk(nodes=1, gpus=4)
    sets, first = groups.lws_parts(group=0)
    more, second = groups.lws_parts(group=1)
    desk.see(groups.lws(), *sets, *more, *first, *second)
    decisions = {one.decision.gang: one.decision.event for one in desk.decide()}
    assert isinstance(decisions[GangId("lws/team-a/serve-0")], Proposed)
    assert isinstance(decisions[GangId("lws/team-a/serve-1")], Waiting)


def test_workers_that_start_after_their_leader_are_placed_together() -> None:
    """The leader alone is enough to begin with; then all workers are needed at once."""
    desk = Desk(nodes=1, gpus=3)
    sets, (leader, *workers) = groups.lws_parts(size=4)
    desk.see(groups.lws(size=4, late=True), *sets, leader)
    settle(desk, only(desk.decide()), [leader])
    desk.see(*workers)
    told = waiting(only(desk.decide()))
    assert (told.min_count, told.placeable, told.existing) == (4, 2, 4)
