"""The solver and its check: all that is needed at once, on the nodes that serve best, or every reason why not."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from services.core.constraints import LabelSelector, NodeRequirement, PodRules, PodTerm, Taint
from services.core.inventory import Inventory, Snapshot
from services.core.node_rules import constraints_of
from services.core.objects import Node, NodeName, Pod, Uid
from services.core.reasons import ReasonCode
from services.core.solver import Placement, Refusal, check, solve
from services.core.solving.classes import MemberClass, classes_of
from tests.builders import GPU, members, node, pod

N1, N2 = NodeName("n1"), NodeName("n2")


def snapshot_of(nodes: Iterable[Node], *, for_pods: Iterable[Pod], used: Mapping[str, int] | None = None) -> Snapshot:
    """The nodes, with some of their GPUs in use, judged for the pods."""
    inventory = Inventory()
    for item in nodes:
        inventory.put_node(item)
    for name, gpus in (used or {}).items():
        inventory.charge(NodeName(name), requests={GPU: gpus})
    return inventory.snapshot(for_pods)


def solved(
    pods: tuple[Pod, ...],
    *,
    on: Iterable[Node],
    needed: int | None = None,
    used: Mapping[str, int] | None = None,
    excluded: Mapping[Uid, frozenset[NodeName]] | None = None,
) -> Placement | Refusal:
    """What the solver says; all are needed where no number is given."""
    snapshot = snapshot_of(on, for_pods=pods, used=used)
    return solve(snapshot, members=pods, excluded_nodes=excluded, needed=len(pods) if needed is None else needed)


def per_node(answer: Placement | Refusal) -> dict[str, int]:
    """How many members each node takes."""
    nodes = answer.nodes if isinstance(answer, Placement) else answer.partial
    return dict(Counter(nodes.values()))


def codes(answer: Placement | Refusal) -> dict[ReasonCode, int]:
    """Reasons of a refusal with their counts."""
    assert isinstance(answer, Refusal)
    return {reason.code: reason.count for reason in answer.reasons}


class TestPlacing:
    """Where members go."""

    def test_a_gang_that_fits_on_one_node_goes_there(self) -> None:
        """Even where several could share it."""
        answer = solved(members("g", count=8), on=[node("n1", gpus=4), node("n2", gpus=8), node("n3", gpus=4)])
        assert per_node(answer) == {"n2": 8}

    def test_the_tightest_node_that_suffices_is_preferred(self) -> None:
        """What is left of the others stays useful for larger gangs."""
        answer = solved(members("g", count=2), on=[node("n1"), node("n2"), node("n3")], used={"n2": 6, "n3": 3})
        assert per_node(answer) == {"n2": 2}

    def test_otherwise_as_few_nodes_as_can_be(self) -> None:
        """The emptiest first, and the last takes only the rest."""
        answer = solved(members("g", count=10), on=[node("n1", gpus=3), node("n2", gpus=8), node("n3", gpus=8)])
        assert per_node(answer) == {"n2": 8, "n3": 2}

    def test_of_equal_nodes_the_one_stays_useful_for_what_was_seen(self) -> None:
        """Of two nodes with one GPU free, the one where the usual pod does not fit goes to one that needs few CPUs."""
        light, usual = pod("light", cpu=1000), pod("usual", cpu=12_000)
        inventory = Inventory()
        inventory.put_node(node("n1", gpus=1, cpu=16_000))
        inventory.put_node(node("n2", gpus=1, cpu=4_000))
        inventory.mix.add_pod(usual)
        answer = solve(inventory.snapshot([light]), members=(light,), needed=1)
        assert per_node(answer) == {"n2": 1}

    def test_a_pod_without_devices_keeps_off_nodes_with_free_ones(self) -> None:
        """Its CPUs would strand a GPU of the first node by name; the second has none."""
        usual, service = pod("usual", cpu=12_000), pod("service", gpus=0, cpu=8000)
        inventory = Inventory()
        inventory.put_node(node("n1", gpus=1, cpu=16_000))
        inventory.put_node(node("n2", gpus=0, cpu=16_000))
        inventory.mix.add_pod(usual)
        answer = solve(inventory.snapshot([service]), members=(service,), needed=1)
        assert per_node(answer) == {"n2": 1}

    def test_ties_go_by_name(self) -> None:
        """The answer does not depend on which node was seen first."""
        for names in (["n2", "n1"], ["n1", "n2"]):
            assert per_node(solved(members("g", count=1), on=[node(name) for name in names])) == {"n1": 1}

    def test_every_resource_limits(self) -> None:
        """GPUs, CPU, memory and pod slots alike."""
        for limit in ({"gpus": 3}, {"cpu": 3_000}, {"memory": 3 * 2**30}, {"pods": 3}):
            pods = members("g", count=4, gpus=1, cpu=1_000, memory=2**30)
            answer = solved(pods, on=[node("n1", **limit), node("n2", gpus=1)])  # type: ignore[arg-type]  # one limit at a time
            assert per_node(answer) == {"n1": 3, "n2": 1}

    def test_members_beyond_the_needed_are_placed_where_they_fit(self) -> None:
        """The gang runs with as many as there is room for, and at least with what it needs."""
        answer = solved(members("g", count=10), on=[node("n1"), node("n2", gpus=1)], needed=5)
        assert isinstance(answer, Placement)
        assert len(answer.nodes) == 9

    def test_unequal_members(self) -> None:
        """The hardest class first, the others beside it."""
        big, small = members("big", count=2, gpus=4), members("small", count=3, gpus=1)
        answer = solved(small + big, on=[node("n1", gpus=8), node("n2", gpus=3)])
        assert isinstance(answer, Placement)
        assert {answer.nodes[one.metadata.uid] for one in big} == {N1}
        assert {answer.nodes[one.metadata.uid] for one in small} == {N2}

    def test_members_that_ask_for_nothing_but_a_slot(self) -> None:
        """They are placed by slots."""
        answer = solved(members("g", count=3, gpus=0), on=[node("n1", pods=2), node("n2", pods=1)])
        assert per_node(answer) == {"n1": 2, "n2": 1}

    def test_excluded_nodes_are_per_member(self) -> None:
        """A node that refused one member may still take its siblings."""
        pods = members("g", count=2)
        answer = solved(pods, on=[node("n1"), node("n2")], excluded={pods[0].metadata.uid: frozenset({N1})})
        assert isinstance(answer, Placement)
        assert answer.nodes == {pods[0].metadata.uid: N2, pods[1].metadata.uid: N1}

    def test_an_over_committed_node_takes_nobody(self) -> None:
        """Less than nothing is free."""
        answer = solved(members("g", count=1), on=[node("n1"), node("n2")], used={"n1": 12})
        assert per_node(answer) == {"n2": 1}

    def test_what_is_placed_is_taken_off_the_snapshot(self) -> None:
        """The next gang of the same decision sees what is left."""
        pods = members("g", count=5, gpus=2, cpu=500)
        snapshot = snapshot_of([node("n1"), node("n2")], for_pods=pods)
        before = snapshot.free.copy()
        answer = solve(snapshot, members=pods, needed=5)
        taken = before - snapshot.free
        assert taken[:, snapshot.columns[GPU]].sum() == 10
        assert taken[:, snapshot.columns["cpu"]].sum() == 2_500
        assert taken[:, snapshot.columns["pods"]].sum() == 5
        assert per_node(answer) == {"n1": 4, "n2": 1}


class TestRefusing:
    """Why fewer than needed can be placed."""

    def test_the_shortage_is_counted(self) -> None:
        """How many could be placed, and on how many nodes what is short."""
        answer = solved(members("g", count=3, gpus=4), on=[node("n1", gpus=8), node("n2", gpus=3), node("n3", gpus=2)])
        assert isinstance(answer, Refusal)
        assert answer.placeable == 2
        assert codes(answer) == {ReasonCode.INSUFFICIENT_CAPACITY: 2, ReasonCode.INSUFFICIENT_RESOURCE: 3}
        first, second = answer.reasons
        assert first.message == "2 of the 3 needed pods can be placed"
        assert second.message == f"no node has 4 free {GPU} (largest free is 3)"
        assert second.subject == GPU
        assert per_node(answer) == {"n1": 2}

    def test_a_shortage_on_some_nodes(self) -> None:
        """Where a class fits on some node, the others are counted."""
        big, small = members("big", count=1, gpus=9), members("small", count=1, gpus=1)
        answer = solved(big + small, on=[node("n1", gpus=8), node("n2", gpus=9)], used={"n2": 1})
        assert isinstance(answer, Refusal)
        assert f"no node has 9 free {GPU} (largest free is 8)" in [reason.message for reason in answer.reasons]

    def test_every_rule_that_closes_a_node_is_counted(self) -> None:
        """Closed nodes are told apart from full ones."""
        nodes = [
            node("n1", is_unschedulable=True),
            node("n2", is_ready=False),
            node("n3", taints=(Taint(key="x"),)),
            node("n4", labels={"pool": "b"}),
            node("n5", labels={"pool": "a"}, gpus=0),
            node("n6", labels={"pool": "a"}),
        ]
        (one,) = members("g", count=1, node_selector={"pool": "a"})
        answer = solved((one,), on=nodes, excluded={one.metadata.uid: frozenset({NodeName("n6")})}, used={"n6": 8})
        assert codes(answer) == {
            ReasonCode.INSUFFICIENT_CAPACITY: 0,
            ReasonCode.INSUFFICIENT_RESOURCE: 2,
            ReasonCode.NODE_UNSCHEDULABLE: 1,
            ReasonCode.NODE_NOT_READY: 1,
            ReasonCode.TAINT_NOT_TOLERATED: 1,
            ReasonCode.NODE_SELECTOR_MISMATCH: 1,
            ReasonCode.NODE_EXCLUDED: 1,
        }

    def test_a_resource_that_no_node_has(self) -> None:
        """It is named, and nothing else is blamed."""
        answer = solved((pod(requests={"example.com/fpga": 1, "pods": 1}),), on=[node("n1")])
        assert isinstance(answer, Refusal)
        assert [reason.subject for reason in answer.reasons] == ["", "example.com/fpga"]

    def test_no_nodes_at_all(self) -> None:
        """That says it all."""
        answer = solved(members("g", count=2), on=[])
        assert codes(answer) == {ReasonCode.INSUFFICIENT_CAPACITY: 0, ReasonCode.NO_NODES: 0}

    def test_a_class_that_fits_is_not_blamed(self) -> None:
        """Only what could not be placed is explained."""
        fits, lacks = members("a", count=1), members("b", count=1, gpus=0, memory=2**50)
        answer = solved(fits + lacks, on=[node("n1")])
        assert isinstance(answer, Refusal)
        assert [reason.subject for reason in answer.reasons[:2]] == ["", "memory"]


class TestClasses:
    """Members that ask for the same are one."""

    @staticmethod
    def classes_of(pods: list[Pod], excluded: Mapping[Uid, frozenset[NodeName]] | None = None) -> list[MemberClass]:
        """The classes on an empty cluster."""
        snapshot = Inventory().snapshot(pods)
        return list(classes_of(pods, snapshot=snapshot, excluded_nodes=excluded or {}, subgroups={}))

    def test_equal_members_are_one_class(self) -> None:
        """Whatever their order and their resources of amount zero."""
        one, other = pod("a"), pod("b")
        other = replace(other, requests={"pods": 1, "cpu": 0, GPU: 1})
        (found,) = self.classes_of([other, one])
        assert [member.metadata.name for member in found.members] == ["a", "b"]

    def test_labels_that_nobody_reads_divide_nothing(self) -> None:
        """Members of a Job differ in the label of their index."""
        pods = [pod(f"w-{index}", labels={"index": str(index), "app": "a"}) for index in range(4)]
        assert len(self.classes_of(pods)) == 1
        term = PodTerm(
            topology_key="zone",
            selector=LabelSelector(requirements=(NodeRequirement(key="index", operator="In", values=("0",)),)),
        )
        pods[3] = replace(pods[3], rules=PodRules(affinity=(term,)))
        assert len(self.classes_of(pods)) == 4

    def test_constraints_and_exclusions_divide_classes(self) -> None:
        """Each class is judged as one, so nothing that is judged may differ within."""
        plain, pinned, excluded = pod("a"), pod("b", node_selector={"x": "y"}), pod("c")
        classes = self.classes_of([plain, pinned, excluded], {excluded.metadata.uid: frozenset({N1})})
        assert len(classes) == 3

    def test_the_hardest_class_is_first(self) -> None:
        """Scarce resources weigh more than common ones."""
        gpu, memory, cpu = pod("g", gpus=1), pod("m", gpus=0, memory=2**38), pod("c", gpus=0, cpu=64_000)
        classes = self.classes_of([cpu, memory, gpu, pod("h", gpus=4)])
        assert [one.members[0].metadata.name for one in classes] == ["h", "g", "m", "c"]


class TestCheck:
    """Whether a placement that was promised still fits: what the binder asks before it writes."""

    def test_a_placement_just_solved_fits(self) -> None:
        """Solver and check agree."""
        pods = members("g", count=9, gpus=2)
        nodes = [node("n1"), node("n2"), node("n3", gpus=5)]
        answer = solved(pods, on=nodes)
        assert isinstance(answer, Placement)
        snapshot = snapshot_of(nodes, for_pods=pods)
        assert check(snapshot, pods={one.metadata.uid: one for one in pods}, nodes=answer.nodes) == {}

    def test_members_count_against_each_other(self) -> None:
        """Two that fit alone may not fit together: the later one is told so."""
        first, second = members("g", count=2, gpus=5)
        snapshot = snapshot_of([node("n1")], for_pods=(first, second))
        pods = {one.metadata.uid: one for one in (first, second)}
        misfits = check(snapshot, pods=pods, nodes={first.metadata.uid: N1, second.metadata.uid: N1})
        assert set(misfits) == {second.metadata.uid}
        reason = misfits[second.metadata.uid]
        assert reason.code is ReasonCode.PLACEMENT_STALE
        assert reason.message == f"node n1 has 3 free {GPU}, pod g-1 asks for 5"

    def test_a_node_that_has_closed_or_gone(self) -> None:
        """The message says which, and how."""
        one, other = members("g", count=2)
        snapshot = snapshot_of([node("n1", is_unschedulable=True)], for_pods=(one, other))
        pods = {item.metadata.uid: item for item in (one, other)}
        misfits = check(snapshot, pods=pods, nodes={one.metadata.uid: N1, other.metadata.uid: N2})
        assert [misfits[item.metadata.uid].message for item in (one, other)] == [
            "node n1 is cordoned",
            "node n2 does not exist",
        ]

    def test_a_member_that_does_not_fit_takes_nothing(self) -> None:
        """Its smaller sibling may still have the room."""
        big, small = pod("a", gpus=9), pod("b", gpus=8)
        snapshot = snapshot_of([node("n1")], for_pods=(big, small))
        pods = {item.metadata.uid: item for item in (big, small)}
        assert set(check(snapshot, pods=pods, nodes={big.metadata.uid: N1, small.metadata.uid: N1})) == {
            big.metadata.uid
        }

    def test_a_resource_that_is_unknown(self) -> None:
        """No node ever had it: nothing of it is free."""
        one = pod(requests={"example.com/fpga": 1})
        snapshot = snapshot_of([node("n1")], for_pods=(one,))
        misfits = check(snapshot, pods={one.metadata.uid: one}, nodes={one.metadata.uid: N1})
        assert "0 free example.com/fpga" in misfits[one.metadata.uid].message


def test_a_thousand_members_cost_one_pass() -> None:
    """Amounts are those of the members one by one, though they were placed as one class."""
    pods = members("g", count=1000, gpus=2, cpu=100)
    nodes = [node(f"n{index:03}", gpus=8, cpu=350) for index in range(400)]
    snapshot = snapshot_of(nodes, for_pods=pods)
    before = snapshot.free.copy()
    answer = solve(snapshot, members=pods, needed=1000)
    assert isinstance(answer, Placement)
    counts = Counter(answer.nodes.values())
    assert max(counts.values()) == 3
    placed = np.array([counts.get(name, 0) for name in snapshot.names])
    assert ((before - snapshot.free)[:, snapshot.columns[GPU]] == 2 * placed).all()
    assert constraints_of(pods[0]) in snapshot.verdicts


def test_hard_member_does_not_keep_out_the_easy_ones_that_suffice() -> None:
    """Where not all members are needed, one that takes a whole node is left out rather than the gang refused."""
    answer = solved((pod("a", gpus=4), pod("b", gpus=2), pod("c", gpus=2)), on=[node("n1", gpus=4)], needed=2)
    assert isinstance(answer, Placement)
    assert set(answer.nodes) == {pod("b").metadata.uid, pod("c").metadata.uid}
