"""What pre-emption could do for a gang that was refused is told, and nobody is evicted for it."""

from dataclasses import replace
from typing import Any

import pytest

from services.core.constraints import LabelSelector, NodeRequirement, PodRules, PodTerm
from services.core.gangs import Gang
from services.core.inventory import Inventory
from services.core.objects import NodeName, Pod
from services.core.quantities import MAX_AMOUNT
from services.core.reasons import Reason, ReasonCode
from services.core.solver import Refusal
from services.core.trying import try_gang
from tests.builders import GPU, gang, node, pod

TOLD = {ReasonCode.PREEMPTION_WOULD_HELP, ReasonCode.PREEMPTION_NOT_ENOUGH}
OF_GROUP = LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("a",)),))
APART = PodRules(anti_affinity=(PodTerm(topology_key="kubernetes.io/hostname", selector=OF_GROUP, namespaces=("b",)),))


def full(*, priorities: tuple[int, ...], **fields: Any) -> Inventory:
    """A node of eight GPUs for each priority, held by one pod of it."""
    inventory = Inventory()
    for index, priority in enumerate(priorities):
        inventory.put_node(node(f"n{index}"))
        name = NodeName(f"n{index}")
        holder = pod(f"old-{index}", namespace="b", node=name, gpus=8, priority=priority, labels={"app": "a"}, **fields)
        inventory.place(holder, on=name)
    return inventory


def told(item: Gang, inventory: Inventory) -> list[Reason]:
    """What is said of pre-emption where the gang is refused; what is free is as it was afterwards."""
    snapshot = inventory.snapshot(item.open)
    before = snapshot.free.copy()
    answer = try_gang(item, snapshot)
    assert isinstance(answer, Refusal)
    assert (snapshot.free == before).all()
    return [reason for reason in answer.reasons if reason.code in TOLD]


def test_not_enough_is_told_with_its_number() -> None:
    """Two of three nodes are held by lower pods: to evict them would be in vain."""
    (reason,) = told(gang(size=3, gpus=8, priority=100), full(priorities=(10, 10, 1000)))
    assert (reason.code, reason.count) == (ReasonCode.PREEMPTION_NOT_ENOUGH, 2)
    assert reason.message == (
        "at most 2 of the 3 needed pods placeable even after pre-emption of the 2 pods of lower priority"
    )


def test_what_would_help_is_told() -> None:
    """All that is needed would fit, and nobody is evicted for it."""
    (reason,) = told(gang(size=2, gpus=8, priority=100), full(priorities=(10, 99, 100)))
    assert (reason.code, reason.count) == (ReasonCode.PREEMPTION_WOULD_HELP, 2)


@pytest.mark.parametrize("priority", [10, 5])
def test_pods_of_the_same_priority_are_no_victims(priority: int) -> None:
    """Nothing is said where nobody is lower."""
    assert told(gang(size=1, gpus=8, priority=priority), full(priorities=(10, 10))) == []


def test_who_never_preempts_is_told_nothing() -> None:
    """Its owner has said that it waits for room."""
    assert told(gang(size=1, gpus=8, priority=100, never_preempts=True), full(priorities=(10,))) == []


def test_rules_of_lower_pods_go_with_them() -> None:
    """A pod that keeps the members off its node does so no longer when it is gone, nor does its own need of company."""
    inventory = full(priorities=(10,), rules=APART)
    inventory.leave(pod("old-0", namespace="b").metadata.uid)
    inventory.place(
        pod("old-0", namespace="b", node="n0", gpus=1, priority=10, labels={"app": "a"}, rules=APART),
        on=NodeName("n0"),
    )
    item = gang(size=1, gpus=1, priority=100, namespace="b", labels={"app": "a"})
    (reason,) = told(item, inventory)
    assert reason.code is ReasonCode.PREEMPTION_WOULD_HELP


def test_the_answer_follows_the_pods() -> None:
    """Kept from one refusal to the next, it is renewed by who comes, goes, and by nodes that are new."""
    inventory, item = full(priorities=(10, 10)), gang(size=4, gpus=8, priority=100)
    assert told(item, inventory)[0].count == 2
    inventory.leave(pod("old-0", namespace="b").metadata.uid)
    assert told(item, inventory)[0].message.endswith("the one pod of lower priority")
    inventory.put_node(node("n9"))
    inventory.place(pod("new", node="n9", gpus=8, priority=50), on=NodeName("n9"))
    assert told(item, inventory)[0].count == 3
    inventory.remove_node(NodeName("n1"))
    assert told(item, inventory)[0].count == 2


def test_amounts_that_nobody_has_are_unknown() -> None:
    """Sums that 64 bits cannot hold are no room: nothing is said, rather than something wrong."""
    inventory = full(priorities=(10,))
    absurd = [
        pod(f"huge-{index}", namespace="b", node="n0", requests={GPU: MAX_AMOUNT}, priority=10) for index in range(600)
    ]
    item = gang(size=1, gpus=8, priority=100)
    for one in absurd:
        inventory.place(one, on=NodeName("n0"))
    assert told(item, inventory) == []


def test_a_search_is_not_made_twice() -> None:
    """Where filling leaves members over and counting does not exclude them, the message says that no more was done."""
    inventory = Inventory()
    sizes: tuple[Pod, ...] = tuple(pod(f"w-{i}", gpus=1 if i == 0 else 4, cpu=1 + i) for i in range(4))
    for index in range(2):
        name = NodeName(f"n{index}")
        inventory.put_node(node(name, gpus=7))
        inventory.place(pod(f"old-{index}", namespace="b", node=name, gpus=7, priority=1), on=name)
    item = replace(gang(size=1, priority=100), open=sizes, min_count=4)
    (reason,) = told(item, inventory)
    assert reason.code is ReasonCode.PREEMPTION_NOT_ENOUGH
    assert reason.message.startswith("3 of the 4 needed pods were found a place even after pre-emption")
