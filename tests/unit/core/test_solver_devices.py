"""Members that claim devices: what the solver counts, ties together, allocates, and says where it cannot."""

import pytest

from services.core.allocations import ClaimAllocation
from services.core.inventory import Inventory
from services.core.objects import DeviceObject, Node, NodeName, Pod, Uid
from services.core.pod_devices import NO_DEVICES, ContainerResource, PodClaim, PodDevices
from services.core.reasons import ReasonCode
from services.core.solver import Placement, Refusal, check, solve
from services.core.solving.classes import classes_of
from tests import builders
from tests import device_builders as dra

NAMESPACE = "team"


def uses(*, template: str = "", claim: str = "") -> PodDevices:
    """Return one entry of a pod's spec.resourceClaims."""
    return PodDevices(claims=(PodClaim(entry="gpu", claim=claim, template=template),))


def inventory(*items: Node | DeviceObject) -> Inventory:
    """Return nodes with their devices, a class, and a template for one device."""
    known = Inventory()
    known.devices.put(dra.device_class())
    known.devices.put(dra.template("one"))
    for item in items:
        if isinstance(item, Node):
            known.put_node(item)
        else:
            known.devices.put(item)
    return known


def node(name: str, *, gpus: int = 0, cpu: int = 96_000) -> Node:
    """Return a node whose devices are told by slices alone; `gpus` are those of a device plugin."""
    return builders.node(name, gpus=gpus, cpu=cpu)


def pod(name: str, *, devices: PodDevices = NO_DEVICES, cpu: int = 0) -> Pod:
    """Return a member."""
    return builders.pod(name, namespace=NAMESPACE, gpus=0, cpu=cpu, devices=devices)


def claiming(count: int, *, name: str = "w", template: str = "one", cpu: int = 0) -> tuple[Pod, ...]:
    """Return members with a claim of their own each, made from a template."""
    return tuple(pod(f"{name}-{index}", devices=uses(template=template), cpu=cpu) for index in range(count))


def placed(known: Inventory, *members: Pod, needed: int | None = None) -> Placement:
    """Return where members go; they have to go somewhere."""
    answer = solve(known.snapshot(members), members=members, needed=len(members) if needed is None else needed)
    assert isinstance(answer, Placement), answer.reasons
    return answer


def refused(known: Inventory, *members: Pod, needed: int | None = None) -> Refusal:
    """Return why members go nowhere."""
    answer = solve(known.snapshot(members), members=members, needed=len(members) if needed is None else needed)
    assert isinstance(answer, Refusal), answer.nodes
    return answer


def devices_of(claims: tuple[ClaimAllocation, ...]) -> list[str]:
    """Return what was allocated, as pool/device."""
    return sorted(f"{one.pool}/{one.device}" for claim in claims for one in claim.results)


class TestCounting:
    """How many members the devices of nodes take."""

    def test_each_member_gets_a_device_of_its_node(self) -> None:
        """And none is given twice."""
        known = inventory(node("n1"), node("n2"), dra.gpus("n1", 2), dra.gpus("n2", 1))
        answer = placed(known, *claiming(3))
        assert devices_of(answer.claims) == ["n1/gpu-0", "n1/gpu-1", "n2/gpu-0"]
        assert all(claim.node == answer.nodes[claim.consumers[0]] for claim in answer.claims)

    def test_one_too_many_is_refused_and_counted(self) -> None:
        """The count is what could be placed; nothing is given up for."""
        known = inventory(node("n1"), node("n2"), dra.gpus("n1", 2), dra.gpus("n2", 1))
        answer = refused(known, *claiming(4))
        assert answer.placeable == 3
        assert ReasonCode.DEVICES_INSUFFICIENT in {one.code for one in answer.reasons}
        assert ReasonCode.SEARCH_BUDGET_EXHAUSTED not in {one.code for one in answer.reasons}

    def test_fewer_than_all_may_do(self) -> None:
        """As many as fit are placed where not all are needed."""
        known = inventory(node("n1"), dra.gpus("n1", 2))
        assert len(placed(known, *claiming(3), needed=2).nodes) == 2

    def test_unequal_claims_are_packed(self) -> None:
        """Two of three devices and three of two fit on two nodes of six only if they are not mixed."""
        known = inventory(
            node("n1"),
            node("n2"),
            dra.gpus("n1", 6),
            dra.gpus("n2", 6),
            dra.template("two", dra.request(count=2)),
            dra.template("three", dra.request(count=3)),
        )
        members = (*claiming(3, name="a", template="two"), *claiming(2, name="b", template="three"))
        answer = placed(known, *members)
        assert len(set(devices_of(answer.claims))) == 12

    def test_members_without_claims_leave_the_nodes_with_devices_room(self) -> None:
        """The one that needs the device goes first, wherever its name is in the order."""
        known = inventory(node("n1", cpu=1_000), node("n2", cpu=1_000), dra.gpus("n1", 1))
        answer = placed(known, pod("a", cpu=1_000), *claiming(1, name="z", cpu=1_000))
        assert answer.nodes[Uid("uid-team-z-0")] == "n1"

    def test_devices_of_the_same_root_are_chosen_together(self) -> None:
        """Four devices on two roots serve two claims for a pair on one root, and not three."""
        root = "resource.kubernetes.io/pcieRoot"
        pairs = [dra.device(f"gpu-{index}", attributes={root: f"pci{index % 2}"}) for index in range(4)]
        known = inventory(
            node("n1"),
            dra.resource_slice("n1-gpus", pairs, node="n1"),
            dra.template("pair", dra.request(count=2), constraints=[{"matchAttribute": root}]),
        )
        answer = placed(known, *claiming(2, template="pair"))
        assert sorted(devices_of((one,)) for one in answer.claims) == [
            ["n1/gpu-0", "n1/gpu-2"],
            ["n1/gpu-1", "n1/gpu-3"],
        ]
        assert refused(known, *claiming(3, template="pair")).placeable == 2

    def test_the_answer_does_not_depend_on_the_order(self) -> None:
        """Of nodes, slices or members."""
        items: list[Node | DeviceObject] = [node("n1"), node("n2"), dra.gpus("n1", 2), dra.gpus("n2", 2)]
        members = claiming(3)
        one = placed(inventory(*items), *members)
        other = placed(inventory(*reversed(items)), *reversed(members))
        assert one == other


class TestShared:
    """Claims that several members use."""

    @pytest.fixture
    def known(self) -> Inventory:
        """Return a roomy node with one device beside a small one with two, and a claim for one."""
        return inventory(
            node("small", cpu=4_000),
            node("big", cpu=12_000),
            dra.gpus("small", 2),
            dra.gpus("big", 1),
            dra.claim("shared"),
        )

    def test_all_users_go_where_the_device_is(self, known: Inventory) -> None:
        """Both fit only on one node."""
        members = [pod(f"w-{index}", devices=uses(claim="shared"), cpu=3_000) for index in range(2)]
        answer = placed(known, *members)
        assert set(answer.nodes.values()) == {"big"}
        assert [(one.ref.name, len(one.consumers)) for one in answer.claims] == [("shared", 2)]

    def test_users_that_fit_on_no_node_together_are_refused(self, known: Inventory) -> None:
        """Though there is room for each."""
        members = [pod(f"w-{index}", devices=uses(claim="shared"), cpu=3_000) for index in range(5)]
        assert refused(known, *members).placeable < 5

    def test_pairs_share_claims_each_on_a_node(self) -> None:
        """Several claims, each of two members, are not all sent to the same node."""
        nodes = [f"n{index}" for index in range(4)]
        claims = [dra.claim(f"c-{index}") for index in range(4)]
        known = inventory(*(node(one, cpu=2_000) for one in nodes), *(dra.gpus(one, 1) for one in nodes), *claims)
        members = [
            pod(f"w-{index}-{user}", devices=uses(claim=f"c-{index}"), cpu=1_000)
            for index in range(4)
            for user in range(2)
        ]
        answer = placed(known, *members)
        for index in range(4):
            assert len({answer.nodes[Uid(f"uid-team-w-{index}-{user}")] for user in range(2)}) == 1

    def test_an_allocated_claim_keeps_its_users_on_its_node(self, known: Inventory) -> None:
        """Also where there is no room."""
        known.devices.put(dra.claim("taken", results=[dra.result("gpu-0", pool="small")], node="small"))
        user = pod("w", devices=uses(claim="taken"), cpu=1_000)
        answer = placed(known, user)
        assert set(answer.nodes.values()) == {"small"}
        assert [(one.ref.name, one.results) for one in answer.claims] == [("taken", ())]
        large = refused(known, pod("w", devices=uses(claim="taken"), cpu=8_000))
        assert ReasonCode.CLAIM_NODE_MISMATCH in {one.code for one in large.reasons}


class TestNetworkDevices:
    """Devices that several nodes reach."""

    def test_they_are_given_once_over_all_nodes(self) -> None:
        """Three devices of all nodes serve three members, wherever these are."""
        nics = dra.resource_slice("nics", [dra.device(f"nic-{index}") for index in range(3)], pool="net", allNodes=True)
        known = inventory(node("n1", cpu=2_000), node("n2", cpu=2_000), nics)
        answer = placed(known, *claiming(3, cpu=1_000))
        assert devices_of(answer.claims) == ["net/nic-0", "net/nic-1", "net/nic-2"]
        over = refused(known, *claiming(4, cpu=1_000))
        assert over.placeable == 3
        some = placed(known, *claiming(4, cpu=1_000), needed=3)
        assert len(some.nodes) == len(devices_of(some.claims)) == 3


class TestExtendedResources:
    """Extended resources that a DeviceClass stands for."""

    @staticmethod
    def member(name: str) -> Pod:
        """Return a pod that requests one."""
        used = ContainerResource(index=0, position=0, container="main", resource=builders.GPU, amount=1)
        return builders.pod(name, namespace=NAMESPACE, gpus=1, devices=PodDevices(extended=(used,)))

    def test_nodes_serve_them_by_plugin_or_by_devices(self) -> None:
        """A node that advertises the resource uses its plugin, another one devices; neither counts twice."""
        known = inventory(node("plugin", gpus=1), node("dra"), dra.gpus("dra", 2), dra.gpus("plugin", 4))
        known.devices.put(dra.device_class(dra.CLASS, extendedResourceName=builders.GPU))
        members = [self.member(f"w-{index}") for index in range(3)]
        answer = placed(known, *members)
        assert sorted(answer.nodes.values()) == ["dra", "dra", "plugin"]
        assert devices_of(answer.claims) == ["dra/gpu-0", "dra/gpu-1"]
        assert all(one.extended for one in answer.claims)
        assert refused(known, *members, self.member("w-3")).placeable == 3

    def test_without_a_class_they_are_amounts(self) -> None:
        """Nodes that do not have the resource are told as such."""
        known = inventory(node("dra"), dra.gpus("dra", 2))
        answer = refused(known, self.member("w"))
        assert [one.subject for one in answer.reasons if one.code is ReasonCode.INSUFFICIENT_RESOURCE] == [builders.GPU]


class TestReasons:
    """What is told where claims cannot be met."""

    def test_what_is_missing_is_named(self) -> None:
        """Class, template and claim, each with its own code."""
        known = inventory(node("n1"), dra.gpus("n1", 1), dra.template("odd", dra.request(device_class_name="odd")))
        for devices, code in (
            (uses(template="odd"), ReasonCode.DEVICE_CLASS_NOT_FOUND),
            (uses(template="none"), ReasonCode.CLAIM_NOT_FOUND),
            (uses(claim="none"), ReasonCode.CLAIM_NOT_FOUND),
        ):
            answer = refused(known, pod("w", devices=devices))
            assert code in {one.code for one in answer.reasons}

    def test_taints_are_counted_by_device(self) -> None:
        """A rule for the pool of a node keeps both of its devices off."""
        known = inventory(node("n1"), dra.gpus("n1", 2), dra.taint_rule("broken", {"pool": "n1"}))
        answer = refused(known, *claiming(1))
        found = [one for one in answer.reasons if one.code is ReasonCode.DEVICE_TAINT_NOT_TOLERATED]
        assert [one.count for one in found] == [2]

    def test_a_pool_that_is_not_whole_is_named(self) -> None:
        """It is not used at all."""
        known = inventory(node("n1"), dra.resource_slice("n1-gpus", [dra.device("gpu-0")], node="n1", count=2))
        answer = refused(known, *claiming(1))
        assert [one.subject for one in answer.reasons if one.code is ReasonCode.DEVICE_POOL_UNUSABLE] == ["n1"]

    def test_one_faulty_selector_leaves_the_others_countable(self) -> None:
        """Its member is not placed, and the other could be."""
        faulty = 'device.attributes["gpu.example.com"].healthy'
        known = inventory(node("n1"), dra.gpus("n1", 2), dra.claim("a", dra.request("gpu", faulty)), dra.claim("b"))
        members = [pod(name, devices=uses(claim=name)) for name in ("a", "b")]
        answer = refused(known, *members)
        assert answer.placeable == 1
        [reason] = [one for one in answer.reasons if one.code is ReasonCode.SELECTOR_FAILED]
        assert all(word in reason.message for word in ("claim a", "selector 0", "gpu.example.com/n1/gpu-0", "healthy"))
        assert ReasonCode.DEVICES_INSUFFICIENT not in {one.code for one in answer.reasons}


class TestCheck:
    """The binder's look at what was promised."""

    def test_the_very_devices_have_to_be_free_still(self) -> None:
        """Somebody else may have taken one, or a rule tainted it, while another like it is free."""
        known = inventory(node("n1"), dra.gpus("n1", 3))
        members = claiming(2)
        answer = placed(known, *members)
        pods = {one.metadata.uid: one for one in members}

        def misfits() -> set[Uid]:
            found = check(known.snapshot(members), pods=pods, nodes=answer.nodes, claims=answer.claims)
            assert all(reason.code is ReasonCode.PLACEMENT_STALE for reason in found.values())
            return set(found)

        assert not misfits()
        owner = next(one.consumers[0] for one in answer.claims if one.results[0].device == "gpu-0")
        other = dra.claim("other", results=[dra.result("gpu-0", pool="n1")], node="n1")
        known.devices.put(other)
        assert misfits() == {owner}
        known.devices.remove(other.kind, other.metadata)
        known.devices.put(dra.taint_rule("broken", {"device": "gpu-0"}))
        assert misfits() == {owner}

    def test_a_device_that_is_promised_twice_is_found(self) -> None:
        """Whoever wrote the placement."""
        known = inventory(node("n1"), dra.gpus("n1", 2))
        members = claiming(2)
        answer = placed(known, *members)
        first, second = answer.claims
        twice = (
            first,
            ClaimAllocation(ref=second.ref, consumers=second.consumers, results=first.results, node=NodeName("n1")),
        )
        pods = {one.metadata.uid: one for one in members}
        assert set(check(known.snapshot(members), pods=pods, nodes=answer.nodes, claims=twice)) == set(second.consumers)


def test_two_gangs_on_one_snapshot_do_not_share_devices() -> None:
    """What the first was given is taken for the second."""
    known = inventory(node("n1"), node("n2"), dra.gpus("n1", 2), dra.gpus("n2", 1))
    first, second = claiming(2, name="a"), claiming(2, name="b")
    snapshot = known.snapshot((*first, *second))
    one = solve(snapshot, members=first, needed=2)
    assert isinstance(one, Placement)
    assert isinstance(solve(snapshot, members=second, needed=2), Refusal)
    rest = solve(snapshot, members=second[:1], needed=1)
    assert isinstance(rest, Placement)
    assert not set(devices_of(one.claims)) & set(devices_of(rest.claims))


def test_claims_of_unequal_names_and_equal_contents_are_one_class() -> None:
    """A gang whose members name a claim each is as cheap as one with a template; one that two share stays one."""
    known = inventory(node("n1"), dra.gpus("n1", 3), *(dra.claim(f"c-{index}") for index in range(2)))
    members = [
        pod(f"w-{index}", devices=PodDevices(claims=(PodClaim(entry="gpu", claim=f"c-{index}"),))) for index in range(2)
    ]
    assert {one.ref.name for one in placed(known, *members).claims} == {"c-0", "c-1"}
    snapshot = known.snapshot()
    sharing = pod("w-2", devices=uses(claim="c-1"))
    for pods, count in ((members, 1), ((*members, sharing), 2)):
        classes = classes_of(pods, snapshot=snapshot, excluded_nodes={}, subgroups={})
        assert len(classes) == count
