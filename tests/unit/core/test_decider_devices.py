"""The decider and devices: what a placement promises of them, what wakes a gang that waits for them, and repairs."""

import pytest

from services.core.allocations import ClaimAllocation, DeviceId
from services.core.claim_promises import POD_CLAIM_ANNOTATION
from services.core.decisions import Committed, Decision, OpenMember, Proposed, Refused, Repairing, RolledBack
from services.core.objects import ClusterObject, DeviceObject, Kind, Pod, WatchPhase
from services.core.pod_devices import PodClaim, PodDevices
from services.core.reasons import Reason, ReasonCode
from tests import device_builders as dra
from tests.builders import NAMESPACE, node, pod, pod_group, seconds, watch
from tests.unit.core.test_decider import TRAIN, Desk, codes_of, only, proposal, waiting


def claiming(count: int, *, group: str = "train", template: str = "one") -> list[Pod]:
    """Return members with an own claim each."""
    devices = PodDevices(claims=(PodClaim(entry="gpu", template=template),))
    return [pod(f"{group}-{index}", group=group, gpus=0, devices=devices) for index in range(count)]


def chosen(claims: tuple[ClaimAllocation, ...]) -> list[str]:
    """Return the devices of claims, as pool/device."""
    return sorted(f"{one.pool}/{one.device}" for claim in claims for one in claim.results)


def made(allocation: ClaimAllocation, *, version: int, is_allocated: bool) -> DeviceObject:
    """Return the claim of a pod as the stream shows it once its controller has made it."""
    results = [dra.result(one.device, pool=one.pool) for one in allocation.results]
    return dra.claim(
        f"{allocation.ref.pod}-gpu",
        namespace=NAMESPACE,
        owner=allocation.ref.pod,
        annotations={POD_CLAIM_ANNOTATION: "gpu"},
        results=results if is_allocated else None,
        node=allocation.node,
        consumers=allocation.consumers,
        version=version,
    )


@pytest.fixture
def desk() -> Desk:
    """Return a decider that knows two nodes without device plugins, a class, and a template for one device."""
    known = Desk(nodes=0)
    known.see(node("n0", gpus=0), node("n1", gpus=0), dra.device_class())
    known.see(dra.template("one", namespace=NAMESPACE))
    return known


def proposed(desk: Desk, *objects: ClusterObject) -> Decision:
    """Return the decision to place what comes now."""
    desk.see(*objects)
    decision = only(desk.decide())
    assert isinstance(decision.event, Proposed), decision.event
    return decision


class TestPromises:
    """Devices that are promised."""

    def test_nobody_else_gets_them(self, desk: Desk) -> None:
        """Neither while the transaction is open, nor when it is committed and the claims are not seen yet."""
        desk.see(dra.gpus("n0", 2))
        first = proposed(desk, pod_group("train", min_count=2), *claiming(2))
        assert chosen(proposal(first).claims) == ["n0/gpu-0", "n0/gpu-1"]
        desk.see(pod_group("other", min_count=1), *claiming(1, group="other"))
        assert ReasonCode.DEVICES_INSUFFICIENT in codes_of(waiting(only(desk.decide())).reasons)
        desk.hear(first, Committed(members=proposal(first).assignments))
        assert not desk.decide()

    @pytest.mark.parametrize("is_undone", [False, True])
    def test_an_end_without_a_binding_frees_them_and_wakes_who_waits(self, desk: Desk, *, is_undone: bool) -> None:
        """Refused, or undone: the next gang is placed at once."""
        desk.see(dra.gpus("n0", 2))
        first = proposed(desk, pod_group("train", min_count=2), *claiming(2))
        desk.see(pod_group("other", min_count=2), *claiming(2, group="other"))
        waiting(only(desk.decide()))
        reasons = (Reason(code=ReasonCode.FORBIDDEN, message="no"),)
        desk.hear(first, RolledBack(reasons=reasons) if is_undone else Refused(reasons=reasons))
        second = [one.decision for one in desk.decide() if isinstance(one.decision.event, Proposed)]
        assert [one.gang for one in second] == ["podgroup/team-a/other"]

    def test_they_are_held_until_the_claim_is_seen_with_them(self, desk: Desk) -> None:
        """Then the claim itself holds them, and a deallocation wakes who waits."""
        desk.see(dra.gpus("n0", 1))
        first = proposed(desk, pod_group("train", min_count=1), *claiming(1))
        [allocation] = proposal(first).claims
        desk.see(made(allocation, version=1, is_allocated=False))
        assert desk.decider.cluster.claims.held()
        desk.see(made(allocation, version=2, is_allocated=True))
        assert not desk.decider.cluster.claims.held()
        desk.see(pod_group("other", min_count=1), *claiming(1, group="other"))
        waiting(only(desk.decide()))
        desk.see(made(allocation, version=3, is_allocated=False))
        desk.hear(first, Refused(reasons=()))
        assert any(isinstance(one.decision.event, Proposed) for one in desk.decide(after=seconds(1)))

    def test_a_restarted_decider_holds_the_same(self, desk: Desk) -> None:
        """Whatever of the two streams it reads first."""
        desk.see(dra.gpus("n0", 2))
        first = proposed(desk, pod_group("train", min_count=2), *claiming(2))
        other = Desk(nodes=0)
        other.hear(first, first.event)
        other.see(*claiming(2))
        assert other.decider.cluster.claims.held() == desk.decider.cluster.claims.held()


class TestWaking:
    """What wakes a gang that waits for devices."""

    def test_a_slice_that_completes_its_pool(self, desk: Desk) -> None:
        """And nothing is decided on half a pool."""
        desk.see(dra.resource_slice("half", [dra.device("gpu-0")], node="n0", count=2))
        desk.see(pod_group("train", min_count=2), *claiming(2))
        assert ReasonCode.DEVICE_POOL_UNUSABLE in codes_of(waiting(only(desk.decide())).reasons)
        desk.see(dra.resource_slice("rest", [dra.device("gpu-1")], node="n0", count=2))
        assert chosen(proposal(only(desk.decide())).claims) == ["n0/gpu-0", "n0/gpu-1"]

    def test_a_taint_that_is_lifted(self, desk: Desk) -> None:
        """The rule is deleted."""
        rule = dra.taint_rule("broken", {"pool": "n0"})
        desk.see(dra.gpus("n0", 1), rule, pod_group("train", min_count=1), *claiming(1))
        assert ReasonCode.DEVICE_TAINT_NOT_TOLERATED in codes_of(waiting(only(desk.decide())).reasons)
        desk.lose(rule)
        proposal(only(desk.decide()))

    def test_a_class_or_template_that_was_missing(self, desk: Desk) -> None:
        """Each is told as missing before."""
        desk.see(dra.gpus("n0", 1), pod_group("train", min_count=1), *claiming(1, template="odd"))
        assert ReasonCode.CLAIM_NOT_FOUND in codes_of(waiting(only(desk.decide())).reasons)
        desk.see(dra.template("odd", dra.request(device_class_name="odd"), namespace=NAMESPACE))
        assert ReasonCode.DEVICE_CLASS_NOT_FOUND in codes_of(waiting(only(desk.decide())).reasons)
        desk.see(dra.device_class("odd"))
        proposal(only(desk.decide()))

    def test_the_own_claims_of_others_wake_nobody(self, desk: Desk) -> None:
        """Hundreds are allocated with each gang, and none of that gives room."""
        desk.see(dra.gpus("n0", 1), pod_group("train", min_count=2), *claiming(2))
        waiting(only(desk.decide()))
        taken = dra.claim("x", namespace=NAMESPACE, owner="x", results=[dra.result("gpu-0", pool="n0")], node="n0")
        desk.see(taken)
        assert desk.decider.next_due(desk.now) is None

    def test_nothing_is_decided_before_devices_are_listed(self) -> None:
        """What is missing then is unknown, not absent."""
        desk = Desk()
        desk.see(watch(Kind.RESOURCE_SLICE, phase=WatchPhase.LISTING))
        desk.see(pod_group("train", min_count=1), pod("w-0", group="train"))
        assert not desk.decide()


class TestRepairs:
    """Members whose node or device failed."""

    def test_another_node_and_another_device(self, desk: Desk) -> None:
        """Members that stay keep theirs; a device that never got ready is not tried again in the transaction."""
        desk.see(dra.gpus("n0", 3), dra.gpus("n1", 1))
        first = proposed(desk, pod_group("train", min_count=2), *claiming(2))
        kept, failed = proposal(first).assignments
        [lost] = [one for one in proposal(first).claims if failed.uid in one.consumers]
        excluded = DeviceId(driver=dra.DRIVER, pool="n0", device="gpu-2")
        repairing = Repairing(
            round=0,
            bound=(kept,),
            open=(
                OpenMember(
                    pod=failed.pod,
                    uid=failed.uid,
                    reason=Reason(code=ReasonCode.DEVICE_NOT_READY, message="late"),
                    excluded_devices=(lost.results[0].id, excluded),
                ),
            ),
            until=desk.now + seconds(30),
            min_count=2,
        )
        desk.hear(first, repairing)
        second = proposal(only(desk.decide()))
        assert second.round == 1
        assert {one.uid: one.node for one in second.assignments} == {kept.uid: "n0", failed.uid: "n1"}
        devices = {one.consumers[0]: chosen((one,)) for one in second.claims}
        [same] = [one for one in proposal(first).claims if kept.uid in one.consumers]
        assert devices == {kept.uid: chosen((same,)), failed.uid: ["n1/gpu-0"]}
        # What was excluded is free again for everybody else.
        desk.see(pod_group("other", min_count=2), *claiming(2, group="other"))
        assert chosen(proposal(only(desk.decide())).claims) == sorted(f"n0/{one}" for one in free_of("n0", same))

    def test_a_claim_that_members_share_keeps_its_devices(self, desk: Desk) -> None:
        """The one that is placed anew joins those that stay, where the claim's device is."""
        desk.see(dra.gpus("n0", 1), dra.gpus("n1", 1), dra.claim("shared", namespace=NAMESPACE))
        devices = PodDevices(claims=(PodClaim(entry="gpu", claim="shared"),))
        members = [pod(f"train-{index}", group="train", gpus=0, devices=devices) for index in range(2)]
        first = proposed(desk, pod_group("train", min_count=2), *members)
        kept, failed = proposal(first).assignments
        [before] = proposal(first).claims
        until = desk.now + seconds(30)
        opened = (OpenMember(pod=failed.pod, uid=failed.uid),)
        desk.hear(first, Repairing(round=0, bound=(kept,), open=opened, until=until, min_count=2))
        second = proposal(only(desk.decide()))
        [after] = second.claims
        assert (after.results, set(after.consumers)) == (before.results, {kept.uid, failed.uid})
        assert {one.node for one in second.assignments} == {kept.node}


def free_of(pool: str, used: ClaimAllocation) -> set[str]:
    """Return the devices of a pool of three that a claim does not use."""
    return {f"gpu-{index}" for index in range(3)} - {one.device for one in used.results if one.pool == pool}


def test_members_without_devices_need_nothing_of_this() -> None:
    """No claims, no holds."""
    desk = Desk()
    desk.see(pod_group("train", min_count=1), pod("w-0", group="train"))
    decision = only(desk.decide())
    assert proposal(decision).claims == ()
    assert not desk.decider.cluster.claims.held()
    assert decision.gang == TRAIN
