"""What counting proves, before anything is searched."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.constraints import LabelSelector, NodeRequirement, PodRules, PodTerm, SpreadConstraint
from services.core.inventory import Inventory
from services.core.objects import Node, Pod
from services.core.quantities import MAX_AMOUNT
from services.core.reasons import ReasonCode
from services.core.solver import Refusal, solve
from services.core.solving.bounds import most_of_all
from services.core.solving.classes import classes_of
from services.core.solving.compiling import compiled
from services.core.topology import NO_WISH, TopologyRequest, TopologyWish
from tests.builders import GPU, node, pod

RACK = "rack"
APP = LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("a",)),))
IN_ONE_RACK = TopologyWish(requests=(TopologyRequest(level_label=RACK, is_required=True),))
NEAR = PodRules(affinity=(PodTerm(topology_key=RACK, selector=APP, namespaces=("team-a",)),))
SPREAD = PodRules(spread=(SpreadConstraint(topology_key=RACK, max_skew=20, selector=APP),))


def inventory_of(nodes: list[Node]) -> Inventory:
    """These nodes, and nobody on them."""
    inventory = Inventory()
    for item in nodes:
        inventory.put_node(item)
    return inventory


def racks(count: int, *, size: int = 8) -> list[Node]:
    """Nodes of eight GPUs, so many to a rack."""
    return [node(f"n{index:03}", labels={RACK: f"r{index // size}"}) for index in range(count * size)]


def answer(nodes: list[Node], pods: list[Pod], *, wish: TopologyWish = NO_WISH) -> Refusal:
    """What is said of a gang that is refused."""
    found = solve(inventory_of(nodes).snapshot(pods), members=pods, needed=len(pods), wish=wish)
    assert isinstance(found, Refusal)
    return found


@pytest.mark.parametrize("rules", [PodRules(), SPREAD], ids=["free", "spread"])
@pytest.mark.parametrize("kinds", [1, 2, 12])
@pytest.mark.parametrize("count", [8, 150])
def test_no_rack_holds_members_of_which_a_node_takes_one(rules: PodRules, kinds: int, count: int) -> None:
    """Twelve of five GPUs, eight nodes to a rack: proved by counting, however unlike they are, whatever the racks."""
    pods = [pod(f"w-{i}", gpus=5, cpu=1000 + i % kinds, labels={"app": "a"}, rules=rules) for i in range(12)]
    refusal = answer(racks(count), pods, wish=IN_ONE_RACK)
    codes = {reason.code for reason in refusal.reasons}
    assert refusal.placeable == 8
    assert ReasonCode.TOPOLOGY_PLACEMENT_FAILED in codes
    assert ReasonCode.SEARCH_BUDGET_EXHAUSTED not in codes


@pytest.mark.parametrize("kinds", [1, 2, 12])
def test_members_that_must_be_near_to_each_other_are_in_one_rack(kinds: int) -> None:
    """Their affinity is a domain for all of them, on which the proof may rest as on a request."""
    pods = [pod(f"w-{i}", gpus=5, cpu=1000 + i % kinds, labels={"app": "a"}, rules=NEAR) for i in range(12)]
    codes = {reason.code for reason in answer(racks(3), pods).reasons}
    assert ReasonCode.NO_PLACEMENT_EXISTS in codes


def test_a_class_that_others_are_near_to_is_free_itself() -> None:
    """Workers that need the leader's kind of pod near them do not bind the leaders to one rack: it is no bond."""
    lead = [pod(f"l-{i}", gpus=8, labels={"app": "a"}) for i in range(4)]
    work = [pod(f"w-{i}", gpus=8, labels={"app": "b"}, rules=NEAR) for i in range(4)]
    members = [*lead, *work]
    found = solve(inventory_of(racks(4, size=2)).snapshot(members), members=members, needed=8)
    assert not isinstance(found, Refusal)


def test_amounts_that_nobody_has_exclude_nothing_wrongly() -> None:
    """Sums beyond 64 bits are bounded from the safe side."""
    most = {GPU: MAX_AMOUNT, "pods": 110, "cpu": MAX_AMOUNT}
    nodes = [node(f"n{i}", allocatable=most) for i in range(2000)]
    pods = [pod(f"w-{i}", requests={GPU: MAX_AMOUNT, "cpu": 1 + i % 3, "pods": 1}) for i in range(2000)]
    found = solve(inventory_of(nodes).snapshot(pods), members=pods, needed=len(pods))
    assert not isinstance(found, Refusal)


@given(
    free=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=3),
    asked=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=4),
)
def test_no_placement_has_more_than_the_bound(free: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    """Beside trying everything: the bound is never too small, whatever classes there are."""
    nodes = [node(f"n{i}", gpus=gpus, cpu=cpu) for i, (gpus, cpu) in enumerate(free)]
    pods = [pod(f"w-{i}", gpus=gpus, cpu=cpu) for i, (gpus, cpu) in enumerate(asked)]
    best = 0
    for choice in product(range(-1, len(free)), repeat=len(asked)):
        sums = [
            [sum(one[kind] for one, place in zip(asked, choice, strict=True) if place == row) for kind in (0, 1)]
            for row in range(len(free))
        ]
        if all(used[kind] <= offered[kind] for used, offered in zip(sums, free, strict=True) for kind in (0, 1)):
            best = max(best, sum(place >= 0 for place in choice))
    snapshot = inventory_of(nodes).snapshot(pods)
    board = compiled(snapshot, classes_of(pods, snapshot=snapshot, excluded_nodes={}, subgroups={}))
    assert best <= most_of_all(board)
