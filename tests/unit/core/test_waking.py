"""Scenarios of whom free room concerns."""

from services.core.attention import GangRecord
from services.core.decisions import Waiting
from services.core.inventory import Inventory
from services.core.objects import GangId, NodeName
from services.core.waking import Opening, Wants
from tests.builders import node

SMALL, TWIN, LARGE = (GangId(f"podgroup/team-a/{name}") for name in ("small", "twin", "large"))
GPU = "nvidia.com/gpu"


def waiting(gpus: int, *, needed: int = 1) -> GangRecord:
    """Return what is remembered of a gang that waits for this many GPUs a member."""
    answer = Waiting(revision=1, min_count=needed, existing=needed, placeable=0, reasons=())
    return GangRecord(least={GPU: gpus}, needed=needed, answer=answer)


def opening(*gpus: int) -> Opening:
    """Return nodes with these free GPUs, of which all got room."""
    inventory = Inventory()
    for number, count in enumerate(gpus):
        inventory.put_node(node(f"n{number}", gpus=count))
    return Opening(nodes=frozenset(NodeName(f"n{number}") for number in range(len(gpus))), inventory=inventory)


def test_room_concerns_those_whom_one_node_could_hold() -> None:
    """Two nodes with two GPUs each concern gangs that ask for two on one node, and not one that asks for four."""
    wants = Wants()
    for gang, gpus in ((SMALL, 2), (TWIN, 2), (LARGE, 4)):
        wants.note(gang, waiting(gpus))
    assert set(wants.helped(opening(2, 2))) == {SMALL, TWIN}


def test_all_nodes_together_must_hold_the_members_needed() -> None:
    """Three members of two GPUs need six, of which four are free."""
    wants = Wants()
    wants.note(SMALL, waiting(2, needed=3))
    assert not set(wants.helped(opening(2, 2)))
    assert set(wants.helped(opening(2, 2, 2))) == {SMALL}


def test_a_gang_that_waits_no_more_is_left_alone() -> None:
    """What is noted last counts, also where it is that nothing is waited for."""
    wants = Wants()
    wants.note(SMALL, waiting(2))
    wants.note(TWIN, waiting(2))
    wants.note(SMALL, GangRecord())
    wants.note(TWIN, waiting(4))
    assert not set(wants.helped(opening(2)))
    assert wants.answered == {TWIN}


def test_room_is_over_once_it_is_taken() -> None:
    """What the first gang has taken is not there for the next."""
    wants = Wants()
    wants.note(SMALL, waiting(2))
    room = opening(2)
    assert not room.is_over_for(wants.of(SMALL))
    room.inventory.charge(NodeName("n0"), requests={GPU: 1})
    room.look()
    assert room.is_over_for(wants.of(SMALL))


def test_no_node_got_room() -> None:
    """Nothing came free, so that nobody is concerned."""
    wants = Wants()
    wants.note(SMALL, waiting(1))
    assert not set(wants.helped(opening()))
