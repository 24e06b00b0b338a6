"""What Kubernetes shows of decisions: conditions of groups and members, and events."""

from datetime import UTC, datetime

import pytest

from services.binder import reporting
from services.core.decisions import Committed, Decision, Repairing, RolledBack, Waiting
from services.core.names import CONDITION_COMMITTED, CONDITION_INITIALLY_SCHEDULED, CONDITION_REPAIRING
from services.core.objects import GangId
from services.core.reasons import Reason, ReasonCode
from services.sandbox.faults import Action, Answer, Match
from tests.integration.binder.harness import Scene
from tests.integration.binder.test_repair_and_undo import refuse

SHORT = Reason(
    code=ReasonCode.INSUFFICIENT_RESOURCE,
    message="no node has 9 free nvidia.com/gpu",
    count=8,
    subject="nvidia.com/gpu",
)
CAPACITY = Reason(code=ReasonCode.INSUFFICIENT_CAPACITY, message="0 of the 4 needed pods can be placed")


async def wait_for(scene: Scene, gang: GangId, *reasons: Reason) -> None:
    """Publish that the gang waits, as the placer does."""
    await scene.settled()
    event = Waiting(revision=scene.revision, min_count=4, existing=4, placeable=0, reasons=reasons)
    await scene.publish(Decision(gang=gang, event=event, decided_at=datetime.now(UTC)))


def pod_condition(scene: Scene, name: str) -> tuple[str, str, str] | None:
    """Return status, reason and message of a pod's PodScheduled."""
    found = (scene.pod(name) or {}).get("status", {}).get("conditions", ())
    return next(
        (
            (one["status"], one.get("reason", ""), one.get("message", ""))
            for one in found
            if one["type"] == "PodScheduled"
        ),
        None,
    )


async def test_waiting_is_shown_on_members_group_and_owner(scene: Scene) -> None:
    """Node autoscalers act on Unschedulable; people read the same words on the group and on the Job."""
    gang = scene.gang("train", size=4)
    scene.job("train", size=4)
    names = [pod["metadata"]["name"] for pod in await scene.members(4)]
    await scene.start_binder()
    await wait_for(scene, gang, CAPACITY, SHORT)
    text = "0 of the 4 needed pods can be placed; no node has 9 free nvidia.com/gpu"
    await scene.until(lambda: len(scene.events()) == 2)
    assert [pod_condition(scene, name) for name in names] == [("False", "Unschedulable", text)] * 4
    assert scene.conditions("train") == {CONDITION_INITIALLY_SCHEDULED: ("False", "Unschedulable", text)}
    assert scene.events() == [
        ("Job", "Warning", "InsufficientCapacity", 1),
        ("PodGroup", "Warning", "InsufficientCapacity", 1),
    ]


async def test_a_report_that_gets_no_answer_is_told_again(scene: Scene) -> None:
    """Connections that are cut while members are told cost nothing but another try, and never the binder."""
    cut = scene.sandbox.faults.add(Match(method="PATCH", path="/pods/[^/]+/status$"), Action(cut="before"), times=3)
    gang = scene.gang("train", size=4)
    scene.job("train", size=4)
    names = [pod["metadata"]["name"] for pod in await scene.members(4)]
    binder = await scene.start_binder()
    await wait_for(scene, gang, CAPACITY)
    await scene.until(lambda: len(scene.events()) == 2)
    assert cut.used_count == 3
    assert [(pod_condition(scene, name) or ("",))[0] for name in names] == ["False"] * 4
    assert not binder.task.done()


async def test_a_report_without_permission_is_told_when_it_is_granted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that has just started answers 403 until it has read the roles; what it refused is shown later."""
    monkeypatch.setattr(reporting, "UNPERMITTED_RETRY_S", 0.2)
    gang = scene.gang("train", size=4)
    scene.job("train", size=4)
    await scene.members(4)
    missing = Answer(code=403, reason="Forbidden", message='cannot patch resource "podgroups/status"')
    fault = scene.sandbox.faults.add(
        Match(method="PATCH", path="/podgroups/train/status"), Action(answer=missing), times=2
    )
    await scene.start_binder()
    await wait_for(scene, gang, CAPACITY, SHORT)
    await fault.wait_used()
    text = "0 of the 4 needed pods can be placed; no node has 9 free nvidia.com/gpu"
    await scene.until(
        lambda: scene.conditions("train") == {CONDITION_INITIALLY_SCHEDULED: ("False", "Unschedulable", text)}
    )


async def test_a_restart_tells_nothing_twice(scene: Scene) -> None:
    """A new binder compares with the live objects and finds all of it told."""
    gang = scene.gang("train", size=4)
    scene.job("train", size=4)
    await scene.members(4)
    first = await scene.start_binder()
    await wait_for(scene, gang, CAPACITY)
    await scene.until(lambda: len(scene.events()) == 2)
    await first.stop()
    scene.sandbox.traffic.reset()
    second = await scene.start_binder()
    # Both events are found to exist already: the last thing that a report does.
    await scene.until(lambda: scene.sandbox.traffic.total(verb="get", resource="events") == 2)
    assert scene.sandbox.traffic.total(verb="patch") == 0
    assert [count for *_, count in scene.events()] == [1, 1]
    await second.stop()


async def test_committed_is_true_only_after_the_last_binding(scene: Scene) -> None:
    """The condition's write comes after all bindings in the log of writes."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4)
    await scene.start_binder()
    await scene.propose(gang, {f"train-{number}": "node-001" for number in range(4)})
    await scene.decision(Committed)
    await scene.until(lambda: scene.events() == [("PodGroup", "Normal", "Committed", 1)])
    assert scene.conditions("train") == {
        CONDITION_INITIALLY_SCHEDULED: ("True", "Scheduled", ""),
        CONDITION_COMMITTED: ("True", "Committed", "4 pods are bound"),
    }
    writes = [one.resource for one in scene.sandbox.traffic.writes if "dryRun" not in one.query]
    last = max(number for number, resource in enumerate(writes) if resource == "pods/binding")
    assert writes.index("podgroups/status") > last


async def test_repairing_is_shown_and_withdrawn(scene: Scene) -> None:
    """True with the numbers while it lasts, False once it is over."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4)
    await scene.start_binder()
    refuse(scene, "train-3", node="node-001", is_probed=False)
    await scene.propose(gang, {f"train-{number}": "node-001" for number in range(4)})
    repairing = await scene.decision(Repairing)
    await scene.until(lambda: CONDITION_REPAIRING in scene.conditions("train"))
    status, reason, message = scene.conditions("train")[CONDITION_REPAIRING]
    assert (status, reason) == ("True", "BindingRefused")
    assert message.startswith("Repairing, 3 of 4: the API refused to bind pod train-3 to node node-001")
    await scene.answer(repairing, gang=gang, nodes={"train-3": "node-002"})
    await scene.until(lambda: scene.conditions("train").get(CONDITION_COMMITTED, ("",))[0] == "True")
    assert scene.conditions("train")[CONDITION_REPAIRING][0] == "False"


async def test_an_undo_is_shown_with_its_reason(scene: Scene) -> None:
    """Committed=False says why; a group that ran before keeps InitiallyScheduled."""
    gang = scene.gang("train", size=2)
    scene.job("train", size=2)
    names = [pod["metadata"]["name"] for pod in await scene.members(2)]
    await scene.start_binder()
    refuse(scene, names[0])
    await scene.propose(gang, dict.fromkeys(names, "node-001"), repair_window_s=0)
    await scene.decision(RolledBack)
    await scene.until(lambda: CONDITION_COMMITTED in scene.conditions("train"))
    assert scene.conditions("train")[CONDITION_COMMITTED][:2] == ("False", "RepairWindowExpired")
    await scene.until(lambda: ("Job", "Warning", "RepairWindowExpired", 1) in scene.events())


async def test_lone_pods_are_told_without_a_group(scene: Scene) -> None:
    """A pod that names no group gets its condition and its event."""
    scene.create(
        "Pod",
        {
            "metadata": {"name": "alone"},
            "spec": {
                "schedulerName": "phalanx",
                "containers": [{"name": "main", "image": "registry.example.com/none:1"}],
            },
        },
    )
    await scene.start_binder()
    await wait_for(scene, GangId("pod/team-a/alone"), CAPACITY)
    await scene.until(lambda: scene.events() == [("Pod", "Warning", "InsufficientCapacity", 1)])
    assert pod_condition(scene, "alone") == ("False", "Unschedulable", CAPACITY.message)


async def test_an_older_api_version_is_written_where_only_that_is_served(scene: Scene) -> None:
    """PodGroups served as v1alpha3 alone get their conditions there."""
    gang = scene.gang("train", size=1)
    scene.pods("train", size=1)
    scene.sandbox.cluster.serve("scheduling.k8s.io", versions=["v1", "v1alpha3"])
    await scene.start_binder()
    await scene.propose(gang, {"train-0": "node-001"})
    await scene.decision(Committed)
    await scene.until(lambda: CONDITION_COMMITTED in scene.conditions("train"))


async def test_reports_never_hold_up_bindings(scene: Scene) -> None:
    """While every status write hangs, a gang is bound and committed."""
    scene.gang("slow", size=1)
    scene.pods("slow", size=1)
    await scene.start_binder()
    from services.sandbox.faults import Action, Match

    scene.sandbox.faults.add(Match(path="/status$"), Action(hold=True), times=None)
    scene.sandbox.faults.add(Match(path="/events"), Action(hold=True), times=None)
    await wait_for(scene, GangId("podgroup/team-a/slow"), CAPACITY)
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"})
    committed = await scene.decision(Committed)
    assert len(committed.members) == 2
    assert CONDITION_COMMITTED not in scene.conditions("train")
    scene.sandbox.faults.clear()
    await scene.until(lambda: CONDITION_COMMITTED in scene.conditions("train"))
