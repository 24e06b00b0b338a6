"""Gangs: which pods make one, how each counts, and whether enough of them are here."""

from typing import Any

import pytest

from services.core.gangs import (
    MAX_MEMBERS,
    MemberState,
    assemble,
    gang_id_of,
    group_gang_id,
    is_ours,
    state_of,
)
from services.core.membership import COMPLETION_INDEX_LABEL
from services.core.objects import Owner, Pod, Uid
from services.core.quorum import quorum_reasons
from services.core.reasons import ReasonCode
from tests.builders import START, gang, lone_gang, members, pod, pod_group, seconds


def assembled(*pods: Pod, min_count: int = 2, **group: Any) -> Any:
    """The gang `g` of these pods."""
    item = pod_group("g", min_count=min_count, **group)
    return assemble(group_gang_id(item), pods=pods, group=item)


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        pytest.param({}, MemberState.OPEN, id="waits"),
        pytest.param({"node": "n1"}, MemberState.PLACED, id="bound"),
        pytest.param({"node": "n1", "phase": "Running"}, MemberState.PLACED, id="runs"),
        pytest.param({"node": "n1", "phase": "Succeeded"}, MemberState.PLACED, id="has finished"),
        pytest.param({"node": "n1", "phase": "Failed", "has_started": True}, MemberState.PLACED, id="failed at work"),
        pytest.param({"node": "n1", "phase": "Failed"}, MemberState.GONE, id="rejected by the kubelet"),
        pytest.param({"node": "n1", "deleted_at": START}, MemberState.GONE, id="terminating"),
        pytest.param({"deleted_at": START}, MemberState.GONE, id="terminating unbound"),
        pytest.param(
            {"node": "n1", "phase": "Failed", "has_started": True, "deleted_at": START},
            MemberState.GONE,
            id="deleted while it ran",
        ),
        pytest.param({"node": "n1", "phase": "Succeeded", "deleted_at": START}, MemberState.PLACED, id="done, deleted"),
        pytest.param({"is_gated": True}, MemberState.GATED, id="gated"),
        pytest.param({"scheduler": "default-scheduler"}, MemberState.FOREIGN, id="of another scheduler"),
        pytest.param({"scheduler": "other", "is_gated": True}, MemberState.FOREIGN, id="of another scheduler, gated"),
        pytest.param({"scheduler": "other", "node": "n1"}, MemberState.PLACED, id="placed by another scheduler"),
    ],
)
def test_how_a_member_counts(*, fields: dict[str, Any], state: MemberState) -> None:
    """The table of the module, row by row."""
    assert state_of(pod(group="g", **fields)) is state


class TestAssembly:
    """One gang from its pods and its group."""

    def test_members_are_in_name_order(self) -> None:
        """Whatever order they were seen in."""
        first, second, third = members("g", count=3)
        found = assembled(third, first, second)
        assert found.open == (first, second, third)

    def test_the_group_decides_order_and_quorum(self) -> None:
        """Priority and age are the group's; a group is older than its pods."""
        found = assembled(
            pod(group="g", created_at=START, priority=7), min_count=5, priority=3, created_at=START - seconds(9)
        )
        assert (found.min_count, found.priority, found.created_at) == (5, 3, START - seconds(9))
        assert found.is_declared

    def test_the_basic_policy_needs_one(self) -> None:
        """Without the gang policy each member runs as soon as it can."""
        assert assembled(pod(group="g"), min_count=0, is_gang=False).min_count == 1

    def test_pods_that_name_a_missing_group(self) -> None:
        """They are a gang that nobody has declared; order is by their oldest and their highest priority."""
        pods = (pod("b", group="g", created_at=START, priority=1), pod("a", group="g", created_at=START - seconds(5)))
        found = assemble(gang_id_of(pods[0]), pods=pods, group=None)
        assert not found.is_declared
        assert (found.priority, found.created_at) == (1, START - seconds(5))

    def test_a_pod_without_group_is_a_gang_of_one(self) -> None:
        """It cannot collide with a PodGroup of the same name."""
        item = pod("a")
        found = lone_gang(item)
        assert found.id == "pod/team-a/a"
        assert (found.min_count, found.needed, found.is_declared) == (1, 1, True)
        assert group_gang_id(pod_group("a", min_count=1)) == "podgroup/team-a/a"

    def test_what_is_needed_at_once(self) -> None:
        """What is placed already counts, and at least one is placed where there is anything to place."""
        bound = members("g", count=3, node="n1")
        waiting = tuple(pod(f"x-{index}", group="g") for index in range(4))
        assert assembled(*bound, *waiting, min_count=5).needed == 2
        assert assembled(*bound, *waiting, min_count=2).needed == 1
        assert assembled(*bound, *waiting, min_count=5).existing == 7


def test_the_queue_is_by_priority_age_and_name() -> None:
    """Higher priority first, then older, then by name; the order is total."""
    urgent = gang("a", size=1, priority=5)
    old = assemble(gang("z", size=1).id, pods=(), group=pod_group("z", min_count=1, created_at=START - seconds(1)))
    one, other = gang("b", size=1), gang("c", size=1)
    assert [item.id for item in sorted([other, one, old, urgent], key=lambda item: item.order)] == [
        urgent.id,
        old.id,
        one.id,
        other.id,
    ]


def test_a_gang_is_ours_by_one_pod() -> None:
    """Others are left to their scheduler."""
    assert is_ours([pod(scheduler="other"), pod("b")])
    assert not is_ours([pod(scheduler="other")])
    assert not is_ours([])


class TestQuorum:
    """Why a gang cannot be tried at all."""

    def test_enough_members(self) -> None:
        """Nothing is in the way, also where some are gated or foreign."""
        assert quorum_reasons(gang(size=3)) == ()
        extra = (pod("x", group="g", is_gated=True), pod("y", group="g", scheduler="other"))
        assert quorum_reasons(assembled(*members("g", count=2), *extra)) == ()

    def test_placed_members_count(self) -> None:
        """A gang that lost one member waits for one only."""
        assert quorum_reasons(assembled(*members("g", count=1, node="n1"), pod("x", group="g"))) == ()

    def test_members_that_are_missing(self) -> None:
        """How many exist, and how many are needed."""
        (reason,) = quorum_reasons(gang(size=3, min_count=5))
        assert (reason.code, reason.count) == (ReasonCode.MEMBERS_MISSING, 2)
        assert reason.message == "3 of the 5 needed pods exist"

    def test_members_that_are_gated(self) -> None:
        """They explain why too few are left; what is missing stays said."""
        gated = tuple(pod(f"x-{index}", group="g", is_gated=True) for index in range(2))
        reasons = quorum_reasons(assembled(*members("g", count=1), *gated, min_count=3))
        assert [(reason.code, reason.count) for reason in reasons] == [
            (ReasonCode.MEMBERS_GATED, 2),
            (ReasonCode.MEMBERS_MISSING, 2),
        ]
        assert reasons[0].message == "2 pods still carry scheduling gates"
        assert quorum_reasons(assembled(*gated[:1]))[0].message == "1 pod still carries scheduling gates"

    def test_members_of_other_schedulers(self) -> None:
        """Their schedulers are named: somebody has to change a field."""
        pods = (pod("a", group="g"), pod("b", group="g", scheduler="volcano"), pod("c", group="g", scheduler="kai"))
        first, *_ = quorum_reasons(assembled(*pods, min_count=3))
        assert (first.code, first.count, first.subject) == (ReasonCode.MIXED_SCHEDULERS, 2, "kai, volcano")
        assert "2 pods of the group name another scheduler (kai, volcano)" in first.message

    def test_a_group_that_does_not_exist(self) -> None:
        """Only that is said: without the group nothing else is known."""
        pods = members("g", count=2)
        (reason,) = quorum_reasons(assemble(gang_id_of(pods[0]), pods=pods, group=None))
        assert (reason.code, reason.count, reason.subject) == (ReasonCode.GROUP_NOT_FOUND, 2, "g")
        assert reason.message == "PodGroup g does not exist in namespace team-a; 2 pods name it"

    def test_too_many_members(self) -> None:
        """A transaction has a limit, and it is stated."""
        assert quorum_reasons(gang(size=MAX_MEMBERS)) == ()
        (reason,) = quorum_reasons(gang(size=MAX_MEMBERS + 1, min_count=1))
        assert reason.code is ReasonCode.GANG_TOO_LARGE
        assert f"at most {MAX_MEMBERS}" in reason.message

    def test_rules_that_cannot_be_honoured(self) -> None:
        """Each field is named once with its number of pods: ignoring it would place them wrongly."""
        pods = (
            pod("a", group="g", unsupported=("spec.resourceClaims",)),
            pod("b", group="g", unsupported=("spec.resourceClaims", "spec.affinity.podAffinity")),
        )
        reasons = quorum_reasons(assembled(*pods))
        assert [(reason.subject, reason.count) for reason in reasons] == [
            ("spec.affinity.podAffinity", 1),
            ("spec.resourceClaims", 2),
        ]
        assert {reason.code for reason in reasons} == {ReasonCode.UNSUPPORTED_CONSTRAINT}


JOB = Owner(kind="Job", name="g", uid=Uid("job-1"), is_controller=True)


def of_job(name: str, *, index: int | None = 0, age: float = 0, **fields: Any) -> Pod:
    """A pod of the Job, of an index or without one, made `age` seconds after the first."""
    labels = {} if index is None else {COMPLETION_INDEX_LABEL: str(index)}
    return pod(name, group="g", owners=(JOB,), labels=labels, created_at=START + seconds(age), **fields)


def failed(name: str, **fields: Any) -> Pod:
    """A pod of the Job that failed at its work."""
    return of_job(name, node="n1", phase="Failed", has_started=True, **fields)


class TestFailures:
    """Members that failed at their work, and those that come after them."""

    @pytest.mark.parametrize("is_indexed", [True, False])
    def test_a_job_that_starts_again_is_a_gang_again(self, *, is_indexed: bool) -> None:
        """All have failed: nothing of the old counts, so the first new pods wait until the quorum is here."""
        indexes = range(4) if is_indexed else [None] * 4
        old = [failed(f"old-{number}", index=index) for number, index in enumerate(indexes)]
        new = [of_job(f"new-{number}", index=index, age=9) for number, index in enumerate(indexes)]
        begun = assembled(*old, *new[:1], min_count=4)
        assert (begun.placed, begun.existing, begun.needed) == ((), 1, 4)
        assert [reason.code for reason in quorum_reasons(begun)] == [ReasonCode.MEMBERS_MISSING]
        assert assembled(*old, *new, min_count=4).needed == 4

    def test_a_jobset_that_starts_again_is_a_gang_again(self) -> None:
        """Its Jobs are made anew: pods of the old ones are going, or have failed and are not collected yet."""
        other = Owner(kind="Job", name="g", uid=Uid("job-2"), is_controller=True)
        going = failed("old-0", index=0, deleted_at=START + seconds(5))
        old = [going, *(failed(f"old-{index}", index=index) for index in range(1, 4))]
        new = [pod(f"new-{index}", group="g", owners=(other,), created_at=START + seconds(9)) for index in range(4)]
        assert assembled(*old, new[0], min_count=4).existing == 1
        assert assembled(*old, *new, min_count=4).needed == 4

    def test_one_that_failed_beside_others_is_replaced_alone(self) -> None:
        """Three run on: the failed one counts until its successor is here, which then is what is needed."""
        running = [of_job(f"w-{index}", index=index, node="n1", phase="Running") for index in range(3)]
        alone = assembled(*running, failed("w-3", index=3), min_count=4)
        assert (len(alone.placed), alone.existing) == (4, 4)
        replaced = assembled(*running, failed("w-3", index=3), of_job("w-3b", index=3, age=9), min_count=4)
        assert (len(replaced.placed), replaced.existing, replaced.needed) == (3, 4, 1)

    def test_of_one_index_only_the_last_failure_counts(self) -> None:
        """However often it was tried; a pod of another index comes in nobody's place."""
        running = [of_job(f"w-{index}", index=index, node="n1") for index in range(3)]
        tries = [failed(f"w-3-{turn}", index=3, age=turn) for turn in range(5)]
        assert len(assembled(*running, *tries, of_job("w-4", index=4, age=9), min_count=4).placed) == 4

    def test_a_failure_that_nobody_replaces_counts_while_others_run(self) -> None:
        """A pod without a controller has no successor; the last one to run takes its word with it."""
        alone = pod("a", group="g", node="n1", phase="Failed", has_started=True)
        running, done = pod("b", group="g", node="n1"), pod("b", group="g", node="n1", phase="Succeeded")
        late = pod("c", group="g")
        assert len(assembled(alone, running, late, min_count=2).placed) == 2
        assert len(assembled(alone, done, late, min_count=2).placed) == 1

    def test_a_gang_that_is_over_counts_all_that_ended(self) -> None:
        """Nobody comes after them."""
        assert len(assembled(failed("a"), failed("b", index=1), min_count=2).placed) == 2
