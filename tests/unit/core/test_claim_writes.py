"""What is written into a claim next, judged by the claim as it was read last."""

from typing import Any

import pytest

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceId, DeviceResult, DeviceToleration
from services.core.claim_bodies import FINALIZER, allocation_body
from services.core.claim_writes import (
    HELD,
    Await,
    Deal,
    Done,
    Mark,
    WriteStatus,
    collisions,
    device_states,
    next_to_free,
    next_to_hold,
    shared_devices,
)
from services.core.decisions import Assignment
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import ReasonCode
from services.core.transaction_values import ClaimTarget, ClaimVerdict, FreeTarget

T = TransactionId("t1")
DEAL = Deal(transaction=T, gang=GangId("podgroup/team-a/train"), classes={}, now="2026-01-01T00:00:00Z")
MEMBER = Assignment(pod="m-0", uid=Uid("u-m-0"), node=NodeName("n1"))
GPU = DeviceResult(request="gpu", driver="d", pool="n1", device="gpu-0")
ENTRY = {"resource": "pods", "name": "m-0", "uid": "u-m-0"}

Body = dict[str, Any]


def claim(*, status: Body | None = None, transaction: str = "", spec: Body | None = None, **metadata: Any) -> Body:
    """A claim as the API server has it."""
    marks = {"annotations": {"phalanx.dev/transaction": transaction}, "finalizers": [FINALIZER]} if transaction else {}
    identity = {"name": "c", "namespace": "team-a", "uid": "uid-c", "resourceVersion": "7"}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]
    return {
        "metadata": identity | marks | metadata,
        "spec": spec or {"devices": {"requests": requests}},
        "status": status or {},
    }


def held_by(*entries: Body, device: str = "gpu-0") -> Body:
    """A status with a device and consumers."""
    result = {"request": "gpu", "driver": "d", "pool": "n1", "device": device}
    return {"allocation": {"devices": {"results": [result]}}, "reservedFor": list(entries)}


def target(*results: DeviceResult, is_movable: bool = True, **ref: Any) -> ClaimTarget:
    """A claim that a member is to use."""
    allocation = ClaimAllocation(
        ref=ClaimRef(namespace="team-a", name="c", **ref), consumers=(MEMBER.uid,), results=results, node=MEMBER.node
    )
    return ClaimTarget(key="c", allocation=allocation, consumers=(MEMBER,), is_movable=is_movable)


def hold(given: Body | None, wanted: ClaimTarget) -> Any:
    """The next step towards holding."""
    return next_to_hold(given, target=wanted, name="c", deal=DEAL)


def code_of(step: Any) -> ReasonCode | None:
    """Why it was refused."""
    assert isinstance(step, Done), step
    assert step.answer.verdict is ClaimVerdict.REFUSED
    return step.answer.reason.code if step.answer.reason else None


def test_marks_come_first_then_devices_and_consumers_in_one_write() -> None:
    """Each fenced by uid and version."""
    mark = hold(claim(finalizers=["other"]), target(GPU))
    assert mark == Mark(
        body={
            "metadata": {
                "uid": "uid-c",
                "resourceVersion": "7",
                "finalizers": ["other", FINALIZER],
                "annotations": {"phalanx.dev/transaction": "t1"},
            }
        }
    )
    write = hold(claim(transaction="t1"), target(GPU))
    assert isinstance(write, WriteStatus)
    assert write.body["metadata"] == {"uid": "uid-c", "resourceVersion": "7"}
    assert write.body["status"]["reservedFor"] == [ENTRY]
    assert write.body["status"]["allocation"]["allocationTimestamp"] == DEAL.now


def test_what_is_there_already_is_held() -> None:
    """So a repeated write ends where the first one did."""
    assert hold(claim(transaction="t1", status=held_by(ENTRY)), target(GPU)) == HELD


def test_a_claim_that_does_not_exist_is_waited_for() -> None:
    """Its controller may be about to make it."""
    assert isinstance(hold(None, target(GPU)), Await)


def test_devices_of_an_earlier_round_are_cleared_with_their_consumers() -> None:
    """An allocation is written once; it can only be cleared."""
    before = claim(transaction="t1", status=held_by(ENTRY, device="gpu-9"))
    step = hold(before, target(GPU))
    assert isinstance(step, WriteStatus)
    assert step.body["status"] == {"allocation": None, "reservedFor": None}
    assert code_of(hold(before, target(GPU, is_movable=False))) is ReasonCode.CLAIM_CHANGED
    stranger = {"resource": "pods", "name": "x", "uid": "u-x"}
    shared = claim(transaction="t1", status=held_by(ENTRY, stranger, device="gpu-9"))
    assert code_of(hold(shared, target(GPU))) is ReasonCode.CLAIM_CHANGED


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (claim(), target(GPU, uid=Uid("another"))),
        (claim(deletionTimestamp="2026-01-01T00:00:00Z"), target(GPU)),
        (
            claim(ownerReferences=[{"kind": "Pod", "name": "m-1", "uid": "u-m-1", "controller": True}]),
            target(GPU, pod=MEMBER.uid, entry="own"),
        ),
        (claim(status=held_by()), target(GPU)),
        (claim(transaction="t0", status=held_by()), target(GPU)),
        (claim(), target()),
    ],
    ids=["another claim", "being deleted", "another pod's", "allocated by others", "another transaction's", "freed"],
)
def test_a_claim_that_is_not_as_it_was_planned_for_is_refused(given: Body, wanted: ClaimTarget) -> None:
    """Nothing is written into it."""
    assert code_of(hold(given, wanted)) is ReasonCode.CLAIM_CHANGED


def test_the_256th_consumer_is_the_last() -> None:
    """The API takes no more, and would refuse all of them."""
    entries = [{"resource": "pods", "name": f"x{number}", "uid": f"u-x{number}"} for number in range(256)]
    assert code_of(hold(claim(status=held_by(*entries)), target())) is ReasonCode.CLAIM_REFUSED
    step = hold(claim(status=held_by(*entries[1:])), target())
    assert isinstance(step, WriteStatus)
    assert len(step.body["status"]["reservedFor"]) == 256


def test_a_claim_of_a_group_has_the_group_for_its_consumer() -> None:
    """However many members it has."""
    owner = {"kind": "PodGroup", "name": "train", "uid": "u-g", "controller": True}
    allocation = ClaimAllocation(
        ref=ClaimRef(namespace="team-a", name="c"), consumers=(MEMBER.uid,), results=(GPU,), is_of_group=True
    )
    wanted = ClaimTarget(key="c", allocation=allocation, consumers=(MEMBER,), is_movable=True)
    step = hold(claim(transaction="t1", ownerReferences=[owner]), wanted)
    assert isinstance(step, WriteStatus)
    assert step.body["status"]["reservedFor"] == [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "u-g"}
    ]
    assert code_of(hold(claim(), wanted)) is ReasonCode.CLAIM_CHANGED


def test_a_claim_of_another_transaction_that_is_used_as_it_is_is_touched() -> None:
    """Whoever would free it, as left over, meets a conflict."""
    step = hold(claim(transaction="t0", status=held_by(ENTRY)), target())
    assert isinstance(step, Mark)
    marks = {"phalanx.dev/transaction": "t0", **step.body["metadata"]["annotations"]}
    assert hold(claim(status=held_by(ENTRY), annotations=marks), target()) == HELD


def free(given: Body | None) -> Any:
    """The next step towards freeing."""
    allocation = ClaimAllocation(ref=ClaimRef(namespace="team-a", name="c"), consumers=(MEMBER.uid,), results=(GPU,))
    return next_to_free(given, target=FreeTarget(key="c", allocation=allocation, leaving=(MEMBER,)), transaction=T)


def test_freeing_clears_the_status_and_takes_the_marks_off_last() -> None:
    """So a write of before that arrives later meets a conflict."""
    clear = free(claim(transaction="t1", status=held_by(ENTRY)))
    assert clear.body["status"] == {"allocation": None, "reservedFor": None}
    last = free(claim(transaction="t1"))
    assert last.body["metadata"]["finalizers"] is None
    assert last.body["metadata"]["annotations"] == {"phalanx.dev/transaction": None}
    assert free(claim()) == HELD
    assert free(None) == HELD


def test_freeing_leaves_others_their_devices() -> None:
    """Where others use the claim, or others allocated it, our members' reservations alone are taken off."""
    other = {"resource": "pods", "name": "m-1", "uid": "u-m-1"}
    step = free(claim(transaction="t1", status=held_by(ENTRY, other)))
    assert step.body["status"] == {"reservedFor": [other]}
    step = free(claim(status=held_by(ENTRY)))
    assert step.body["status"] == {"reservedFor": None}
    assert free(claim(status=held_by(other))) == HELD


def test_the_allocation_says_all_that_the_kubelet_and_the_eviction_read() -> None:
    """Tolerations, conditions, shares and configuration are copied; what is for all requests names none."""
    toleration = DeviceToleration(key="k", operator="Exists", effect="NoExecute", seconds=60)
    result = DeviceResult(
        request="gpu/small",
        driver="d",
        pool="p",
        device="x",
        is_share=True,
        consumed=(("memory", "1Gi"),),
        tolerations=(toleration,),
        binding_conditions=("ready",),
        binding_failure_conditions=("failed",),
    )
    spec = {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "firstAvailable": [
                        {"name": "big", "deviceClassName": "bigs"},
                        {"name": "small", "deviceClassName": "smalls"},
                    ],
                },
                {"name": "net", "exactly": {"deviceClassName": "nets"}},
            ],
            "config": [
                {"requests": ["gpu/big"], "opaque": {"driver": "d", "parameters": {"a": 1}}},
                {"requests": ["net"], "opaque": {"driver": "d", "parameters": {"b": 1}}},
                {"requests": ["gpu", "net"], "opaque": {"driver": "d", "parameters": {"c": 1}}},
            ],
        }
    }
    classes = {"smalls": {"spec": {"config": [{"opaque": {"driver": "d", "parameters": {"s": 1}}}]}}}
    net = DeviceResult(request="net", driver="d", pool="p", device="y")
    allocation = ClaimAllocation(
        ref=ClaimRef(namespace="team-a", name="c"), consumers=(MEMBER.uid,), results=(result, net), node=NodeName("n1")
    )
    body = allocation_body(claim(spec=spec), allocation, transaction=T, classes=classes, now=DEAL.now)
    first = body["devices"]["results"][0]
    assert first["tolerations"] == [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    assert first["bindingConditions"] == ["ready"]
    assert first["bindingFailureConditions"] == ["failed"]
    assert first["consumedCapacity"] == {"memory": "1Gi"}
    again = allocation_body(claim(spec=spec), allocation, transaction=T, classes=classes, now=DEAL.now)
    assert first["shareID"] == again["devices"]["results"][0]["shareID"]
    assert [(one["source"], one.get("requests")) for one in body["devices"]["config"]] == [
        ("FromClass", ["gpu/small"]),
        ("FromClaim", ["net"]),
        ("FromClaim", None),
    ]


def test_ours_gives_way_to_whoever_has_the_same_device() -> None:
    """Always to another scheduler; of two of Phalanx the one with the greater uid, so that one keeps it."""
    ours = claim(transaction="t1", status=held_by(ENTRY))
    devices = {"c": shared_devices(ours, is_owned=frozenset())}
    gpu = DeviceId(driver="d", pool="n1", device="gpu-0")
    assert devices == {"c": frozenset({gpu})}
    assert shared_devices(ours, is_owned=frozenset({"gpus"})) == frozenset()
    uids = {"c": "uid-c"}
    foreign = claim(status=held_by(), uid="uid-z")
    assert collisions(devices, uids=uids, everyone=[ours, foreign]) == {"c": (gpu,)}
    smaller, greater = (claim(transaction="t2", status=held_by(), uid=uid) for uid in ("uid-a", "uid-z"))
    assert collisions(devices, uids=uids, everyone=[ours, smaller]) == {"c": (gpu,)}
    assert collisions(devices, uids=uids, everyone=[ours, greater]) == {}


@pytest.mark.parametrize(
    ("conditions", "waiting", "failed"),
    [
        ({}, True, False),
        ({"a": "True"}, True, False),
        ({"a": "True", "b": "True"}, False, False),
        ({"a": "True", "b": "True", "f": "True"}, False, True),
        ({"f": "Unknown"}, True, False),
    ],
)
def test_devices_are_ready_when_all_their_conditions_are_true(
    conditions: dict[str, str], *, waiting: bool, failed: bool
) -> None:
    """A failure condition goes before everything; what is not said is not true."""
    result = DeviceResult(
        request="gpu",
        driver="d",
        pool="n1",
        device="gpu-0",
        binding_conditions=("a", "b"),
        binding_failure_conditions=("f",),
    )
    said = [{"type": name, "status": state} for name, state in conditions.items()]
    devices = [{"driver": "d", "pool": "n1", "device": "gpu-0", "conditions": said}]
    given = claim(status=held_by(ENTRY) | {"devices": devices})
    states = device_states(given, target=target(result))
    assert (bool(states[0]), bool(states[1])) == (waiting, failed)
