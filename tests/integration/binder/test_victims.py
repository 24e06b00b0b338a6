"""Pods of lower priority make room: evicted through their disruption budgets, waited for, and never in vain."""

from services.core.decisions import Committed, Refused, Repairing
from services.core.reasons import ReasonCode
from services.sandbox.faults import Action, Answer, Match
from tests.integration.binder.harness import Scene
from tests.integration.binder.test_faults import ready

EVICTION = r"/eviction$"
BUDGET = Answer(
    code=429,
    reason="TooManyRequests",
    message="Cannot evict pod as it would violate the pod's disruption budget.",
)


async def test_victims_are_gone_before_anybody_is_bound(scene: Scene) -> None:
    """Two pods hold a node each; they are evicted by uid, and only then the members are bound there."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2, gpus=8)
    for number in (1, 2):
        scene.running(f"low-{number}", node=f"node-00{number}")
    binder = await ready(scene, await scene.start_binder())
    nodes = {"train-0": "node-001", "train-1": "node-002"}
    await scene.propose(gang, nodes, victims=("low-1", "low-2"))
    await scene.decision(Committed)
    assert scene.bound() == nodes
    assert scene.pod("low-1") is None
    writes = [one for one in scene.sandbox.traffic.writes if one.resource in {"pods/eviction", "pods/binding"}]
    kinds = [(one.resource, "dryRun" in one.query) for one in writes]
    evicted = [index for index, one in enumerate(kinds) if one == ("pods/eviction", False)]
    assert len(evicted) == 2
    assert all(b'"uid":"' in writes[index].body for index in evicted)
    # Everything that can be tried is tried before, and nobody is bound before they are gone.
    assert kinds.index(("pods/binding", False)) > max(evicted)
    assert max(index for index, one in enumerate(kinds) if one[1]) < min(evicted)
    assert binder.count("phalanx_victims_total", outcome="evicted") == 2


async def test_a_victim_that_its_budget_keeps_lets_nobody_go(scene: Scene) -> None:
    """One of two may not be evicted: the other is not either, nothing is bound, and the reason names the pod."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2, gpus=8)
    for number in (1, 2):
        scene.running(f"low-{number}", node=f"node-00{number}")
    scene.sandbox.faults.add(
        Match(method="POST", path=f"/pods/low-2{EVICTION}", query="dryRun"), Action(answer=BUDGET), times=None
    )
    await ready(scene, await scene.start_binder())
    await scene.propose(gang, {"train-0": "node-001", "train-1": "node-002"}, victims=("low-1", "low-2"))
    refused = await scene.decision(Refused)
    assert refused.reasons[0].code is ReasonCode.VICTIM_STAYS
    assert "team-a/low-2" in refused.reasons[0].message
    assert "disruption budget" in refused.reasons[0].message
    assert scene.bound() == {"low-1": "node-001", "low-2": "node-002"}


async def test_waiting_for_victims_blocks_nobody(scene: Scene) -> None:
    """One transaction at a time: while an eviction is on its way another gang is bound, and the first after it."""
    gang, other = scene.gang("train", size=1), scene.gang("other", size=1)
    scene.pods("train", size=1, gpus=8)
    scene.pods("other", size=1)
    scene.running("low", node="node-001")
    hold = scene.sandbox.faults.add(
        Match(method="POST", path=f"/pods/low{EVICTION}", lacks="dryRun"), Action(hold=True)
    )
    await ready(scene, await scene.start_binder(max_transactions=1))
    await scene.propose(gang, {"train-0": "node-001"}, transaction="t1", victims=("low",))
    await hold.wait_used()
    await scene.propose(other, {"other-0": "node-002"}, transaction="t2")
    await scene.decision(Committed, transaction="t2")
    assert scene.endings("t1") == []
    hold.release()
    await scene.decision(Committed, transaction="t1")
    assert scene.bound() == {"train-0": "node-001", "other-0": "node-002"}


async def test_a_successor_evicts_what_is_left(scene: Scene) -> None:
    """The first binder dies when one of two victims is gone; the second evicts the other, and binds."""
    gang = scene.gang("train", size=2)
    scene.pods("train", size=2, gpus=8)
    for number in (1, 2):
        scene.running(f"low-{number}", node=f"node-00{number}")
    hold = scene.sandbox.faults.add(
        Match(method="POST", path=f"/pods/low-2{EVICTION}", lacks="dryRun"), Action(hold=True)
    )
    first = await ready(scene, await scene.start_binder())
    nodes = {"train-0": "node-001", "train-1": "node-002"}
    await scene.propose(gang, nodes, victims=("low-1", "low-2"))
    await hold.wait_used()
    await scene.until(lambda: scene.pod("low-1") is None)
    await first.kill()
    scene.sandbox.faults.remove(hold.id)
    await scene.start_binder()
    await scene.decision(Committed)
    assert scene.bound() == nodes
    assert len(scene.endings()) == 1


async def test_a_pod_of_the_same_name_is_no_victim(scene: Scene) -> None:
    """The victim was replaced before it was evicted: its successor stays, and the member is placed elsewhere."""
    gang = scene.gang("train", size=1)
    scene.pods("train", size=1, gpus=8)
    scene.running("low", node="node-001")
    hold = scene.sandbox.faults.add(Match(method="POST", path=f"/pods/low{EVICTION}"), Action(hold=True))
    await ready(scene, await scene.start_binder())
    await scene.propose(gang, {"train-0": "node-001"}, victims=("low",))
    await hold.wait_used()
    await scene.replace("low", node="node-001")
    hold.release()
    repairing = await scene.decision(Repairing)
    assert scene.pod("low") is not None
    await scene.answer(repairing, gang=gang, nodes={"train-0": "node-002"})
    await scene.decision(Committed)
    assert scene.bound() == {"train-0": "node-002", "low": "node-001"}


async def test_what_is_told_to_people(scene: Scene) -> None:
    """The group has an event about whom it preempts, and each victim one about being preempted."""
    gang = scene.gang("train", size=1)
    scene.pods("train", size=1, gpus=8)
    scene.running("low", node="node-001")
    await ready(scene, await scene.start_binder())
    await scene.propose(gang, {"train-0": "node-001"}, victims=("low",))
    await scene.decision(Committed)
    await scene.until(
        lambda: {("PodGroup", "Normal", "Preempting", 1), ("Pod", "Warning", "Preempted", 1)} <= set(scene.events())
    )
