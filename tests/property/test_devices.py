"""Devices: whatever there is and whoever asks, no device is promised twice, and brute force agrees on small pools."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from services.core.allocations import ClaimAllocation
from services.core.devices import DeviceBooks, Devices
from services.core.objects import DeviceObject, Node, NodeName, Pod
from services.core.objects import Metadata as Meta
from tests.device_builders import device, device_class, request, resource_slice, template, user

NODES = ("n1", "n2")
MODELS = ("a", "b")
OWN = 'device.attributes["gpu.example.com"]'


@dataclass(frozen=True)
class Part:
    """One device: its attributes, what it takes of its pool's counter, and how much of its memory there is to share."""

    model: str
    numa: int
    takes: int
    memory: int


@dataclass(frozen=True)
class Want:
    """One template: how many of which model, how much of a shared one's memory, and whether they share a NUMA node."""

    model: str
    count: int
    memory: int
    is_close: bool


@dataclass(frozen=True)
class World:
    """Pools of nodes and of the network, templates, and pods by node."""

    pools: tuple[tuple[str, tuple[Part, ...]], ...]
    counter: int
    wants: tuple[Want, ...]
    pods: tuple[tuple[int, str], ...]


parts = st.builds(
    Part,
    model=st.sampled_from(MODELS),
    numa=st.integers(0, 1),
    takes=st.sampled_from([0, 0, 1, 2]),
    memory=st.sampled_from([0, 0, 4]),
)
wants = st.builds(
    Want,
    model=st.sampled_from(["", *MODELS]),
    count=st.integers(1, 2),
    memory=st.sampled_from([0, 1, 2, 3]),
    is_close=st.booleans(),
)
worlds = st.integers(1, 2).flatmap(
    lambda kinds: st.builds(
        World,
        pools=st.lists(
            st.tuples(st.sampled_from([*NODES, "*"]), st.lists(parts, min_size=1, max_size=3).map(tuple)),
            min_size=1,
            max_size=2,
        ).map(tuple),
        counter=st.integers(1, 3),
        wants=st.lists(wants, min_size=kinds, max_size=kinds).map(tuple),
        pods=st.lists(st.tuples(st.integers(0, kinds - 1), st.sampled_from(NODES)), min_size=1, max_size=3).map(tuple),
    )
)


def devices_of(world: World, *, is_reversed: bool = False) -> Devices:
    """Return the world as one decision sees it, fed in either order."""
    return snapshot_of(books_of(world, is_reversed=is_reversed))


def snapshot_of(books: DeviceBooks) -> Devices:
    """Return what books know, on both nodes."""
    return books.snapshot(nodes={NodeName(name): Node(metadata=Meta(name=name)) for name in NODES})


def books_of(world: World, *, is_reversed: bool = False) -> DeviceBooks:
    """Return books of the world, fed in either order."""
    items = [device_class()]
    for number, (where, content) in enumerate(world.pools):
        rule = {"allNodes": True} if where == "*" else {"nodeName": where}
        pool = f"p{number}"
        counters = [{"name": "set", "counters": {"c": {"value": str(world.counter)}}}]
        items.append(resource_slice(f"{pool}-c", pool=pool, count=2, sharedCounters=counters, **rule))
        entries = [_device(index, part) for index, part in enumerate(content)]
        items.append(resource_slice(f"{pool}-d", entries, pool=pool, count=2, **rule))
    for number, want in enumerate(world.wants):
        items.append(_template(number, want))
    books = DeviceBooks()
    for item in reversed(items) if is_reversed else items:
        books.put(item)
    return books


def _device(index: int, part: Part) -> dict[str, object]:
    fields: dict[str, object] = {}
    if part.takes:
        fields["consumesCounters"] = [{"counterSet": "set", "counters": {"c": {"value": str(part.takes)}}}]
    if part.memory:
        policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
        capacity = {"memory": {"value": str(part.memory), "requestPolicy": policy}}
        fields |= {"allowMultipleAllocations": True, "capacity": capacity}
    return device(f"d{index}", attributes={"model": part.model, "numa": part.numa}, **fields)


def _template(number: int, want: Want) -> DeviceObject:
    selectors = [f'{OWN}.model == "{want.model}"'] if want.model else []
    fields: dict[str, Any] = {"capacity": {"requests": {"memory": str(want.memory)}}} if want.memory else {}
    constraints = [{"matchAttribute": "gpu.example.com/numa"}] if want.is_close else []
    return template(f"t{number}", request("gpu", *selectors, count=want.count, **fields), constraints=constraints)


def placement_of(world: World) -> list[tuple[Pod, NodeName]]:
    """Return the pods with their nodes."""
    return [
        (user(f"pod{number}", templates=[f"t{kind}"]), NodeName(node)) for number, (kind, node) in enumerate(world.pods)
    ]


@given(worlds)
def test_brute_force_agrees(world: World) -> None:
    """Devices for the whole placement are found exactly where trying everything finds some."""
    answer = devices_of(world).allocate(placement_of(world))
    assert all(isinstance(one, ClaimAllocation) for one in answer) == any(_solutions(world))


@given(worlds)
def test_nothing_is_given_twice(world: World) -> None:
    """No device whole to two claims, no counter or capacity exceeded, every device one that was asked for."""
    answer = devices_of(world).allocate(placement_of(world))
    chosen = [
        [(int(one.pool[1:]), int(one.device[1:])) for one in claim.results]
        for claim in answer
        if isinstance(claim, ClaimAllocation)
    ]
    assert not chosen or _is_solution(world, chosen)


@given(worlds)
def test_the_order_in_which_things_come_makes_no_difference(world: World) -> None:
    """Neither that of the objects, nor that of the members."""
    one = devices_of(world).allocate(placement_of(world))
    assert one == devices_of(world, is_reversed=True).allocate(placement_of(world)[::-1])


@given(worlds)
def test_nodes_that_are_alike_answer_alike(world: World) -> None:
    """Equal signatures, equal answers; and what fits alone on its node is found for it."""
    found = devices_of(world)
    demands = tuple(dict.fromkeys(found.demand(pod) for pod, _ in placement_of(world)))
    answers: dict[object, object] = {}
    for node in map(NodeName, NODES):
        said = tuple(found.fits(node, {demand: count}) for demand in demands for count in (1, 2))
        assert answers.setdefault(found.signature(node, demands), said) == said
    for pod, node in placement_of(world):
        is_found = all(isinstance(one, ClaimAllocation) for one in found.allocate([(pod, node)]))
        assert found.fits(node, {found.demand(pod): 1}) is is_found


@given(worlds)
def test_fewer_fit_where_more_do(world: World) -> None:
    """Taking a member away never makes devices too few."""
    found = devices_of(world)
    placement = placement_of(world)
    if all(isinstance(one, ClaimAllocation) for one in found.allocate(placement)):
        for left_out in range(len(placement)):
            rest = placement[:left_out] + placement[left_out + 1 :]
            assert all(isinstance(one, ClaimAllocation) for one in found.allocate(rest))


@given(worlds)
def test_what_is_taken_is_gone_whichever_way_it_is_told(world: World) -> None:
    """A decision that counts for the next one leaves as much as a promise; and released, all is there again."""
    books = books_of(world)
    (first, node), *_ = placement = placement_of(world)
    before = snapshot_of(books)
    answer = [one for one in before.allocate([(first, node)]) if isinstance(one, ClaimAllocation)]
    taking = snapshot_of(books)
    taking.take(answer)
    for one in answer:
        books.hold(one)
    others = [pod for pod, _ in placement[1:]]
    assert _said(taking, others) == _said(snapshot_of(books), others)
    for one in answer:
        books.release(one.ref)
    assert _said(snapshot_of(books), others) == _said(before, others)


def _said(found: Devices, pods: Sequence[Pod]) -> list[bool | None]:
    demands = [found.demand(pod) for pod in pods]
    return [found.fits(NodeName(node), {one: count}) for node in NODES for one in demands for count in (1, 2)]


def _solutions(world: World) -> Iterator[bool]:
    """Yield whether each way to choose devices is a solution: every combination for every claim."""
    every = [(number, index) for number, (_, content) in enumerate(world.pools) for index in range(len(content))]
    ways = [combinations(every, world.wants[kind].count) for kind, _ in world.pods]
    for chosen in product(*ways):
        yield _is_solution(world, chosen)


def _is_solution(world: World, chosen: Sequence[Sequence[tuple[int, int]]]) -> bool:
    whole: set[tuple[int, int]] = set()
    memory: dict[tuple[int, int], int] = {}
    for (kind, node), devices in zip(world.pods, chosen, strict=True):
        want = world.wants[kind]
        content = [world.pools[number][1][index] for number, index in devices]
        if want.is_close and len({part.numa for part in content}) > 1:
            return False
        for identity, part in zip(devices, content, strict=True):
            is_near = world.pools[identity[0]][0] in {"*", node}
            if not is_near or want.model not in {"", part.model} or (want.memory and not part.memory):
                return False
            if part.memory:
                memory[identity] = memory.get(identity, 0) + (want.memory or 1)
            elif identity in whole:
                return False
            whole.add(identity)
    taken = [sum(world.pools[n][1][i].takes for n, i in whole if n == number) for number in range(len(world.pools))]
    return max(taken) <= world.counter and all(
        amount <= world.pools[number][1][index].memory for (number, index), amount in memory.items()
    )
