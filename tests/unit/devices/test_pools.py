"""Which devices there are: generations, whole pools, nodes, taints, and what is taken."""

import pytest

from services.core.devices import NO_DEMAND
from services.core.objects import Kind, NodeName
from services.core.reasons import ReasonCode
from tests.device_builders import (
    claim,
    device,
    device_class,
    gpus,
    labelled,
    request,
    resource_slice,
    result,
    taint_rule,
    template,
    user,
)
from tests.unit.devices.scene import allocated, books, devices, fits, names, refused

ONE = template("one")


def test_a_pod_without_claims_demands_nothing() -> None:
    """Most pods have no claims, and cost nothing."""
    assert devices().demand(user("a")) is NO_DEMAND


def test_each_device_serves_one_claim() -> None:
    """Two GPUs take two pods with a claim each, not three."""
    found = devices(device_class(), gpus("n1", 2), ONE)
    pods = [user(name, templates=["one"]) for name in "abc"]
    assert fits(found, "n1", *pods[:2])
    assert fits(found, "n1", *pods) is False
    taken = allocated(found, (pods[0], "n1"), (pods[1], "n1"))
    assert sorted(name for one in taken for name in names(one)) == ["n1/gpu-0", "n1/gpu-1"]


def test_equal_pods_have_one_demand() -> None:
    """Pods of a template demand the same, so that they are one class; pods of another do not."""
    found = devices(device_class(), gpus("n1", 2), ONE, template("two", request(count=2)))
    assert found.demand(user("a", templates=["one"])) is found.demand(user("b", templates=["one"]))
    assert found.demand(user("a", templates=["one"])) is not found.demand(user("c", templates=["two"]))


def test_only_the_newest_generation_counts_and_only_when_it_is_whole() -> None:
    """Case C15: devices of an old generation are gone, those of a half-published one are not there yet."""
    store = books(device_class(), ONE, resource_slice("old", [device("gpu-0"), device("gpu-1")], node="n1"))
    store.put(resource_slice("new-0", [device("gpu-0")], node="n1", generation=2, count=2))
    pods = [user(name, templates=["one"]) for name in "ab"]
    assert fits(store.snapshot(), "n1", pods[0]) is False
    store.put(resource_slice("new-1", [device("gpu-1")], node="n1", generation=2, count=2))
    assert fits(store.snapshot(), "n1", *pods)
    store.remove(Kind.RESOURCE_SLICE, resource_slice("new-1").metadata)
    assert fits(store.snapshot(), "n1", pods[0]) is False


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param([device("gpu-0"), device("gpu-0")], id="twice"),
        pytest.param(
            [device("gpu-0", consumesCounters=[{"counterSet": "no", "counters": {"x": {"value": "1"}}}])], id="counter"
        ),
        pytest.param([device("gpu-0", capacity={"memory": {"value": "a lot"}})], id="capacity"),
        pytest.param([device("gpu-0", attributes={}) | {"attributes": {"model": {"float": 1.5}}}], id="attribute"),
    ],
)
def test_a_pool_that_contradicts_itself_is_not_used(broken: list[dict[str, object]]) -> None:
    """Devices listed twice, unknown counters, and values that cannot be read hide their pool, not the others."""
    found = devices(device_class(), ONE, resource_slice("bad", broken, node="n1"), gpus("n2", 1))
    assert fits(found, "n1", user("a", templates=["one"])) is False
    assert fits(found, "n2", user("a", templates=["one"]))


def test_allocated_devices_are_taken_whoever_took_them() -> None:
    """A device in any claim's allocation is not free; admin access and gone claims leave it free."""
    store = books(device_class(), ONE, gpus("n1", 2), claim("x", results=[result("gpu-0", pool="n1")], node="n1"))
    store.put(claim("y", results=[result("gpu-1", pool="n1", adminAccess=True)], node="n1"))
    pods = [user(name, templates=["one"]) for name in "ab"]
    assert fits(store.snapshot(), "n1", *pods) is False
    assert [names(one) for one in allocated(store.snapshot(), (pods[0], "n1"))] == [["n1/gpu-1"]]
    store.remove(Kind.RESOURCE_CLAIM, claim("x").metadata)
    assert fits(store.snapshot(), "n1", *pods)


def test_a_claim_whose_status_cannot_be_read_still_holds_its_devices() -> None:
    """Unknown is never free."""
    broken = result("gpu-0", pool="n1", shareID="s", consumedCapacity={"memory": "a lot"})
    found = devices(device_class(), ONE, gpus("n1", 1), claim("x", results=[broken], node="n1"))
    assert fits(found, "n1", user("a", templates=["one"])) is False


@pytest.mark.parametrize(
    ("selector", "effect", "expected"),
    [
        (None, "NoExecute", True),
        ({}, "NoSchedule", False),
        ({}, "None", True),
        ({"pool": "n1"}, "NoExecute", False),
        ({"pool": "n2"}, "NoExecute", True),
        ({"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}, "NoSchedule", False),
        ({"device": "gpu-1"}, "NoSchedule", True),
        ({"driver": "nic.example.com"}, "NoSchedule", True),
    ],
)
def test_taint_rules_select_devices(selector: dict[str, str] | None, effect: str, expected: bool) -> None:  # noqa: FBT001
    """Case C22: a missing selector selects nothing, an empty one everything, and the effect None keeps nobody off."""
    found = devices(device_class(), ONE, gpus("n1", 1), taint_rule("r", selector, effect=effect))
    assert fits(found, "n1", user("a", templates=["one"])) is expected


def test_tolerations_are_those_of_the_request_and_go_into_the_allocation() -> None:
    """A request that tolerates a taint gets the device; eviction reads the copy of the toleration."""
    tolerated = template("tolerant", request(tolerations=[{"key": "broken", "operator": "Exists"}]))
    found = devices(device_class(), tolerated, gpus("n1", 1, taints=[{"key": "broken", "effect": "NoExecute"}]))
    (taken,) = allocated(found, (user("a", templates=["tolerant"]), "n1"))
    assert [one.key for one in taken.results[0].tolerations] == ["broken"]


def test_pools_of_several_nodes_serve_those_that_they_select() -> None:
    """Devices by node selector, for all nodes, and by device; the allocation says where it can be used."""
    terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]
    store = books(
        device_class(),
        ONE,
        resource_slice("rack", [device("r")], nodeSelector={"nodeSelectorTerms": terms}),
        resource_slice("each", [device("d", nodeName="n2")], perDeviceNodeSelection=True),
    )
    nodes = dict([labelled("n1", rack="r1"), labelled("n2"), labelled("n3")])
    found = store.snapshot(nodes=nodes)
    pod = user("a", templates=["one"])
    assert [fits(found, name, pod) for name in nodes] == [True, True, False]
    (taken,) = allocated(found, (pod, "n1"))
    assert (names(taken), taken.node) == (["rack/r"], "")
    assert b'"rack"' in taken.node_selector_json
    assert allocated(found, (pod, "n2"))[0].node == "n2"


def test_nodes_share_the_devices_of_a_pool_for_all() -> None:
    """What each of two nodes could use alone, both together cannot: the whole placement says so."""
    found = devices(device_class(), ONE, resource_slice("net", [device("d")], allNodes=True))
    pods = [user(name, templates=["one"]) for name in "ab"]
    assert fits(found, "n1", pods[0])
    assert allocated(found, (pods[0], "n1"))[0].node == ""
    assert [one.code for one in refused(found, (pods[0], "n1"), (pods[1], "n2"))] == [ReasonCode.DEVICES_INSUFFICIENT]


def test_signatures_are_equal_where_answers_are() -> None:
    """A unique uuid on every device makes no difference; another number of devices does."""
    slices = [
        resource_slice(
            f"{node}-s", [device(f"g{i}", attributes={"uuid": f"{node}{i}"}) for i in range(count)], node=node
        )
        for node, count in (("n1", 2), ("n2", 2), ("n3", 1))
    ]
    found = devices(device_class(), ONE, *slices)
    demand = found.demand(user("a", templates=["one"]))
    one, two, three = (found.signature(NodeName(name), [demand]) for name in ("n1", "n2", "n3"))
    assert one == two
    assert one != three
