"""Nodes that other schedulers use too: what was bound there is looked at again, and gives way where it is too much."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.core.decisions import Committed, Repairing, RolledBack
from services.core.objects import GangId
from services.core.reasons import ReasonCode
from services.runtime.embedded_nats import EmbeddedNats
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from services.sandbox.faults import Action, Match
from tests.integration.binder.harness import Scene, pod_spec, staged

SHARED = "ownership: {nodeSelector: {phalanx.dev/owned: 'true'}}\n"
"""No node of the sandbox has the label."""


JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-train", "controller": True}
NAMES = tuple(f"train-{number}" for number in range(4))


@pytest.fixture
async def scene(nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[Scene]:
    """A cluster whose kubelets are slow: they would reject what is too much, and hide what the binder does about it."""
    async with (
        running(ClusterSettings(nodes=8, has_controllers=False)) as sandbox,
        staged(sandbox, nats_url=nats_server.url, directory=tmp_path) as found,
    ):
        yield found


def policy(folder: Path, text: str = SHARED) -> Path:
    """A configuration file."""
    path = folder / "phalanx.yaml"
    path.write_text(text)
    return path


def another_binds(scene: Scene, name: str, *, gpus: int, node: str = "node-001") -> None:
    """Let another scheduler bind a pod of its own: it knows nothing of what Phalanx has promised."""
    spec = pod_spec("", gpus=gpus) | {"schedulerName": "other", "nodeName": node}
    del spec["schedulingGroup"]
    scene.create("Pod", {"metadata": {"name": name}, "spec": spec})


async def race(scene: Scene, gang: GangId, *, repair_window_s: float = 30) -> None:
    """Propose to the first node, and let another scheduler take six of its eight GPUs while the bindings are held."""
    held = scene.sandbox.faults.add(
        Match(method="POST", path="/binding$", lacks="dryRun"), Action(hold=True), times=None
    )
    await scene.propose(gang, dict.fromkeys(NAMES, "node-001"), repair_window_s=repair_window_s)
    await held.wait_used()
    another_binds(scene, "foreign", gpus=6)
    held.release()


async def test_on_owned_nodes_nothing_is_looked_at_again(scene: Scene) -> None:
    """Without a configuration file all nodes are owned, and a commit waits for nothing."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4)
    binder = await scene.start_binder()
    await scene.propose(gang, dict.fromkeys(NAMES, "node-001"))
    await scene.decision(Committed)
    for result in ("clean", "collision", "unknown"):
        assert binder.count("phalanx_shared_node_rechecks_total", result=result) == 0


async def test_on_shared_nodes_what_fits_is_committed(scene: Scene, tmp_path: Path) -> None:
    """It was looked at once, when the stream had shown it bound."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4)
    binder = await scene.start_binder(config=policy(tmp_path))
    await scene.propose(gang, dict.fromkeys(NAMES, "node-001"))
    await scene.decision(Committed)
    assert binder.count("phalanx_shared_node_rechecks_total", result="clean") == 1
    assert len(scene.bound()) == 4


async def test_our_latest_give_way_and_their_successors_are_placed(scene: Scene, tmp_path: Path) -> None:
    """Of four, two are too many beside the other's six of eight: two go, and the gang is repaired elsewhere."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4, ownerReferences=[JOB])
    binder = await scene.start_binder(config=policy(tmp_path))
    await scene.until(lambda: binder.runtime.readiness.is_ready)
    await race(scene, gang)
    repairing = await scene.decision(Repairing)
    assert len(repairing.bound) == 2
    assert binder.count("phalanx_members_withdrawn_total") == 2
    assert {name for name in scene.bound() if name in NAMES} == {"train-0", "train-1"}
    for name in ("train-4", "train-5"):
        scene.create("Pod", {"metadata": {"name": name, "ownerReferences": [JOB]}, "spec": pod_spec("train", gpus=1)})
    await scene.answer(repairing, gang=gang, nodes={"train-4": "node-002", "train-5": "node-002"})
    committed = await scene.decision(Committed)
    assert {one.pod: one.node for one in committed.members} == {
        "train-0": "node-001", "train-1": "node-001", "train-4": "node-002", "train-5": "node-002",
    }  # fmt: skip


async def test_without_a_repair_window_the_gang_goes_whole(scene: Scene, tmp_path: Path) -> None:
    """None of it is left, and the reason says why."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4, ownerReferences=[JOB])
    binder = await scene.start_binder(config=policy(tmp_path))
    await scene.until(lambda: binder.runtime.readiness.is_ready)
    await race(scene, gang, repair_window_s=0)
    undone = await scene.decision(RolledBack)
    assert ReasonCode.NODE_OVERCOMMITTED in {reason.code for reason in undone.reasons}
    assert [name for name in scene.bound() if name in NAMES] == []


async def test_pods_that_nobody_would_recreate_stay(scene: Scene, tmp_path: Path) -> None:
    """They are committed: the kubelet decides between them and the other's."""
    gang = scene.gang("train", size=4)
    scene.pods("train", size=4)
    binder = await scene.start_binder(config=policy(tmp_path))
    await scene.until(lambda: binder.runtime.readiness.is_ready)
    await race(scene, gang)
    await scene.decision(Committed)
    assert binder.count("phalanx_shared_node_rechecks_total", result="collision") == 1
    assert binder.count("phalanx_members_withdrawn_total") == 0
