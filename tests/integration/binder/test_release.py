"""Releasing what is left of a degraded gang, on the sandbox: announced, deleted, one ending."""

from datetime import UTC, datetime, timedelta

from services.core.decisions import Assignment, Committed, Decision, Proposed, Refused, RolledBack
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import ReasonCode
from tests.integration.binder.harness import Scene
from tests.integration.binder.test_faults import ready


async def release(scene: Scene, gang: GangId, *, min_count: int) -> None:
    """Publish that what is bound of a gang is to be taken back, as the placer does."""
    await scene.settled()
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in scene.pod_manifests()}
    left = tuple(
        Assignment(pod=name, uid=Uid(uids[name]), node=NodeName(node)) for name, node in sorted(scene.bound().items())
    )
    now = datetime.now(UTC)
    event = Proposed(
        revision=scene.revision,
        deadline=now + timedelta(seconds=30),
        min_count=min_count,
        assignments=left,
        is_release=True,
    )
    await scene.publish(Decision(gang=gang, transaction=TransactionId("t2"), decided_at=now, event=event))


async def test_what_is_left_of_a_job_is_taken_back_and_made_anew(scene: Scene) -> None:
    """Committed by one transaction, below its quorum, released by another: the Job counts no failure."""
    gang = scene.gang("train", size=4)
    scene.job("train", size=4)
    names = [pod["metadata"]["name"] for pod in await scene.members(4)]
    await ready(scene, await scene.start_binder())
    await scene.propose(gang, dict.fromkeys(names, "node-001"))
    await scene.decision(Committed)
    cluster = scene.sandbox.cluster
    lost = cluster.store.get(cluster.store.kind("pods"), namespace="team-a", name=names[0])
    assert lost is not None
    cluster.remover.force(lost)
    await scene.until(lambda: len(scene.bound()) == 3)
    await release(scene, gang, min_count=4)
    event = await scene.decision(RolledBack, transaction="t2")
    assert {one.pod for one in event.undone} == set(names[1:])
    assert [reason.code for reason in event.reasons] == [ReasonCode.DEGRADED_TOO_LONG]
    await scene.members(4)
    assert scene.bound() == {}
    assert len(scene.endings("t2")) == 1


async def test_pods_without_a_controller_stay(scene: Scene) -> None:
    """The binder asks nobody: it reads who would make them anew."""
    gang = scene.gang("train", size=3)
    scene.pods("train", size=2)
    await ready(scene, await scene.start_binder())
    await scene.propose(gang, dict.fromkeys(("train-0", "train-1"), "node-001"), min_count=2)
    await scene.decision(Committed)
    await release(scene, gang, min_count=3)
    event = await scene.decision(Refused, transaction="t2")
    assert [reason.code for reason in event.reasons] == [ReasonCode.KEPT_WITHOUT_CONTROLLER]
    assert len(scene.bound()) == 2
