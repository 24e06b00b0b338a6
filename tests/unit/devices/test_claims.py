"""Claims of pods: own, shared, of groups, with devices already, of extended resources; and those that cannot be had."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceId, ExtendedRequest
from services.core.devices import DeviceBooks
from services.core.objects import DeviceObject, Kind, Metadata, Node, NodeName, Pod, PodGroup, Uid
from services.core.pod_devices import ContainerResource, PodClaim, PodDevices
from services.core.reasons import ReasonCode
from tests.device_builders import (
    claim,
    device,
    device_class,
    gpus,
    request,
    resource_slice,
    result,
    template,
    user,
)
from tests.unit.devices.scene import allocated, books, devices, fits, names, refused

ONE = template("one")
NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("item", "code", "says"),
    [
        (None, ReasonCode.CLAIM_NOT_FOUND, "does not exist"),
        (claim("c", request(device_class_name="nope")), ReasonCode.DEVICE_CLASS_NOT_FOUND, "'nope'"),
        (claim("c", request("gpu", "device.name == 'x'")), ReasonCode.SELECTOR_NOT_SUPPORTED, "selector 0"),
        (claim("c", request(count=33)), ReasonCode.CLAIM_LIMIT_EXCEEDED, "33 devices"),
        (claim("c", request("a", count=20), request("b", count=20)), ReasonCode.CLAIM_LIMIT_EXCEEDED, "40 devices"),
        (claim("c", deleted_at=NOW), ReasonCode.CLAIM_NOT_FOUND, "being deleted"),
        (claim("c", request(allocationMode="Some")), ReasonCode.UNREADABLE_FIELD, "allocationMode"),
        (claim("c", request(count=2**70)), ReasonCode.CLAIM_LIMIT_EXCEEDED, "devices"),
        (claim("c", constraints=[{"matchAttribute": "model"}]), ReasonCode.UNREADABLE_FIELD, "domain"),
        (claim("c", {"name": "gpu"}), ReasonCode.UNREADABLE_FIELD, "exactly"),
        (
            claim("c", results=[result("gpu-0", pool="n1")], consumers=[f"u{number}" for number in range(256)]),
            ReasonCode.CLAIM_LIMIT_EXCEEDED,
            "257 consumers",
        ),
    ],
)
def test_a_claim_that_cannot_be_had_is_a_reason(item: DeviceObject | None, code: ReasonCode, says: str) -> None:
    """Each names the claim and what is wrong with it; nothing fails, and nothing is placed."""
    store = books(device_class(), gpus("n1", 2))
    if item is not None:
        store.put(item)
    found = store.snapshot()
    pod = user("a", "c")
    (problem,) = found.demand(pod).problems
    assert problem.code is code
    assert says in problem.message
    assert fits(found, "n1", pod) is False
    assert refused(found, (pod, "n1")) == (problem,)


def test_a_selector_that_fails_says_where() -> None:
    """Case C18: claim, selector, device and the missing key; another claim is unaffected."""
    healthy = template("healthy", request("gpu", 'device.attributes["gpu.example.com"].healthy'))
    slices = [
        resource_slice("s1", [device("gpu-0", attributes={"healthy": True})], node="n1"),
        resource_slice("s2", [device("gpu-0", attributes={"model": "x"})], node="n2"),
    ]
    store = books(device_class(), ONE, healthy, *slices)
    (problem,) = store.snapshot().demand(user("a", templates=["healthy"])).problems
    assert problem.code is ReasonCode.SELECTOR_FAILED
    assert all(word in problem.message for word in ("healthy", "selector 0", "gpu.example.com/n2/gpu-0"))
    assert fits(store.snapshot(), "n1", user("b", templates=["one"]))
    store.remove(Kind.RESOURCE_SLICE, slices[1].metadata)
    assert fits(store.snapshot(), "n1", user("a", templates=["healthy"]))


def test_a_claim_of_a_template_is_planned_before_it_is_made() -> None:
    """From the template first; then by the claim that its pod owns, and by nobody else's."""
    store = books(device_class(), gpus("n1", 1), ONE)
    pod = user("a", templates=["one"])
    (taken,) = allocated(store.snapshot(), (pod, "n1"))
    assert taken.ref == ClaimRef(namespace="team", pod=Uid("a"), entry="one")
    made = {"resource.kubernetes.io/pod-claim-name": "one"}
    store.put(claim("a-one-x", owner="a", annotations=made))
    (taken,) = allocated(store.snapshot(), (pod, "n1"))
    assert taken.ref == ClaimRef(namespace="team", name="a-one-x", uid=Uid("claim-a-one-x"), pod=Uid("a"), entry="one")
    named = PodDevices(claims=(PodClaim(entry="one", template="one", claim="b-one-y"),))
    store.put(claim("b-one-y", owner="b", annotations=made))
    (problem,) = store.snapshot().demand(_with(pod, named)).problems
    assert problem.code is ReasonCode.CLAIM_NOT_FOUND


def test_an_entry_that_needs_no_claim_is_none() -> None:
    """A status entry without a name says that the template asks for nothing."""
    unneeded = PodDevices(claims=(PodClaim(entry="one", template="one", is_unneeded=True),))
    found = devices(device_class())
    assert found.demand(_with(user("a"), unneeded)).claims == ()


def test_members_share_a_claim_and_its_one_node() -> None:
    """Case C20: one device serves both, on one node; on two nodes they cannot be."""
    found = devices(device_class(), gpus("n1", 1), gpus("n2", 1), claim("shared"))
    pods = [user(name, "shared") for name in "ab"]
    assert fits(found, "n1", *pods)
    demand = found.demand(pods[0])
    assert demand is found.demand(pods[1])
    assert found.ties(demand) == (("team", "shared", ""),)
    (taken,) = allocated(found, *((pod, "n1") for pod in pods))
    assert taken.consumers == ("a", "b")
    assert taken.node == "n1"
    assert [one.code for one in refused(found, (pods[0], "n1"), (pods[1], "n2"))] == [ReasonCode.DEVICES_INSUFFICIENT]


def test_members_share_a_claim_on_the_network() -> None:
    """A device for all nodes ties nobody."""
    found = devices(device_class(), resource_slice("net", [device("d")], allNodes=True), claim("shared"))
    pods = [user(name, "shared") for name in "ab"]
    assert found.ties(found.demand(pods[0])) == ()
    (taken,) = allocated(found, (pods[0], "n1"), (pods[1], "n2"))
    assert (taken.consumers, taken.node, taken.node_selector_json) == (("a", "b"), "", b"")


def test_a_claim_with_devices_pins_its_pods() -> None:
    """An idle allocated claim: its pod goes where the devices are, also to a node that has none left."""
    held = claim("held", results=[result("gpu-0", pool="n1")], node="n1", consumers=["z"])
    found = devices(device_class(), gpus("n1", 1), gpus("n2", 1), held)
    pod = user("a", "held")
    assert found.admits(found.demand(pod)) == ("n1",)
    assert [fits(found, node, pod) for node in ("n1", "n2")] == [True, False]
    (taken,) = allocated(found, (pod, "n1"))
    assert (taken.results, taken.consumers) == ((), ("a",))
    assert [one.code for one in refused(found, (pod, "n2"))] == [ReasonCode.CLAIM_NODE_MISMATCH]


def test_devices_that_are_gone_are_nobodys() -> None:
    """An allocation to a device or pool that does not exist any more takes nothing, and breaks nothing."""
    held = claim("held", results=[result("gone", pool="n1"), result("d", pool="nowhere")], node="n1")
    assert fits(devices(device_class(), ONE, gpus("n1", 1), held), "n1", user("a", templates=["one"]))


def test_a_group_owns_a_claim_for_all_its_pods() -> None:
    """Equal entries of pod and group mean one claim, once it is made; its consumer is the group, for 300 pods too."""
    store = books(device_class(), gpus("n1", 1), ONE, claim("g-one"))
    metadata = Metadata(name="g", namespace="team")
    store.put_group(PodGroup(metadata=metadata, claims=(PodClaim(entry="one", template="one"),)))
    pods = [user(f"p{number}", templates=["one"], group="g") for number in range(300)]
    [problem] = store.snapshot().demand(pods[0]).problems
    assert problem.code is ReasonCode.CLAIM_NOT_FOUND
    store.put_group(PodGroup(metadata=metadata, claims=(PodClaim(entry="one", template="one", claim="g-one"),)))
    assert fits(store.snapshot(), "n1", *pods)
    (taken,) = allocated(store.snapshot(), *((pod, "n1") for pod in pods))
    assert taken.is_of_group
    assert (taken.ref.name, taken.ref.pod, len(taken.consumers)) == ("g-one", "", 300)
    assert fits(store.snapshot(), "n1", user("a", templates=["one"]), user("b", templates=["one"])) is False
    store.remove_group(Metadata(name="g", namespace="team"))
    assert fits(store.snapshot(), "n1", *pods[:2]) is False


def test_a_promise_holds_devices_until_the_stream_shows_them() -> None:
    """Held, then allocated in the stream, then released: never counted twice, never free in between."""
    store = books(device_class(), gpus("n1", 2), ONE)
    first, second, third = (user(name, templates=["one"]) for name in "abc")
    (promise,) = allocated(store.snapshot(), (first, "n1"))
    store.hold(promise)
    assert fits(store.snapshot(), "n1", second)
    assert fits(store.snapshot(), "n1", second, third) is False
    assert fits(store.snapshot(without={Uid("a")}), "n1", second, third)
    assert not store.has(promise)
    made = claim(
        "a-one",
        owner="a",
        annotations={"resource.kubernetes.io/pod-claim-name": "one"},
        results=[result("gpu-0", pool="n1")],
        node="n1",
    )
    store.put(made)
    assert store.has(promise)
    assert fits(store.snapshot(), "n1", second, third) is False
    store.release(promise.ref)
    assert fits(store.snapshot(), "n1", second)
    assert fits(store.snapshot(), "n1", second, third) is False
    store.remove(Kind.RESOURCE_CLAIM, made.metadata)
    assert fits(store.snapshot(), "n1", second, third)


def test_a_claim_that_is_promised_pins_late_members() -> None:
    """Who joins a shared claim of an open transaction goes where its devices will be."""
    store = books(device_class(), gpus("n1", 1), gpus("n2", 1), claim("shared"))
    (promise,) = allocated(store.snapshot(), (user("a", "shared"), "n2"))
    store.hold(promise)
    late = user("b", "shared")
    assert store.snapshot().admits(store.snapshot().demand(late)) == ("n2",)
    (taken,) = allocated(store.snapshot(), (late, "n2"))
    assert taken.results == ()


def test_decisions_of_a_round_see_each_other() -> None:
    """What is taken is not free for the next; books and earlier snapshots stay as they are."""
    store = books(device_class(), gpus("n1", 1), ONE)
    found, other = store.snapshot(), store.snapshot()
    found.take(allocated(found, (user("a", templates=["one"]), "n1")))
    assert fits(found, "n1", user("b", templates=["one"])) is False
    assert fits(other, "n1", user("b", templates=["one"]))
    assert fits(store.copy().snapshot(), "n1", user("b", templates=["one"]))


def test_copies_of_books_are_apart() -> None:
    """A what-if changes nothing of what is followed."""
    store = books(device_class(), gpus("n1", 1), ONE)
    twin = store.copy()
    twin.remove(Kind.RESOURCE_SLICE, gpus("n1", 1).metadata)
    twin.remove(Kind.DEVICE_CLASS, device_class().metadata)
    assert fits(store.snapshot(), "n1", user("a", templates=["one"]))
    assert fits(twin.snapshot(), "n1", user("a", templates=["one"])) is False


def test_partitions_share_the_counters_of_their_device() -> None:
    """Case C16: of what a used partition leaves, one more fits, and the whole device does not."""
    sets = resource_slice(
        "counters",
        node="n1",
        count=2,
        sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}}],
    )

    def part(name: str, kind: str, memory: str, slices: int) -> dict[str, object]:
        uses = [{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}, "slices": {"value": str(slices)}}}]
        return device(name, attributes={"type": kind}, consumesCounters=uses)

    parts = [part("full", "gpu", "80Gi", 7), *(part(f"mig-{letter}", "mig", "40Gi", 3) for letter in "abc")]
    own = 'device.attributes["gpu.example.com"].type == '
    store = books(
        device_class("full", f'{own}"gpu"'),
        device_class("mig", f'{own}"mig"'),
        sets,
        resource_slice("parts", parts, node="n1", count=2),
        template("full", request(device_class_name="full")),
        template("mig", request(device_class_name="mig")),
        claim("used", request(device_class_name="mig"), results=[result("mig-a", pool="n1")], node="n1"),
    )
    one, two, full = user("a", templates=["mig"]), user("b", templates=["mig"]), user("c", templates=["full"])
    found = store.snapshot()
    assert [fits(found, "n1", *pods) for pods in ([one], [one, two], [full])] == [True, False, False]
    assert names(allocated(found, (one, "n1"))[0]) == ["n1/mig-b"]


def test_shares_of_a_device_are_rounded_and_counted() -> None:
    """A request is rounded up to the policy's step; each share says what it consumes."""
    policy = {"default": "8Gi", "validRange": {"min": "8Gi", "max": "40Gi", "step": "8Gi"}}
    shareable = device(
        "gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi", "requestPolicy": policy}}
    )
    store = books(
        device_class(),
        resource_slice("s", [shareable], node="n1"),
        template("nine", request(capacity={"requests": {"memory": "9Gi"}})),
        template("any", request()),
        claim("used", results=[result("gpu-0", pool="n1", shareID="x", consumedCapacity={"memory": "8Gi"})], node="n1"),
    )
    found = store.snapshot()
    nine, other, two = user("a", templates=["nine"]), user("b", templates=["any"]), user("c", templates=["any"])
    assert fits(found, "n1", nine, other, two)
    assert fits(found, "n1", nine, user("d", templates=["nine"]), other) is False
    taken = allocated(found, (nine, "n1"), (other, "n1"))
    assert [one.results[0].consumed for one in taken] == [(("memory", "16Gi"),), (("memory", "8Gi"),)]
    assert all(one.results[0].is_share for one in taken)


def _uses(*rows: tuple[int, str, int, bool]) -> tuple[ContainerResource, ...]:
    return tuple(
        ContainerResource(
            index=index, position=1, container=f"c{index}", resource=resource, amount=amount, is_initial=is_initial
        )
        for index, resource, amount, is_initial in rows
    )


def test_extended_resources_become_a_claim_where_no_plugin_serves_them() -> None:
    """By a class's name for it, explicit or implicit; a node that advertises the resource is left to its plugin."""
    nodes = {
        NodeName("n1"): Node(metadata=Metadata(name="n1")),
        NodeName("n2"): Node(metadata=Metadata(name="n2"), allocatable={"example.com/gpu": 8}),
    }
    store = books(device_class(extendedResourceName="example.com/gpu"), gpus("n1", 2))
    pod = user("a", extended=_uses((0, "example.com/gpu", 2, False)))
    found = store.snapshot(nodes=nodes)
    assert found.demand(pod).extended == {"example.com/gpu"}
    assert [fits(found, name, pod) for name in ("n1", "n2")] == [True, True]
    (taken,) = allocated(found, (pod, "n1"))
    expected = ExtendedRequest(
        name="container-0-request-1", container="c0", resource="example.com/gpu", device_class="gpu", count=2
    )
    assert taken.extended == (expected,)
    assert taken.ref == ClaimRef(namespace="team", pod=Uid("a"))
    assert found.allocate([(pod, NodeName("n2"))]) == ()
    implicit = user("b", extended=_uses((0, "deviceclass.resource.kubernetes.io/gpu", 3, False)))
    assert fits(found, "n1", implicit) is False
    unknown = user("c", extended=_uses((0, "example.com/other", 1, False)))
    assert not found.demand(unknown).claims


def test_init_containers_use_the_devices_of_those_that_run_later() -> None:
    """Only what is missing is asked for, and once for all init containers."""
    store = books(device_class(extendedResourceName="example.com/gpu"), gpus("n1", 5))
    rows = _uses((0, "example.com/gpu", 3, True), (1, "example.com/gpu", 4, True), (2, "example.com/gpu", 2, False))
    (taken,) = allocated(store.snapshot(), (user("a", extended=rows), "n1"))
    assert [(one.name, one.container, one.count) for one in taken.extended] == [
        ("container-2-request-1", "c2", 2),
        ("container-2-request-1", "c0", 0),
        ("container-2-request-1", "c1", 0),
        ("container-1-request-1", "c1", 2),
        ("container-1-request-1", "c0", 0),
    ]
    assert [one.request for one in taken.results] == ["container-1-request-1"] * 2 + ["container-2-request-1"] * 2


def test_the_newest_class_stands_for_a_resource() -> None:
    """Of two classes that name the same, the one made later; of equally old ones the first by name."""
    older, newer = (device_class(name, extendedResourceName="example.com/gpu") for name in ("a", "b"))
    store = DeviceBooks()
    store.put(older)
    store.put(newer)
    assert store.claims.class_for("example.com/gpu") == "a"
    late = Metadata(name="b", created_at=NOW + timedelta(days=1), resource_version="2")
    store.put(replace(newer, metadata=late))
    assert store.claims.class_for("example.com/gpu") == "b"


def _with(pod: Pod, wanted: PodDevices) -> Pod:
    return replace(pod, devices=wanted)


def test_excluded_devices_are_nobodys() -> None:
    """What collided, or never got ready, is not chosen again; one that is gone excludes nothing."""
    store = books(device_class(), gpus("n1", 2), ONE)
    lost = [DeviceId(driver="gpu.example.com", pool=pool, device="gpu-0") for pool in ("n1", "n9")]
    found = store.snapshot(excluded=lost)
    pods = [user(name, templates=["one"]) for name in "ab"]
    assert names(allocated(found, (pods[0], "n1"))[0]) == ["n1/gpu-1"]
    assert fits(found, "n1", *pods) is False
    assert fits(store.snapshot(), "n1", *pods)


def test_binding_conditions_go_into_the_allocation() -> None:
    """Whoever binds waits for them; pools that have any are tried last."""
    conditions: dict[str, Any] = {
        "bindingConditions": ["ready"],
        "bindingFailureConditions": ["failed"],
        "bindsToNode": True,
    }
    slow = resource_slice("slow", [device("d", **conditions)], pool="a-slow", allNodes=True)
    found = devices(device_class(), slow, resource_slice("quick", [device("d")], pool="z-quick", allNodes=True), ONE)
    first, second = allocated(found, *((user(name, templates=["one"]), "n1") for name in "ab"))
    assert (names(first), first.node) == (["z-quick/d"], "")
    assert (names(second), second.node) == (["a-slow/d"], "n1")
    assert second.results[0].binding_conditions == ("ready",)
    assert second.results[0].binding_failure_conditions == ("failed",)


def test_allocations_are_values() -> None:
    """What is allocated compares by value, so that the same decision is the same."""
    store = books(device_class(), gpus("n1", 3), ONE)
    pods = [(user(name, templates=["one"]), "n1") for name in "cab"]
    first = allocated(store.snapshot(), *pods)
    assert first == allocated(store.copy().snapshot(), *reversed(pods))
    assert all(isinstance(one, ClaimAllocation) for one in first)
