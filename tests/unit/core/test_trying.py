"""One attempt at one gang: quorum, settings, then the solver."""

from datetime import timedelta

import pytest

from services.core.gangs import Gang, assemble
from services.core.inventory import Inventory, Snapshot
from services.core.names import REPAIR_WINDOW_ANNOTATION
from services.core.objects import NodeName
from services.core.reasons import ReasonCode
from services.core.solver import Placement, Refusal
from services.core.trying import Hopeless, repair_window, try_gang
from tests.builders import gang, lone_gang, members, node, pod, pod_group

DEFAULT = timedelta(seconds=30)


def snapshot_for(item: Gang) -> Snapshot:
    """One node of eight GPUs."""
    inventory = Inventory()
    inventory.put_node(node("n1"))
    return inventory.snapshot(item.open)


def with_window(text: str) -> Gang:
    """A gang of two with that repair window."""
    group = pod_group("g", min_count=2, annotations={REPAIR_WINDOW_ANNOTATION: text})
    return assemble(gang("g", size=1).id, pods=members("g", count=2), group=group)


def test_a_gang_that_fits_is_placed() -> None:
    """What it takes is off the snapshot, for the next gang."""
    item = gang(size=8)
    snapshot = snapshot_for(item)
    assert isinstance(try_gang(item, snapshot), Placement)
    assert isinstance(try_gang(item, snapshot), Refusal)


def test_a_gang_that_does_not_fit_takes_nothing() -> None:
    """The snapshot is as it was, so that a smaller gang behind it may go ahead."""
    item = gang(size=9)
    snapshot = snapshot_for(item)
    before = snapshot.free.copy()
    answer = try_gang(item, snapshot)
    assert isinstance(answer, Refusal)
    assert answer.placeable == 8
    assert (snapshot.free == before).all()


def test_a_gang_that_is_not_complete_is_not_tried() -> None:
    """Members come before nodes."""
    item = gang(size=2, min_count=3)
    answer = try_gang(item, snapshot_for(item))
    assert isinstance(answer, Hopeless)
    assert [reason.code for reason in answer.reasons] == [ReasonCode.MEMBERS_MISSING]


def test_settings_that_cannot_be_read_stop_it() -> None:
    """Guessing what was meant could undo a gang too early."""
    item = with_window("soon")
    answer = try_gang(item, snapshot_for(item))
    assert isinstance(answer, Hopeless)
    (reason,) = answer.reasons
    assert (reason.code, reason.subject) == (ReasonCode.MISCONFIGURED, REPAIR_WINDOW_ANNOTATION)
    assert reason.message == (
        f"annotation {REPAIR_WINDOW_ANNOTATION}: expected a duration such as 30s, 2m or 0s, got 'soon'"
    )


def test_excluded_nodes_are_respected() -> None:
    """As the solver does."""
    item = gang(size=1)
    excluded = {item.open[0].metadata.uid: frozenset({NodeName("n1")})}
    assert isinstance(try_gang(item, snapshot_for(item), excluded_nodes=excluded), Refusal)


@pytest.mark.parametrize(
    ("item", "window"),
    [
        pytest.param(gang(size=1), DEFAULT, id="nothing is said"),
        pytest.param(with_window("0s"), timedelta(0), id="none"),
        pytest.param(with_window("2m"), timedelta(minutes=2), id="said by the group"),
        pytest.param(with_window("soon"), DEFAULT, id="cannot be read"),
        pytest.param(
            lone_gang(pod(annotations={REPAIR_WINDOW_ANNOTATION: "5s"})), timedelta(seconds=5), id="said by a lone pod"
        ),
    ],
)
def test_the_repair_window(*, item: Gang, window: timedelta) -> None:
    """From the group or the lone pod, else the default."""
    assert repair_window(item, default=DEFAULT) == window
