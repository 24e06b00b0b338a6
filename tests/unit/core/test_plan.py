"""Plans: what would happen to every waiting gang, in order, without effect on anything."""

from services.core.gangs import Gang, assemble
from services.core.inventory import Inventory
from services.core.names import REPAIR_WINDOW_ANNOTATION
from services.core.objects import GangId
from services.core.plan import GangPlan, PlanOutcome, plan
from services.core.reasons import ReasonCode
from tests.builders import GPU, gang, members, node, pod_group


def planned(*gangs: Gang, nodes: int = 1) -> dict[str, GangPlan]:
    """The plan on that many nodes of eight GPUs, by name of the gang."""
    inventory = Inventory()
    for index in range(nodes):
        inventory.put_node(node(f"n{index + 1}"))
    before = inventory.total_free()
    found = plan(gangs, inventory=inventory)
    assert inventory.total_free() == before
    return {key.rpartition("/")[2]: value for key, value in found.items()}


def test_gangs_are_placed_beside_those_before_them() -> None:
    """In queue order: the one of higher priority leaves no room for the other."""
    found = planned(gang("low", size=5), gang("high", size=5, priority=9))
    assert found["high"].outcome is PlanOutcome.PLACED
    assert dict(found["high"].bound) == {f"high-{index}": "n1" for index in range(5)}
    assert found["low"].outcome is PlanOutcome.WAITING
    assert [reason.subject for reason in found["low"].reasons] == ["", GPU]


def test_a_gang_that_waits_does_not_block_a_smaller_one() -> None:
    """It takes nothing while it waits."""
    found = planned(gang("big", size=9, priority=9), gang("small", size=8))
    assert (found["big"].outcome, found["small"].outcome) == (PlanOutcome.WAITING, PlanOutcome.PLACED)


def test_a_gang_that_misses_members_is_incomplete() -> None:
    """No room would help it."""
    found = planned(gang("g", size=2, min_count=3))
    assert found["g"].outcome is PlanOutcome.INCOMPLETE
    assert [reason.code for reason in found["g"].reasons] == [ReasonCode.MEMBERS_MISSING]


def test_a_gang_that_cannot_be_read_waits() -> None:
    """It is complete; somebody has to correct it."""
    group = pod_group("g", min_count=1, annotations={REPAIR_WINDOW_ANNOTATION: "soon"})
    found = planned(assemble(GangId("podgroup/team-a/g"), pods=members("g", count=1), group=group))
    assert found["g"].outcome is PlanOutcome.WAITING
    assert [reason.code for reason in found["g"].reasons] == [ReasonCode.MISCONFIGURED]


def test_a_gang_that_runs_already_is_placed() -> None:
    """There is nothing left to bind."""
    found = planned(gang("g", size=2, node="n1"))
    assert found["g"] == GangPlan(outcome=PlanOutcome.PLACED)


def test_no_gangs() -> None:
    """An empty plan."""
    assert planned() == {}
