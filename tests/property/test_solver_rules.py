"""Every placement that exists is found: the solver against trying everything, on small clusters with every rule."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from services.core.constraints import (
    Disk,
    HostPort,
    LabelSelector,
    NodeRequirement,
    PodRules,
    PodTerm,
    SpreadConstraint,
    Taint,
    Toleration,
)
from services.core.inventory import Inventory, Snapshot
from services.core.objects import Node, NodeName, Pod, Uid
from services.core.reasons import ReasonCode
from services.core.solver import Placement, Refusal, check, solve
from services.core.topology import TopologyRequest, TopologyWish
from tests import builders
from tests.property.naive import World, most

HOST, ZONE = "kubernetes.io/hostname", "zone"
NAMESPACES = {"team-a": {"kind": "batch"}, "team-b": {"kind": "web"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A small cluster, the pods on it, and the members to place."""

    nodes: tuple[Node, ...]
    there: tuple[tuple[Pod, str], ...]
    members: tuple[Pod, ...]

    @property
    def world(self) -> World:
        """The scene as the naive rules see it."""
        return World(nodes={one.metadata.name: one for one in self.nodes}, there=self.there, namespaces=NAMESPACES)

    def snapshot(self) -> Snapshot:
        """The scene as the solver sees it."""
        inventory = Inventory()
        inventory.namespaces.update(NAMESPACES)
        for item in self.nodes:
            inventory.put_node(item)
        for pod, name in self.there:
            inventory.place(pod, on=NodeName(name))
        return inventory.snapshot(self.members)

    def shuffled(self, seed: int) -> "Scene":
        """The same, seen in another order."""
        shuffler = random.Random(seed)
        nodes, there, members = list(self.nodes), list(self.there), list(self.members)
        shuffler.shuffle(nodes)
        shuffler.shuffle(there)
        shuffler.shuffle(members)
        return Scene(nodes=tuple(nodes), there=tuple(there), members=tuple(members))


SELECTORS = st.sampled_from(
    [
        LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("a",)),)),
        LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("a", "b")),)),
        LabelSelector(requirements=(NodeRequirement(key="app", operator="NotIn", values=("a",)),)),
        LabelSelector(requirements=(NodeRequirement(key="app", operator="Exists"),)),
        LabelSelector(requirements=(NodeRequirement(key="app", operator="DoesNotExist"),)),
        LabelSelector(),
        None,
    ]
)
KEYS = st.sampled_from([HOST, ZONE, ZONE])
TERMS = st.builds(
    PodTerm,
    topology_key=KEYS,
    selector=SELECTORS,
    namespaces=st.sampled_from([("team-a",), ("team-a",), ("team-a", "team-b"), ()]),
    namespace_selector=st.sampled_from(
        [None, None, LabelSelector(requirements=(NodeRequirement(key="kind", operator="In", values=("web",)),))]
    ),
)
SPREADS = st.builds(
    SpreadConstraint,
    topology_key=KEYS,
    max_skew=st.integers(1, 2),
    is_hard=st.sampled_from([True, True, False]),
    selector=SELECTORS,
    min_domains=st.integers(1, 3),
    honors_affinity=st.booleans(),
    honors_taints=st.booleans(),
)
PORTS = st.builds(
    HostPort,
    port=st.sampled_from([80, 81]),
    protocol=st.sampled_from(["TCP", "UDP"]),
    address=st.sampled_from(["0.0.0.0", "10.0.0.1"]),
)


DISKS = st.builds(Disk, name=st.sampled_from(["iscsi/a", "iscsi/b"]), is_read_only=st.booleans())
FEATURES = st.sampled_from([(), (), (), ("Restarts",)])


def some(values: st.SearchStrategy[Any], *, often: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """Mostly none, sometimes one or two."""
    return st.one_of(*[st.just(())] * often, st.lists(values, min_size=1, max_size=2).map(tuple))


RULES = st.builds(
    PodRules,
    affinity=some(TERMS, often=2),
    anti_affinity=some(TERMS),
    spread=some(SPREADS, often=2),
    host_ports=some(PORTS, often=4),
    disks=some(DISKS, often=4),
    features=FEATURES,
)


@st.composite
def scenes(draw: Callable[..., Any], *, most_members: int = 4) -> Scene:
    """Up to four nodes in up to three zones, up to three pods on them, and up to four members of up to three shapes."""
    zones = [draw(st.sampled_from([{}, {ZONE: "x"}, {ZONE: "x"}, {ZONE: "y"}, {ZONE: "z"}])) for _ in range(4)]
    nodes = tuple(
        builders.node(
            f"n{index}",
            gpus=draw(st.integers(0, 4)),
            pods=draw(st.integers(1, 4)),
            labels=labels,
            taints=draw(st.sampled_from([(), (), (), (Taint(key="x"),)])),
            features=draw(st.sampled_from([(), ("Restarts",)])),
        )
        for index, labels in enumerate(zones[: draw(st.integers(1, 4))])
    )
    there = []
    for index in range(draw(st.integers(0, 3))):
        pod = builders.pod(
            f"there-{index}",
            namespace=draw(st.sampled_from(["team-a", "team-b"])),
            gpus=draw(st.integers(0, 1)),
            labels=draw(st.sampled_from([{}, {"app": "a"}, {"app": "b"}])),
            rules=PodRules(
                anti_affinity=draw(some(TERMS, often=2)), host_ports=draw(some(PORTS)), disks=draw(some(DISKS))
            ),
            deleted_at=draw(st.sampled_from([None, None, builders.START + timedelta(seconds=1)])),
        )
        there.append((pod, draw(st.sampled_from([one.metadata.name for one in nodes]))))
    return Scene(nodes=nodes, there=tuple(there), members=draw(drawn_members(most=most_members)))


@st.composite
def drawn_members(draw: Callable[..., Any], *, most: int) -> tuple[Pod, ...]:
    """Members of up to three shapes."""
    pods: list[Pod] = []
    for shape in range(draw(st.integers(1, 3))):
        one = builders.pod(
            "shape",
            gpus=draw(st.integers(0, 3)),
            labels=draw(st.sampled_from([{}, {"app": "a"}, {"app": "a"}, {"app": "b"}])),
            rules=draw(RULES),
            tolerations=draw(st.sampled_from([(), (Toleration(operator="Exists"),)])),
            node_selector=draw(st.sampled_from([{}, {}, {}, {ZONE: "x"}])),
        )
        for index in range(draw(st.integers(1, 3))):
            name = f"member-{shape}-{index}"
            metadata = replace(one.metadata, name=name, uid=Uid(name))
            pods.append(replace(one, metadata=metadata))
    return tuple(pods[:most])


def placed(answer: Placement | Refusal) -> dict[Uid, NodeName]:
    """Node by member, of a refusal too."""
    return dict(answer.nodes if isinstance(answer, Placement) else answer.partial)


@given(scene=scenes())
def test_whole_gang_is_placed_wherever_that_is_possible(scene: Scene) -> None:
    """The solver agrees with trying every placement in every order, and knows what it knows."""
    answer = solve(scene.snapshot(), members=scene.members, needed=len(scene.members))
    possible = most(scene.world, scene.members) == len(scene.members)
    event(f"possible: {possible}, placed: {isinstance(answer, Placement)}")
    assert isinstance(answer, Placement) == possible
    if isinstance(answer, Refusal):
        assert ReasonCode.SEARCH_BUDGET_EXHAUSTED not in [reason.code for reason in answer.reasons]


@given(scene=scenes(), data=st.data())
def test_as_many_as_are_needed_are_placed_wherever_that_is_possible(scene: Scene, data: st.DataObject) -> None:
    """Also where not all of them have to be."""
    needed = data.draw(st.integers(1, len(scene.members)))
    answer = solve(scene.snapshot(), members=scene.members, needed=needed)
    assert isinstance(answer, Placement) == (most(scene.world, scene.members) >= needed)


@given(scene=scenes(), label=st.sampled_from([ZONE, HOST]))
def test_required_domain_is_found_wherever_there_is_one(scene: Scene, label: str) -> None:
    """All members in one domain, tried domain by domain."""
    wish = TopologyWish(requests=(TopologyRequest(level_label=label),))
    answer = solve(scene.snapshot(), members=scene.members, needed=len(scene.members), wish=wish)
    domains = {one.metadata.labels[label] for one in scene.nodes if label in one.metadata.labels}
    possible = any(most(scene.world, scene.members, domain=(label, one)) == len(scene.members) for one in domains)
    assert isinstance(answer, Placement) == possible
    if isinstance(answer, Placement):
        rows = {one.metadata.name: one for one in scene.nodes}
        assert len({rows[name].metadata.labels.get(label) for name in answer.nodes.values()}) == 1
        pods = {pod.metadata.uid: pod for pod in scene.members}
        assert check(scene.snapshot(), pods=pods, nodes=answer.nodes, wish=wish) == {}


@given(scene=scenes(most_members=6))
def test_check_accepts_what_was_solved(scene: Scene) -> None:
    """In whatever order the members are told: the binder does not know in which they were found."""
    answer = solve(scene.snapshot(), members=scene.members, needed=1)
    pods = {pod.metadata.uid: pod for pod in scene.members}
    nodes = placed(answer)
    by_name = dict(sorted(nodes.items()))
    assert check(scene.snapshot(), pods=pods, nodes=by_name) == {}


@given(scene=scenes(most_members=6), seed=st.integers(0, 2**16), needed=st.integers(1, 6))
def test_order_of_what_is_given_does_not_matter(scene: Scene, seed: int, needed: int) -> None:
    """The same cluster and gang give the same answer, whatever was seen first."""
    first = solve(scene.snapshot(), members=scene.members, needed=needed)
    other = scene.shuffled(seed)
    second = solve(other.snapshot(), members=other.members, needed=needed)
    assert first == second
