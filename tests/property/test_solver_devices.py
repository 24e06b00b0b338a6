"""Claims of devices on small clusters: nothing twice, the check agrees, and no order matters."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from services.core.inventory import Inventory
from services.core.objects import DeviceObject, Node, Pod
from services.core.pod_devices import PodClaim, PodDevices
from services.core.solver import Placement, Refusal, check, solve
from tests import builders
from tests import device_builders as dra

NAMESPACE = "team"
ROOT = "resource.kubernetes.io/pcieRoot"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Nodes and device objects, and some gangs that come one after the other."""

    nodes: tuple[Node, ...]
    objects: tuple[DeviceObject, ...]
    gangs: tuple[tuple[Pod, ...], ...]

    def inventory(self, *, is_reversed: bool = False) -> Inventory:
        """Return what is known when all was seen, in this order or the other."""
        known = Inventory()
        step = -1 if is_reversed else 1
        for node in self.nodes[::step]:
            known.put_node(node)
        for item in self.objects[::step]:
            known.devices.put(item)
        return known


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw up to three nodes with up to four devices on two roots, some of them of a network, and up to three gangs."""
    names = [f"n{index}" for index in range(draw(st.integers(1, 3)))]
    nodes = tuple(builders.node(name, gpus=0, cpu=draw(st.integers(1, 4)) * 1_000) for name in names)
    objects = [
        dra.device_class(),
        dra.template("one"),
        dra.template("two", dra.request(count=2)),
        dra.template("pair", dra.request(count=2), constraints=[{"matchAttribute": ROOT}]),
        dra.claim("shared"),
    ]
    for name in names:
        roots = draw(st.lists(st.sampled_from(["a", "b"]), max_size=4))
        devices = [dra.device(f"gpu-{index}", attributes={ROOT: root}) for index, root in enumerate(roots)]
        if devices:
            objects.append(dra.resource_slice(f"{name}-gpus", devices, node=name))
    if draw(st.booleans()):
        nics = [dra.device(f"nic-{index}") for index in range(draw(st.integers(1, 2)))]
        objects.append(dra.resource_slice("nics", nics, pool="net", allNodes=True))
    if draw(st.booleans()):
        objects.append(dra.taint_rule("broken", {"device": "gpu-0"}))
    kinds = st.sampled_from(["one", "two", "pair", "shared", ""])
    gangs = tuple(
        tuple(_member(f"g{number}-{index}", draw(kinds)) for index in range(draw(st.integers(1, 4))))
        for number in range(draw(st.integers(1, 3)))
    )
    return World(nodes=nodes, objects=tuple(objects), gangs=gangs)


def _member(name: str, kind: str) -> Pod:
    claim = PodClaim(entry="gpu", claim="shared" if kind == "shared" else "", template="" if kind == "shared" else kind)
    devices = PodDevices(claims=(claim,)) if kind else PodDevices()
    return builders.pod(name, namespace=NAMESPACE, gpus=0, cpu=500, devices=devices)


@given(world=worlds())
def test_no_device_is_given_twice_and_the_check_agrees(world: World) -> None:
    """Gang after gang on one snapshot; whoever is placed has all that it claims, and passes the check beside nobody."""
    known = world.inventory()
    snapshot = known.snapshot(pod for gang in world.gangs for pod in gang)
    taken: Counter[tuple[str, str]] = Counter()
    for gang in world.gangs:
        answer = solve(snapshot, members=gang, needed=1)
        if isinstance(answer, Refusal):
            continue
        mine = [(one.pool, one.device) for claim in answer.claims for one in claim.results]
        taken.update(mine)
        assert max(taken.values(), default=0) <= 1
        served = {uid for claim in answer.claims for uid in claim.consumers}
        assert {pod.metadata.uid for pod in gang if pod.devices.claims and pod.metadata.uid in answer.nodes} == served
        for claim in answer.claims:
            assert not claim.node or {answer.nodes[uid] for uid in claim.consumers} == {claim.node}
        known_to_all = world.inventory().snapshot(gang)
        pods = {pod.metadata.uid: pod for pod in gang}
        # A claim that an earlier gang shares was allocated for it, and has no devices of its own here.
        fresh = [claim for claim in answer.claims if claim.results]
        if len(fresh) == len(answer.claims):
            assert not check(known_to_all, pods=pods, nodes=answer.nodes, claims=answer.claims)


@given(world=worlds())
def test_the_order_of_what_is_seen_does_not_matter(world: World) -> None:
    """Nodes, device objects and members in the other order give the same answer."""
    for gang in world.gangs:
        one = solve(world.inventory().snapshot(gang), members=gang, needed=len(gang))
        other = solve(world.inventory(is_reversed=True).snapshot(gang), members=gang[::-1], needed=len(gang))
        if isinstance(one, Placement):
            assert one == other
        else:
            assert isinstance(other, Refusal)
            assert (one.placeable, one.reasons) == (other.placeable, other.reasons)


@given(world=worlds())
def test_what_all_can_have_some_can_have(world: World) -> None:
    """Needing fewer never places fewer."""
    gang = world.gangs[0]
    whole = solve(world.inventory().snapshot(gang), members=gang, needed=len(gang))
    part = solve(world.inventory().snapshot(gang), members=gang, needed=1)
    if isinstance(whole, Placement):
        assert isinstance(part, Placement)
        assert len(part.nodes) == len(gang)
