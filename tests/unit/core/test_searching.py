"""The search for placements: what it costs is bounded, and what it leaves out makes no difference."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.constraints import LabelSelector, NodeRequirement, PodRules, PodTerm, SpreadConstraint
from services.core.inventory import Inventory
from services.core.objects import Node, Pod
from services.core.solver import Placement, solve
from services.core.solving.board import Board
from services.core.solving.classes import classes_of
from services.core.solving.compiling import compiled
from services.core.solving.searching import Budget, Outcome, Search, _numbered
from services.core.topology import TopologyRequest, TopologyWish
from tests.builders import node, pod

HOST, RACK = "kubernetes.io/hostname", "rack"


class CountingBoard(Board):
    """A board that counts how often a member is placed on it."""

    puts = 0

    def put(self, group: int, *, row: int, count: int = 1) -> None:
        """Count, and place."""
        self.puts += 1
        super().put(group, row=row, count=count)


def app(*values: str) -> LabelSelector:
    """Pods with one of these values of `app`."""
    return LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=values),))


def board_of(nodes: list[Node], pods: list[Pod]) -> CountingBoard:
    """A board on which nothing is placed."""
    inventory = Inventory()
    for item in nodes:
        inventory.put_node(item)
    snapshot = inventory.snapshot(pods)
    made = compiled(snapshot, classes_of(pods, snapshot=snapshot, excluded_nodes={}, subgroups={}))
    return CountingBoard(snapshot, classes=made.classes, rules=made.rules, attachments=made._attachments)


@pytest.mark.parametrize("steps", [1, 10, 50])
def test_nothing_is_tried_once_the_budget_is_used_up(steps: int) -> None:
    """On no level of the search: else every level goes through all classes and nodes once more."""
    spread = PodRules(spread=(SpreadConstraint(topology_key=HOST, max_skew=1, selector=app("a")),))
    pods = [pod(f"w-{i}", cpu=1000 + i, gpus=5, labels={"app": "a"}, rules=spread) for i in range(20)]
    # Two of three GPUs are lost on every node, so that a whole search would be long.
    board = board_of([node(f"n{i}", cpu=1019 + (i % 3)) for i in range(20)], [*pods[:19], pod("odd", gpus=9)])
    budget = Budget(steps=steps)
    outcome = Search(board, needed=19, masks=(), budget=budget).run()
    assert outcome in {Outcome.GAVE_UP, Outcome.FOUND}
    assert board.puts <= steps + 1


def test_more_classes_mean_fewer_steps() -> None:
    """Each step asks every class; few classes have the whole budget."""
    assert Budget.of(nodes=10, classes=3).steps == Budget.of(nodes=10, classes=1).steps
    assert Budget.of(nodes=10, classes=60).steps < Budget.of(nodes=10, classes=20).steps
    assert Budget.of(nodes=10**6, classes=4096).steps > 0


def test_nodes_to_which_another_class_is_kept_are_a_kind_of_their_own() -> None:
    """A member that could be anywhere leaves the rack to those that have to be in it."""
    nodes = [node(f"n{i}", gpus=2, labels={RACK: "r1" if i < 2 else f"r{i}"}) for i in range(4)]
    apart = PodRules(anti_affinity=(PodTerm(topology_key=HOST, selector=app("w"), namespaces=("team-a",)),))
    workers = [pod(f"w-{i}", gpus=2, labels={"app": "w"}) for i in range(2)]
    leader = pod("leader", gpus=2, labels={"app": "l"}, rules=apart)
    inventory = Inventory()
    for item in nodes:
        inventory.put_node(item)
    wish = TopologyWish(
        requests=(TopologyRequest(level_label=RACK, subgroup="w"),),
        subgroups={one.metadata.uid: "w" for one in workers},
    )
    board = board_of(nodes, [*workers, leader])
    inside = board.snapshot.judgements.domains(RACK).codes[:4] == 0
    masks = tuple(None if one.labels.get("app") == "l" else inside for one in board.classes)
    assert Search(board, needed=3, masks=masks, budget=Budget(steps=1000)).run() is Outcome.FOUND
    answer = solve(inventory.snapshot(), members=[*workers, leader], needed=3, wish=wish)
    assert isinstance(answer, Placement)


@pytest.mark.parametrize("is_labelled", [True, False], ids=["no room", "no domains"])
def test_a_subgroup_that_fits_nowhere_keeps_nobody_else_off(is_labelled: bool) -> None:  # noqa: FBT001 - parameter
    """Where fewer than all are needed, those who can be placed are, each subgroup in its own domain."""
    label = {RACK: "r1"} if is_labelled else {}
    inventory = Inventory()
    inventory.put_node(node("n1", gpus=2, labels=label | {"zone": "z"}))
    small = [pod(f"s-{i}", gpus=1) for i in range(2)]
    large = pod("large", gpus=9)
    wish = TopologyWish(
        requests=(TopologyRequest(level_label=RACK, subgroup="l"), TopologyRequest(level_label="zone", subgroup="s")),
        subgroups={one.metadata.uid: "s" for one in small} | {large.metadata.uid: "l"},
    )
    answer = solve(inventory.snapshot(), members=[*small, large], needed=2, wish=wish)
    assert isinstance(answer, Placement)
    assert set(answer.nodes) == {one.metadata.uid for one in small}


@pytest.mark.parametrize("racks", [32, 100])
def test_each_of_many_subgroups_gets_a_domain_that_is_not_full(racks: int) -> None:
    """Where each takes a whole rack, they do not all begin in the same one."""
    inventory = Inventory()
    for index in range(racks * 2):
        inventory.put_node(node(f"n{index}", gpus=8, labels={RACK: f"r{index // 2}"}))
    pods = [pod(f"w-{index}", gpus=8) for index in range(64)]
    subgroups = {one.metadata.uid: f"s{index // 2}" for index, one in enumerate(pods)}
    wish = TopologyWish(
        requests=tuple(TopologyRequest(level_label=RACK, subgroup=f"s{index}") for index in range(32)),
        subgroups=subgroups,
    )
    answer = solve(inventory.snapshot(), members=pods, needed=64, wish=wish)
    assert isinstance(answer, Placement)
    used = {subgroups[uid]: set[str]() for uid in answer.nodes}
    for uid, name in answer.nodes.items():
        used[subgroups[uid]].add(f"r{int(name[1:]) // 2}")
    assert all(len(racks_of) == 1 for racks_of in used.values())


@given(st.lists(st.lists(st.integers(-2, 2), min_size=6, max_size=6), min_size=1, max_size=5))
def test_nodes_are_of_one_kind_where_they_are_equal_in_everything(columns: list[list[int]]) -> None:
    """Numbered column by column, as if whole rows were compared."""
    kinds = _numbered([np.array(column) for column in columns], count=6)
    rows = list(zip(*columns, strict=True))
    assert all((kinds[one] == kinds[other]) == (rows[one] == rows[other]) for one in range(6) for other in range(6))
