"""The inventory: what nodes have and what is in use, whatever is seen first."""

import numpy as np
import pytest

from services.core.inventory import Inventory
from services.core.judgements import MAX_KEPT
from services.core.node_rules import Constraints, Verdict
from services.core.objects import NodeName, Uid
from services.core.quantities import MAX_AMOUNT
from tests.builders import GPU, node, pod

N1, N2 = NodeName("n1"), NodeName("n2")
ANYWHERE = Constraints()
ON_H100 = Constraints(node_selector=(("pool", "h100"),))


def inventory(*names: str) -> Inventory:
    """Nodes of eight GPUs."""
    made = Inventory()
    for name in names:
        made.put_node(node(name))
    return made


def test_what_is_free() -> None:
    """Charged amounts are not; released ones are again."""
    one = inventory("n1")
    one.charge(N1, requests={GPU: 3, "pods": 1})
    assert (one.free_on(N1)[GPU], one.free_on(N1)["pods"]) == (5, 109)
    one.release(N1, requests={GPU: 3, "pods": 1})
    assert one.free_on(N1)[GPU] == 8
    assert one.free_on(NodeName("elsewhere")) == {}


def test_an_over_committed_node_is_no_debt_of_others() -> None:
    """It has less than nothing, and in the sum nothing."""
    one = inventory("n1", "n2")
    one.charge(N1, requests={GPU: 11})
    assert one.free_on(N1)[GPU] == -3
    assert one.total_free()[GPU] == 8


def test_a_resource_that_a_node_lacks() -> None:
    """Using what is not there leaves a debt there; other nodes have none of it."""
    one = inventory("n1", "n2")
    one.charge(N1, requests={"example.com/fpga": 2})
    assert one.free_on(N1)["example.com/fpga"] == -2
    assert one.free_on(N2)["example.com/fpga"] == 0


def test_pods_may_be_seen_before_their_node() -> None:
    """What they use is kept until the node appears."""
    one = Inventory()
    one.charge(N1, requests={GPU: 3, "cpu": 100})
    one.charge(N1, requests={GPU: 1})
    one.release(N1, requests={"cpu": 100})
    assert one.node_count == 0
    one.put_node(node("n1"))
    assert (one.free_on(N1)[GPU], one.free_on(N1)["cpu"]) == (4, 96_000)


def test_a_node_that_comes_back_finds_its_pods() -> None:
    """A node object may be deleted and made again under running pods."""
    one = inventory("n1")
    one.charge(N1, requests={GPU: 3})
    one.remove_node(N1)
    assert one.free_on(N1) == {}
    assert one.total_free()[GPU] == 0
    one.release(N1, requests={GPU: 1})
    one.put_node(node("n1"))
    assert one.free_on(N1)[GPU] == 6


def test_a_row_is_used_again_without_its_past() -> None:
    """Another node in the place of one that is gone starts empty."""
    one = inventory("n1")
    one.charge(N1, requests={GPU: 3})
    one.remove_node(N1)
    one.put_node(node("n2", gpus=4))
    assert one.free_on(N2)[GPU] == 4
    snapshot = one.snapshot([pod()])
    assert dict(snapshot.rows) == {N2: 0}


def test_a_changed_node_replaces_what_it_offered() -> None:
    """A resource that is no longer offered is gone; what is in use stays in use."""
    one = inventory("n1")
    one.charge(N1, requests={GPU: 3})
    one.put_node(node("n1", gpus=0))
    assert one.free_on(N1)[GPU] == -3


def test_many_nodes_and_resources() -> None:
    """The arrays grow, and keep what they held."""
    one = Inventory()
    for index in range(200):
        one.put_node(node(f"n{index}", gpus=index))
        one.charge(NodeName(f"n{index}"), requests={f"example.com/r{index % 20}": 1})
    assert one.node_count == 200
    assert all(one.free_on(NodeName(f"n{index}"))[GPU] == index for index in range(200))
    assert one.free_on(NodeName("n7"))["example.com/r7"] == -1


def test_absurd_amounts_do_not_overflow() -> None:
    """They are cut where sums stay within 64 bits, in both directions alike."""
    one = inventory("n1")
    for _ in range(3):
        one.charge(N1, requests={"memory": 2**62})
    assert one.free_on(N1)["memory"] == 2**40 - 3 * MAX_AMOUNT
    for _ in range(3):
        one.release(N1, requests={"memory": 2**62})
    assert one.free_on(N1)["memory"] == 2**40


class TestSnapshot:
    """The state at one moment, for one decision."""

    def test_verdicts_of_nodes(self) -> None:
        """Each kind of constraint is judged on every node, also on those that come or change later."""
        one = inventory("n1")
        assert list(one.snapshot().verdicts_for(ON_H100)) == [Verdict.SELECTOR]
        one.put_node(node("n2", labels={"pool": "h100"}))
        one.put_node(node("n1", labels={"pool": "h100"}, is_ready=False))
        assert list(one.snapshot().verdicts_for(ON_H100)) == [Verdict.NOT_READY, Verdict.ADMITTED]

    def test_a_node_that_is_gone_admits_nobody(self) -> None:
        """Its row stays until another node takes it."""
        one = inventory("n1", "n2")
        one.snapshot([pod()])
        one.remove_node(N1)
        snapshot = one.snapshot([pod()])
        assert list(snapshot.verdicts_for(ANYWHERE)) == [Verdict.ABSENT, Verdict.ADMITTED]
        assert snapshot.node_count == 1

    def test_rows_that_were_added_after_a_judgement(self) -> None:
        """Growing arrays never turns an empty row into an open node."""
        one = inventory("n1")
        one.snapshot([pod()])
        for index in range(100):
            one.put_node(node(f"m{index}"))
        verdicts = one.snapshot().verdicts_for(ANYWHERE)
        assert len(verdicts) == 101
        assert set(verdicts) == {Verdict.ADMITTED}

    def test_a_snapshot_is_its_readers_own(self) -> None:
        """A solver writes into it; later events do not."""
        one = inventory("n1")
        snapshot = one.snapshot([pod()])
        snapshot.free[0, snapshot.columns[GPU]] = 0
        snapshot.verdicts_for(ANYWHERE)[0] = Verdict.TAINTED
        assert one.free_on(N1)[GPU] == 8
        assert list(one.snapshot().verdicts_for(ANYWHERE)) == [Verdict.ADMITTED]
        one.charge(N1, requests={GPU: 8, "example.com/new": 1})
        assert "example.com/new" not in snapshot.columns

    def test_an_empty_cluster(self) -> None:
        """No nodes and no resources are still a snapshot."""
        snapshot = Inventory().snapshot([pod()])
        assert snapshot.node_count == 0
        assert snapshot.free.shape[0] == 0

    def test_forgotten_judgements_are_made_again(self) -> None:
        """Only so many kinds of constraints are kept; the answer is the same without."""
        one = inventory("n1")
        many = [Constraints(node_selector=(("pool", str(index)),)) for index in range(MAX_KEPT + 50)]
        one.snapshot([pod()])
        for constraints in many:
            one.snapshot().verdicts_for(constraints)
        assert len(one._judgements._verdicts) <= MAX_KEPT
        assert list(one.snapshot().verdicts_for(ANYWHERE)) == [Verdict.ADMITTED]


def test_a_copy_lives_on_its_own() -> None:
    """What-ifs change the copy only."""
    one = inventory("n1")
    one.charge(NodeName("later"), requests={GPU: 1})
    twin = one.copy()
    twin.charge(N1, requests={GPU: 8})
    twin.put_node(node("n2"))
    twin.put_node(node("later"))
    assert one.free_on(N1)[GPU] == 8
    assert one.node_count == 1
    assert twin.free_on(NodeName("later"))[GPU] == 7
    assert not np.shares_memory(one._used, twin._used)


@pytest.mark.parametrize("order", [("n1", "n2"), ("n2", "n1")])
def test_nodes_are_found_by_name(order: tuple[str, ...]) -> None:
    """Whatever their row."""
    one = inventory(*order)
    assert {item.metadata.name for item in one.nodes()} == {"n1", "n2"}
    found = one.node(N1)
    assert found is not None
    assert found.metadata.name == "n1"
    assert one.node(NodeName("n3")) is None


@pytest.mark.parametrize("is_node_first", [True, False], ids=["node first", "pods first"])
def test_sums_beyond_64_bits_are_no_room(is_node_first: bool) -> None:  # noqa: FBT001 - pytest's parameter
    """Pods that ask for more than all machines have make a node full, and neither wrap around nor raise."""
    one = inventory("n1") if is_node_first else Inventory()
    uids = [f"u{index}" for index in range(2047)]
    for uid in uids:
        one.place(pod(uid, uid=uid, gpus=0, memory=MAX_AMOUNT), on=N1)
    one.put_node(node("n1"))
    assert one.free_on(N1)["memory"] < 0
    assert one.snapshot().free[one.snapshot().rows[N1]].min() < 0
    for uid in uids:
        one.leave(Uid(uid))
    assert one.free_on(N1) == inventory("n1").free_on(N1)
