"""Devices of a gang: allocated before anybody is bound, and freed where nobody will be."""

from pathlib import Path
from typing import Any

import pytest

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceId, ExtendedRequest
from services.core.decisions import Committed, Refused, Repairing, RolledBack
from services.core.objects import GangId, NodeName
from services.core.reasons import ReasonCode
from services.sandbox.faults import Action, Match
from tests.integration.binder.claims_stage import (
    REQUESTS,
    claim_of,
    claims,
    device,
    device_gang,
    is_free,
    judged,
    own_claims,
    set_conditions,
    uid_of,
)
from tests.integration.binder.harness import Scene, pod_spec
from tests.integration.binder.test_repair_and_undo import refuse

OWNER = {"apiVersion": "example.com/v1", "kind": "Train", "name": "j", "uid": "j", "controller": True}
CONDITIONS = {"binding_conditions": ("attached",), "binding_failure_conditions": ("failed",)}


async def test_claims_are_allocated_and_reserved_before_the_first_binding(scene: Scene) -> None:
    """Finalizer, mark, devices, node and consumer stand in each claim when its pod is bound."""
    gang, names = device_gang(scene, "train", size=4)
    await scene.start_binder()
    nodes = dict.fromkeys(names, "node-001")
    seen: list[tuple[str, int]] = []
    scene.sandbox.store.listeners.append(lambda change: seen.append(_noted(change.stored.obj)))
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes))
    await scene.decision(Committed)
    claim = claim_of(scene, "train-0")
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["metadata"]["annotations"]["phalanx.dev/transaction"] == "t1"
    assert claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"][0]["values"] == [
        "node-001"
    ]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "train-0", "uid": uid_of(scene, "train-0")}]
    kinds = [kind for kind, _ in seen if kind in {"bound", "reserved"}]
    assert kinds.index("bound") > max(at for at, kind in enumerate(kinds) if kind == "reserved") - len(names)
    assert kinds[: len(names)] == ["reserved"] * len(names)
    assert judged(scene) == []


def _noted(obj: dict[str, Any]) -> tuple[str, int]:
    if obj.get("status", {}).get("reservedFor"):
        return "reserved", 0
    return ("bound", 0) if obj.get("spec", {}).get("nodeName") else ("", 0)


async def test_a_repaired_member_gets_devices_where_it_goes(scene: Scene) -> None:
    """Its claim is freed before another node is asked for, and allocated anew there; those of the others stay."""
    gang, names = device_gang(scene, "train", size=4)
    refuse(scene, "train-2", node="node-001", is_probed=False)
    await scene.start_binder()
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes))
    repairing = await scene.decision(Repairing)
    assert is_free(claim_of(scene, "train-2"))
    moved = {"train-2": "node-002"}
    await scene.answer(repairing, gang=gang, nodes=moved, claims=own_claims(scene, moved))
    await scene.decision(Committed)
    results = claim_of(scene, "train-2")["status"]["allocation"]["devices"]["results"]
    assert [one["pool"] for one in results] == ["node-002"]
    assert judged(scene) == []


async def test_an_undo_frees_the_claims_of_members_that_were_never_bound(scene: Scene) -> None:
    """Those of bound members are freed with their pods, by the claim controller."""
    gang, names = device_gang(scene, "train", size=4, ownerReferences=[OWNER])
    refuse(scene, "train-2", is_probed=False)
    await scene.start_binder()
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes), repair_window_s=0)
    await scene.decision(RolledBack)
    assert is_free(claim_of(scene, "train-2"))
    await scene.until(lambda: all(not one.get("status", {}).get("allocation") for one in claims(scene)))
    assert judged(scene) == []


async def test_a_shared_claim_is_allocated_once_and_keeps_those_who_run(scene: Scene) -> None:
    """Its consumers are all its members; one that could not be bound is taken off when the gang is committed."""
    scene.create("ResourceClaim", {"metadata": {"name": "net"}, "spec": REQUESTS})
    gang, names = device_gang(scene, "train", size=4, shared="net")
    refuse(scene, "train-3", is_probed=False)
    await scene.start_binder()
    nodes = dict.fromkeys(names, "node-001")
    shared = ClaimAllocation(
        ref=ClaimRef(namespace="team-a", name="net"),
        consumers=tuple(uid_of(scene, name) for name in names),
        results=(device("port-1", node="switch"),),
    )
    await scene.propose(gang, nodes, min_count=3, claims=(*own_claims(scene, nodes), shared))
    committed = await scene.decision(Committed)
    net = next(one for one in claims(scene) if one["metadata"]["name"] == "net")
    assert {one["name"] for one in net["status"]["reservedFor"]} == {one.pod for one in committed.members}
    assert len(committed.members) == 3
    assert "nodeSelector" not in net["status"]["allocation"]
    assert is_free(claim_of(scene, "train-3"))
    assert judged(scene) == []


async def test_a_claim_that_is_allocated_already_is_only_reserved(scene: Scene) -> None:
    """An undo takes the reservations back and leaves the devices, which are not ours to free."""
    allocation = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "x"}]}}
    made = scene.create("ResourceClaim", {"metadata": {"name": "net"}, "spec": REQUESTS})
    cluster = scene.sandbox.cluster
    stored = cluster.store.get(
        cluster.store.kind("resourceclaims", group="resource.k8s.io"), namespace="team-a", name="net"
    )
    assert stored is not None
    cluster.writer.commit(stored, {**stored.obj, "status": {"allocation": allocation}})
    gang, names = device_gang(scene, "train", size=2, shared="net", ownerReferences=[OWNER])
    refuse(scene, "train-1", is_probed=False)
    await scene.start_binder()
    nodes = dict.fromkeys(names, "node-001")
    ref = ClaimRef(namespace="team-a", name="net", uid=made["metadata"]["uid"])
    reserve = ClaimAllocation(ref=ref, consumers=tuple(uid_of(scene, name) for name in names))
    await scene.propose(gang, nodes, claims=(*own_claims(scene, nodes), reserve), repair_window_s=0)
    await scene.decision(RolledBack)

    def status() -> dict[str, Any]:
        net = next(one for one in claims(scene) if one["metadata"]["name"] == "net")
        return dict(net["status"])

    await scene.until(lambda: not status().get("reservedFor"))
    assert status() == {"allocation": allocation}


async def test_a_claim_that_is_not_made_yet_is_waited_for(scene: Scene) -> None:
    """The claim controller is slower than the placer, which planned from the template."""
    gang = scene.gang("train", size=1)
    entries = [{"name": "own", "resourceClaimTemplateName": "late"}]
    scene.create(
        "Pod", {"metadata": {"name": "train-0"}, "spec": pod_spec("train", gpus=0) | {"resourceClaims": entries}}
    )
    await scene.start_binder()
    nodes = {"train-0": "node-001"}
    asked = scene.sandbox.faults.add(Match(method="GET", path="/pods/train-0$"), Action(), nth=3)
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes))
    await asked.wait_used()
    assert scene.bound() == {}
    scene.create("ResourceClaimTemplate", {"metadata": {"name": "late"}, "spec": {"spec": REQUESTS}})
    await scene.decision(Committed)
    assert judged(scene) == []


async def test_devices_that_have_to_be_attached_hold_up_nobody_else(scene: Scene) -> None:
    """A gang whose devices are not ready leaves its place to the next one, and is bound when they are."""
    slow, names = device_gang(scene, "slow", size=2)
    fast = scene.gang("fast", size=1)
    scene.pods("fast", size=1)
    await scene.start_binder(max_transactions=1)
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(slow, nodes, claims=own_claims(scene, nodes, **CONDITIONS))
    await scene.propose(fast, {"fast-0": "node-002"}, transaction="t2")
    await scene.decision(Committed, transaction="t2")
    assert "slow-0" not in scene.bound()
    await scene.until(lambda: all(one.get("status", {}).get("allocation") for one in claims(scene)))
    for name in names:
        set_conditions(scene, claim_of(scene, name), attached="True")
    await scene.decision(Committed)
    assert judged(scene) == []


async def test_a_wait_for_devices_survives_the_binder(scene: Scene) -> None:
    """Killed in the middle, the wait goes on in the next one, and nothing is allocated twice."""
    gang, names = device_gang(scene, "train", size=2)
    binder = await scene.start_binder()
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes, **CONDITIONS), deadline_s=5)
    await scene.until(lambda: all(one.get("status", {}).get("allocation") for one in claims(scene)))
    await binder.kill()
    before = [one["status"]["allocation"] for one in claims(scene)]
    await scene.start_binder()
    for name in names:
        set_conditions(scene, claim_of(scene, name), attached="True")
    await scene.decision(Committed)
    assert [one["status"]["allocation"] for one in claims(scene)] == before
    assert judged(scene) == []


async def test_a_device_that_fails_is_excluded_and_another_one_taken(scene: Scene) -> None:
    """The driver says that it will never be ready: the claim is freed, and the placer told which device it was."""
    gang, _names = device_gang(scene, "train", size=1)
    await scene.start_binder()
    nodes = {"train-0": "node-001"}
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes, **CONDITIONS))
    await scene.until(lambda: all(one.get("status", {}).get("allocation") for one in claims(scene)))
    set_conditions(scene, claim_of(scene, "train-0"), attached="False", failed="True")
    repairing = await scene.decision(Repairing)
    failed = DeviceId(driver="gpu.example.com", pool="node-001", device="gpu-of-train-0")
    assert [one.excluded_devices for one in repairing.open] == [(failed,)]
    assert [one.reason.code for one in repairing.open if one.reason] == [ReasonCode.DEVICE_NOT_READY]
    assert is_free(claim_of(scene, "train-0"))
    await scene.answer(repairing, gang=gang, nodes=nodes, claims=own_claims(scene, nodes))
    await scene.decision(Committed)


async def test_devices_that_take_too_long_are_given_up(scene: Scene) -> None:
    """The wait has an end, a setting."""
    gang, _names = device_gang(scene, "train", size=1)
    await scene.start_binder(binding_conditions_timeout_s=1)
    nodes = {"train-0": "node-001"}
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes, **CONDITIONS))
    repairing = await scene.decision(Repairing)
    assert [one.reason.code for one in repairing.open if one.reason] == [ReasonCode.DEVICE_NOT_READY]


async def test_of_two_that_take_one_device_ours_gives_way(scene: Scene, tmp_path: Path) -> None:
    """Where others allocate devices of the class, all claims are looked at again after ours are written."""
    config = tmp_path / "phalanx.yaml"
    config.write_text("ownership: {deviceClasses: [only-ours]}\n")
    gang, names = device_gang(scene, "train", size=2)
    binder = await scene.start_binder(config=config)
    scene.create("ResourceClaim", {"metadata": {"name": "foreign"}, "spec": REQUESTS})
    held = scene.sandbox.faults.add(
        Match(method="PATCH", path="/resourceclaims/[^/]*/status$"), Action(hold=True), times=None
    )
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes))
    await held.wait_used()
    _allocate_by_another(scene, "foreign", device="gpu-of-train-1")
    held.release()
    repairing = await scene.decision(Repairing)
    assert [one.pod for one in repairing.open] == ["train-1"]
    assert [one.device for one in repairing.open[0].excluded_devices] == ["gpu-of-train-1"]
    assert is_free(claim_of(scene, "train-1"))
    assert binder.count("phalanx_claims_collided_total") == 1
    moved = nodes | {"train-1": "node-002"}
    await scene.answer(repairing, gang=gang, nodes=moved, claims=own_claims(scene, moved))
    await scene.decision(Committed)
    assert judged(scene) == []


def _allocate_by_another(scene: Scene, name: str, *, device: str) -> None:
    cluster = scene.sandbox.cluster
    stored = cluster.store.get(
        cluster.store.kind("resourceclaims", group="resource.k8s.io"), namespace="team-a", name=name
    )
    assert stored is not None
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-001", "device": device}
    cluster.writer.commit(stored, {**stored.obj, "status": {"allocation": {"devices": {"results": [result]}}}})


def extended(scene: Scene, gang_name: str) -> tuple[GangId, ClaimAllocation]:
    """A pod with an extended resource that stands for a DeviceClass, and what a placer gives it."""
    gang = scene.gang(gang_name, size=1)
    scene.create(
        "Pod", {"metadata": {"name": f"{gang_name}-0", "ownerReferences": [OWNER]}, "spec": pod_spec(gang_name, gpus=0)}
    )
    uid = uid_of(scene, f"{gang_name}-0")
    request = ExtendedRequest(
        name="container-0-request-0", container="main", resource="example.com/gpu", device_class="gpu", count=1
    )
    result = device("gpu-7", node="node-001")
    allocation = ClaimAllocation(
        ref=ClaimRef(namespace="team-a", pod=uid),
        consumers=(uid,),
        results=(type(result)(request=request.name, driver=result.driver, pool=result.pool, device=result.device),),
        node=NodeName("node-001"),
        extended=(request,),
    )
    return gang, allocation


async def test_the_claim_of_extended_resources_is_made_and_recorded(scene: Scene) -> None:
    """As kube-scheduler makes it: owned by the pod, annotated, and named in the pod's status."""
    gang, allocation = extended(scene, "train")
    await scene.start_binder()
    await scene.propose(gang, {"train-0": "node-001"}, claims=(allocation,))
    await scene.decision(Committed)
    (claim,) = claims(scene)
    pod = scene.pod("train-0") or {}
    assert pod["status"]["extendedResourceClaimStatus"] == {
        "resourceClaimName": claim["metadata"]["name"],
        "requestMappings": [
            {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        ],
    }
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    assert judged(scene) == []


async def test_the_claim_of_extended_resources_is_deleted_on_undo(scene: Scene) -> None:
    """Nobody else would delete it while its pod lives."""
    gang, allocation = extended(scene, "train")
    refuse(scene, "train-0", is_probed=False)
    await scene.start_binder()
    await scene.propose(gang, {"train-0": "node-001"}, claims=(allocation,), repair_window_s=0)
    await scene.decision(Refused)
    assert claims(scene) == []


@pytest.mark.parametrize("path", ["/resourceclaims/[^/]*$", "/resourceclaims/[^/]*/status$"])
async def test_lost_answers_about_claims_are_resolved_by_looking(scene: Scene, path: str) -> None:
    """Each write has its effect and its answer is cut: everything is there once."""
    gang, names = device_gang(scene, "train", size=3)
    scene.sandbox.faults.add(Match(method="PATCH", path=path), Action(cut="after"), times=3)
    await scene.start_binder()
    nodes = dict.fromkeys(names, "node-001")
    await scene.propose(gang, nodes, claims=own_claims(scene, nodes))
    await scene.decision(Committed)
    assert judged(scene) == []


async def test_a_claim_of_another_uid_is_not_touched(scene: Scene) -> None:
    """The claim that was planned for was deleted, and another one has its name."""
    scene.create("ResourceClaim", {"metadata": {"name": "net"}, "spec": REQUESTS})
    gang, _names = device_gang(scene, "train", size=1, shared="net")
    await scene.start_binder()
    nodes = {"train-0": "node-001"}
    shared = ClaimAllocation(
        ref=ClaimRef(namespace="team-a", name="net", uid=uid_of(scene, "train-0")),
        consumers=(uid_of(scene, "train-0"),),
        results=(device("port-1", node="switch"),),
    )
    await scene.propose(gang, nodes, claims=(*own_claims(scene, nodes), shared), repair_window_s=0)
    refused = await scene.decision(Refused)
    assert ReasonCode.CLAIM_CHANGED in {one.code for one in refused.reasons}
    assert all(is_free(one) for one in claims(scene))
