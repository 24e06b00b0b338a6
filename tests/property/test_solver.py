"""What holds for every answer of the solver, on any small cluster."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.core.constraints import Toleration
from services.core.inventory import Inventory, Snapshot
from services.core.node_rules import Verdict, constraints_of, verdict
from services.core.objects import Node, NodeName, Pod, Uid
from services.core.solver import Placement, Refusal, check, solve
from tests import builders
from tests.builders import GPU
from tests.property.strategies import nodes

_TOLERATIONS = st.sampled_from([(), (), (Toleration(operator="Exists"),)])


@st.composite
def gangs(draw: Callable[..., Any]) -> tuple[Pod, ...]:
    """Up to eight members of up to three shapes."""
    pods: list[Pod] = []
    for shape in range(draw(st.integers(1, 3))):
        fields = {
            "gpus": draw(st.integers(0, 4)),
            "cpu": draw(st.sampled_from([0, 500, 3_000])),
            "tolerations": draw(_TOLERATIONS),
        }
        pods += builders.members(f"g{shape}", count=draw(st.integers(1, 4)), **fields)
    return tuple(pods[:8])


def snapshot_of(cluster: list[Node], *, used: dict[str, int], pods: tuple[Pod, ...]) -> Snapshot:
    """The cluster with some GPUs in use."""
    inventory = Inventory()
    for item in cluster:
        inventory.put_node(item)
        inventory.charge(NodeName(item.metadata.name), requests={GPU: used.get(item.metadata.name, 0)})
    return inventory.snapshot(pods)


USED = st.dictionaries(st.sampled_from([f"n{index}" for index in range(5)]), st.integers(0, 9), max_size=5)


def placed(answer: Placement | Refusal) -> dict[Uid, NodeName]:
    """Node by member, of a refusal too."""
    return dict(answer.nodes if isinstance(answer, Placement) else answer.partial)


@given(cluster=nodes(), pods=gangs(), used=USED, needed=st.integers(1, 8))
def test_no_node_is_promised_twice(
    cluster: list[Node], pods: tuple[Pod, ...], used: dict[str, int], needed: int
) -> None:
    """On each node the members together ask for no more than was free, and the node admits each of them."""
    answer = solve(snapshot_of(cluster, used=used, pods=pods), members=pods, needed=needed)

    by_uid = {pod.metadata.uid: pod for pod in pods}
    for item in cluster:
        here = [by_uid[uid] for uid, name in placed(answer).items() if name == item.metadata.name]
        assert all(verdict(item, constraints=constraints_of(pod)) is Verdict.ADMITTED for pod in here)
        for resource, offered in item.allocatable.items():
            in_use = used.get(item.metadata.name, 0) if resource == GPU else 0
            asked = sum(pod.requests.get(resource, 0) for pod in here)
            assert asked == 0 or asked <= offered - in_use
        if GPU not in item.allocatable:
            assert not any(pod.requests.get(GPU) for pod in here)


@given(cluster=nodes(), pods=gangs(), used=USED, needed=st.integers(1, 8))
def test_all_that_is_needed_or_a_refusal(
    cluster: list[Node], pods: tuple[Pod, ...], used: dict[str, int], needed: int
) -> None:
    """A placement holds at least what is needed; a refusal less, and it says why."""
    answer = solve(snapshot_of(cluster, used=used, pods=pods), members=pods, needed=needed)

    if isinstance(answer, Placement):
        assert len(answer.nodes) >= needed
    else:
        assert answer.placeable == len(answer.partial) < needed
        assert answer.reasons


@given(cluster=nodes(), pods=gangs(), used=USED, seed=st.integers(0, 2**16))
def test_the_order_of_what_is_given_does_not_matter(
    cluster: list[Node], pods: tuple[Pod, ...], used: dict[str, int], seed: int
) -> None:
    """The same cluster and gang give the same answer, whatever was seen first, and again when asked again."""
    first = solve(snapshot_of(cluster, used=used, pods=pods), members=pods, needed=len(pods))
    again = solve(snapshot_of(cluster, used=used, pods=pods), members=pods, needed=len(pods))
    shuffler = random.Random(seed)
    other_cluster, other_pods = list(cluster), list(pods)
    shuffler.shuffle(other_cluster)
    shuffler.shuffle(other_pods)
    other = solve(
        snapshot_of(other_cluster, used=used, pods=tuple(other_pods)),
        members=other_pods,
        needed=len(pods),
    )
    assert first == again == other


@given(cluster=nodes(), pods=gangs(), used=USED)
def test_the_check_accepts_what_was_solved(cluster: list[Node], pods: tuple[Pod, ...], used: dict[str, int]) -> None:
    """On the same cluster the binder never refuses what the placer proposed, whatever is left of it."""
    answer = solve(snapshot_of(cluster, used=used, pods=pods), members=pods, needed=1)
    by_uid = {pod.metadata.uid: pod for pod in pods}
    snapshot = snapshot_of(cluster, used=used, pods=pods)
    assert check(snapshot, pods=by_uid, nodes=placed(answer)) == {}


@given(cluster=nodes(), used=USED, count=st.integers(1, 10), gpus=st.integers(0, 4), needed=st.integers(1, 10))
def test_equal_members_are_placed_wherever_it_is_possible(
    *, cluster: list[Node], used: dict[str, int], count: int, gpus: int, needed: int
) -> None:
    """For a gang of equal members the answer is exact: it agrees with counting node by node."""
    pods = builders.members("g", count=count, gpus=gpus, cpu=1_000)
    room = 0
    for item in cluster:
        if verdict(item, constraints=constraints_of(pods[0])) is not Verdict.ADMITTED:
            continue
        # One after another until one does not fit: no arithmetic of the solver's is repeated here.
        taken: Counter[str] = Counter({GPU: used.get(item.metadata.name, 0)})
        for pod in pods:
            after = taken + Counter(pod.requests)
            if any(amount and after[name] > item.allocatable.get(name, 0) for name, amount in pod.requests.items()):
                break
            taken = after
            room += 1

    answer = solve(snapshot_of(cluster, used=used, pods=pods), members=pods, needed=needed)

    assert len(placed(answer)) == min(count, room)
    assert isinstance(answer, Placement) == (min(count, room) >= needed)


@given(cluster=nodes(), pods=gangs(), used=USED, data=st.data())
def test_an_excluded_node_is_never_chosen(
    cluster: list[Node], pods: tuple[Pod, ...], used: dict[str, int], data: st.DataObject
) -> None:
    """What the API has refused once is not proposed again."""
    names = st.frozensets(st.sampled_from([NodeName(f"n{index}") for index in range(5)]))
    excluded = {pod.metadata.uid: data.draw(names) for pod in pods}
    snapshot = snapshot_of(cluster, used=used, pods=pods)
    answer = solve(snapshot, members=pods, excluded_nodes=excluded, needed=1)
    assert all(name not in excluded[uid] for uid, name in placed(answer).items())


@given(cluster=nodes(), pods=gangs(), used=USED)
def test_more_room_never_places_fewer_equal_members(
    cluster: list[Node], pods: tuple[Pod, ...], used: dict[str, int]
) -> None:
    """Adding an empty node can only help a gang of equal members."""
    equal = tuple(replace(pod, requests=pods[0].requests, tolerations=pods[0].tolerations) for pod in pods)
    before = solve(snapshot_of(cluster, used=used, pods=equal), members=equal, needed=1)
    more = [*cluster, builders.node("n9")]
    after = solve(snapshot_of(more, used=used, pods=equal), members=equal, needed=1)
    assert len(placed(after)) >= len(placed(before))


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["n0", "n1", "gone"]), st.integers(0, 3), st.integers(0, 9)),
    max_size=12,
)
"""Pod, node, priority (0 takes the pod away), GPUs."""


@given(steps=STEPS, asked=st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_room_without_lower_pods_is_that_of_a_cluster_without_them(
    steps: list[tuple[int, str, int, int]], asked: list[int]
) -> None:
    """Whatever came and went between two questions: what is kept for a priority equals what is counted anew."""
    inventory = Inventory()
    for index in range(2):
        inventory.put_node(builders.node(f"n{index}"))
    there: dict[int, tuple[Pod, NodeName]] = {}
    for index, name, priority, gpus in steps:
        one = builders.pod(f"p{index}", node=name, gpus=gpus, priority=priority)
        inventory.leave(one.metadata.uid)
        there.pop(index, None)
        if priority:
            inventory.place(one, on=NodeName(name))
            there[index] = (one, NodeName(name))
        for threshold in asked:
            lower = sum(one.priority < threshold for one, _ in there.values())
            found = inventory.snapshot().without_lower_than(threshold)
            assert (found is None) == (lower == 0)
            if found is None:
                continue
            kept = Inventory()
            for number in range(2):
                kept.put_node(builders.node(f"n{number}"))
            for one, node in there.values():
                if one.priority >= threshold:
                    kept.place(one, on=node)
            assert found[1] == lower
            width = len(kept.snapshot().columns)
            assert (found[0].free[:, :width] == kept.snapshot().free).all()
