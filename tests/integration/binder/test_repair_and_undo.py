"""What happens when the API server refuses members: repair before undo."""

import asyncio

from services.core.decisions import Committed, Refused, Repairing, RolledBack
from services.core.reasons import ReasonCode
from services.sandbox.faults import Action, Answer, Match
from tests.integration.binder.harness import Scene


def refuse(scene: Scene, pod: str, *, node: str = "", is_probed: bool = True) -> None:
    """Let admission refuse real bindings of a pod, on one node or on all.

    The dry run of the first member by name passes; the others have none.
    """
    body: dict[str, object] = {"metadata": {"name": pod}}
    if node:
        body["target"] = {"name": node}
    message = f'pods "{pod}" is forbidden: the quota webhook said no'
    scene.sandbox.faults.add(
        Match(method="POST", path=f"/pods/{pod}/binding$", body=body),
        Action(answer=Answer(code=403, reason="Forbidden", message=message)),
        nth=2 if is_probed else 1,
        times=None,
    )


async def test_a_refused_member_is_bound_elsewhere_in_the_next_round(scene: Scene) -> None:
    """One of eight is refused on its node; the placer gives it another, and the gang commits."""
    gang = scene.gang("train", size=8)
    scene.pods("train", size=8)
    await scene.start_binder()
    refuse(scene, "train-3", node="node-001", is_probed=False)
    await scene.propose(gang, {f"train-{number}": "node-001" for number in range(8)})
    repairing = await scene.decision(Repairing)
    assert [one.pod for one in repairing.open] == ["train-3"]
    assert repairing.open[0].excluded_nodes == ("node-001",)
    assert repairing.open[0].reason is not None
    assert repairing.open[0].reason.code is ReasonCode.BINDING_REFUSED
    assert "quota webhook" in repairing.open[0].reason.message
    assert len(repairing.bound) == 7
    await scene.answer(repairing, gang=gang, nodes={"train-3": "node-002"})
    committed = await scene.decision(Committed)
    assert committed.repaired == 1
    assert scene.bound()["train-3"] == "node-002"
    assert len(scene.bound()) == 8
    assert len(scene.endings()) == 1


async def test_without_a_repair_window_the_gang_is_undone_and_the_job_starts_again(scene: Scene) -> None:
    """Seven of eight bound and none to be had for the eighth: all seven go, and the Job makes new pods."""
    gang = scene.gang("train", size=8)
    scene.job("train", size=8)
    first = [pod["metadata"] for pod in await scene.members(8)]
    await scene.start_binder()
    refuse(scene, first[0]["name"])
    await scene.propose(gang, {pod["name"]: "node-001" for pod in first}, repair_window_s=0)
    undone = await scene.decision(RolledBack)
    assert {one.pod for one in undone.undone} == {pod["name"] for pod in first[1:]}
    assert undone.reasons[0].code is ReasonCode.REPAIR_WINDOW_EXPIRED
    assert ReasonCode.BINDING_REFUSED in {reason.code for reason in undone.reasons}
    assert scene.bound() == {}
    old = {pod["uid"] for pod in first[1:]}
    await scene.until(lambda: not old & {pod["metadata"]["uid"] for pod in scene.pod_manifests()})
    assert len(await scene.members(8)) == 8
    assert len(scene.endings()) == 1


async def test_undo_says_why_before_it_deletes(scene: Scene) -> None:
    """The condition DisruptionTarget is there before the deletion, which names uid and version and no grace."""
    gang = scene.gang("train", size=2)
    scene.job("train", size=2)
    first = [pod["metadata"]["name"] for pod in await scene.members(2)]
    await scene.start_binder()
    refuse(scene, first[0])
    await scene.propose(gang, dict.fromkeys(first, "node-001"), repair_window_s=0)
    await scene.decision(RolledBack)
    writes = [one for one in scene.sandbox.traffic.writes if one.name == first[1] and one.resource != "events"]
    shown = [(one.verb, one.resource) for one in writes if one.verb in {"patch", "delete"}]
    assert shown[-2:] == [("patch", "pods/status"), ("delete", "pods")]
    assert b"DisruptionTarget" in writes[-2].body
    assert b"resourceVersion" in writes[-1].body
    assert b"gracePeriodSeconds" not in writes[-1].body


async def test_a_window_that_passes_without_help_ends_in_an_undo(scene: Scene) -> None:
    """Nobody answers Repairing within its window."""
    gang = scene.gang("train", size=3)
    scene.job("train", size=3)
    first = [pod["metadata"]["name"] for pod in await scene.members(3)]
    await scene.start_binder()
    refuse(scene, first[0])
    await scene.propose(gang, dict.fromkeys(first, "node-001"), repair_window_s=0.2)
    await scene.decision(Repairing)
    undone = await scene.decision(RolledBack)
    assert len(undone.undone) == 2
    assert scene.bound() == {}


async def test_pods_without_a_controller_are_kept_until_somebody_helps(scene: Scene) -> None:
    """The gang stays in repair and says so; once the annotation allows it, it is undone."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    await scene.start_binder()
    refuse(scene, "train-0")
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"}, repair_window_s=0)
    repairing = await scene.decision(Repairing)
    assert repairing.open[0].reason is not None
    assert repairing.open[0].reason.code is ReasonCode.KEPT_WITHOUT_CONTROLLER
    assert list(scene.bound()) == ["train-1"]
    assert scene.endings() == []
    stored = scene.sandbox.store.get(
        scene.sandbox.store.kind("podgroups", group="scheduling.k8s.io"), namespace="team-a", name="train"
    )
    assert stored is not None
    metadata = stored.obj["metadata"] | {"annotations": {"phalanx.dev/allow-delete": "true"}}
    scene.sandbox.cluster.writer.commit(stored, stored.obj | {"metadata": metadata})
    undone = await scene.decision(RolledBack)
    assert [one.pod for one in undone.undone] == ["train-1"]
    assert scene.bound() == {}


async def test_extra_members_need_no_repair(scene: Scene) -> None:
    """More than minCount were promised; one that is refused does not hold the others."""
    gang = scene.gang("train", size=4, min_count=3)
    scene.pods("train", size=4)
    await scene.start_binder()
    refuse(scene, "train-0")
    await scene.propose(gang, {f"train-{number}": "node-001" for number in range(4)}, min_count=3)
    committed = await scene.decision(Committed)
    assert committed.open == 1
    assert len(committed.members) == 3


async def test_a_stale_placement_is_refused_with_nothing_written(scene: Scene) -> None:
    """A cordoned node: the placer is asked to solve again at once."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    node = scene.sandbox.store.get(scene.sandbox.store.kind("nodes"), namespace="", name="node-001")
    assert node is not None
    scene.sandbox.cluster.writer.commit(node, node.obj | {"spec": {"unschedulable": True}})
    await scene.start_binder()
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-002"})
    refused = await scene.decision(Refused)
    assert refused.reasons[0].code is ReasonCode.PLACEMENT_STALE
    assert "node-001" in refused.reasons[0].message
    assert scene.bound() == {}
    assert scene.sandbox.traffic.total(verb="create", resource="pods/binding") == 0


async def test_deaths_during_repair_are_noticed_at_once(scene: Scene) -> None:
    """A bound member that is deleted while the gang waits frees the gang from waiting for nothing."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2)
    await scene.start_binder()
    refuse(scene, "train-0")
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-001"}, repair_window_s=0)
    await scene.decision(Repairing)
    cluster = scene.sandbox.cluster
    stored = cluster.store.get(cluster.store.kind("pods"), namespace="team-a", name="train-1")
    assert stored is not None
    cluster.remover.force(stored)
    refused = await scene.decision(Refused)
    assert ReasonCode.MEMBER_GONE in {reason.code for reason in refused.reasons}
    await asyncio.sleep(0)
    assert len(scene.endings()) == 1
