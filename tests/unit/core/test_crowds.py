"""A group of very many pods is refused by their number, and costs no more than that."""

from datetime import timedelta
from unittest.mock import ANY

import pytest

from services.core.cluster import Cluster
from services.core.decider import Decider
from services.core.decisions import Proposed, Waiting
from services.core.gangs import MAX_MEMBERS, MAX_WAITING, Gang
from services.core.objects import GangId
from services.core.reasons import Reason, ReasonCode
from services.placer.questions import explanation
from tests.builders import START, applied, deleted, node, pod, pod_group, synced

GANG = GangId("podgroup/team-a/g")


class Counting(Cluster):
    """A cluster that counts how many members were looked at."""

    __slots__ = ("looked_at",)

    def gang(self, gang: GangId, *, is_crowd: bool = False) -> Gang | None:
        """Count, and answer."""
        found = super().gang(gang, is_crowd=is_crowd)
        self.looked_at = getattr(self, "looked_at", 0) + (0 if found is None else len(found.open))
        return found


class Desk:
    """A decider that sees a group come."""

    def __init__(self) -> None:
        """Start with a synced cluster of one node."""
        self.cluster = Counting()
        self.decider = Decider(cluster=self.cluster)
        self.now, self.revision = START, 0
        for change in (*synced(), applied(node("n1", gpus=8, pods=10)), applied(pod_group("g", min_count=2))):
            self.decider.observe_change(change, revision=0, at=START)

    def come(self, count: int, **fields: object) -> None:
        """So many pods come, one after the other."""
        for index in range(count):
            self.revision += 1
            item = pod(f"w-{index:05}", group="g", version=str(self.revision), **fields)  # type: ignore[arg-type]
            self.decider.observe_change(applied(item), revision=self.revision, at=self.now)

    def decide(self) -> list[object]:
        """What is decided a moment later."""
        self.now += timedelta(seconds=20)
        return [outcome.decision.event for outcome in self.decider.decide(self.now)]


@pytest.fixture(name="desk", scope="module")
def _desk() -> Desk:
    """A decider in front of a crowd."""
    desk = Desk()
    desk.come(MAX_WAITING + 1)
    return desk


def test_a_crowd_is_refused_by_counting(desk: Desk) -> None:
    """With the reason of a gang that is too large, and without a look at its members."""
    (event,) = desk.decide()
    assert isinstance(event, Waiting)
    assert event.reasons == (Reason(code=ReasonCode.GANG_TOO_LARGE, message=ANY, count=MAX_WAITING + 1),)
    assert event.existing == MAX_WAITING + 1
    assert desk.cluster.looked_at <= 1


def test_who_joins_a_crowd_costs_nothing(desk: Desk) -> None:
    """Nothing is told anew, the number is the present one, and `why` says it."""
    desk.decide()
    before = desk.cluster.looked_at
    late = pod("late", group="g", version=str(desk.revision + 1))
    desk.decider.observe_change(applied(late), revision=desk.revision + 1, at=desk.now)
    assert desk.decide() == []
    assert desk.cluster.looked_at == before
    found = explanation(desk.decider, gang_id=GANG)
    assert found is not None
    assert (found.state, found.existing, found.reasons[0].count) == ("waiting", MAX_WAITING + 2, MAX_WAITING + 2)
    # The answer, and the search for the gang that was asked about, look at one member each.
    assert desk.cluster.looked_at <= before + 2


def test_a_crowd_that_leaves_is_a_gang_again() -> None:
    """It is placed when as many are left as one placement can have."""
    desk = Desk()
    desk.come(MAX_WAITING + 1)
    desk.decide()
    for index in range(4, MAX_WAITING + 1):
        gone = pod(f"w-{index:05}", group="g", version=str(index + 1))
        desk.decider.observe_change(deleted(gone), revision=desk.revision + index, at=desk.now)
    (event,) = desk.decide()
    assert isinstance(event, Proposed)
    assert len(event.assignments) == 4


def test_pods_that_have_finished_are_no_crowd() -> None:
    """A Job of ten thousand completions has few pods that wait."""
    desk = Desk()
    desk.come(MAX_WAITING + 1, phase="Succeeded")
    assert not desk.cluster.crowd(GANG)
    assert MAX_MEMBERS < MAX_WAITING
