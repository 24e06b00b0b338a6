"""A gang that is bound as it was promised."""

import time
from collections.abc import Mapping

from services.core.decisions import Committed, Repairing
from services.core.names import TRANSACTION_ANNOTATION
from tests.integration.binder.harness import Scene
from tests.integration.binder.test_faults import ready
from tests.integration.binder.test_repair_and_undo import refuse


def spread(names: list[str], *, per_node: int = 8) -> Mapping[str, str]:
    """Fill node after node."""
    return {name: f"node-{number // per_node + 1:03d}" for number, name in enumerate(names)}


async def test_sixty_four_members_are_bound_and_committed(scene: Scene) -> None:
    """Every member goes where it was promised, annotated with its transaction."""
    gang = scene.gang("train", size=64)
    scene.job("train", size=64)
    names = [pod["metadata"]["name"] for pod in await scene.members(64)]
    binder = await scene.start_binder()
    await scene.until(lambda: binder.runtime.readiness.is_ready)
    await scene.propose(gang, spread(names))
    proposed = time.perf_counter()
    committed = await scene.decision(Committed)
    print(f"64 members bound {time.perf_counter() - proposed:.3f} s after the proposal")  # noqa: T201 - not judged
    writes, spent_s = (binder.count(f"phalanx_journal_write_duration_seconds_{suffix}") for suffix in ("count", "sum"))
    print(f"{writes:.0f} journal entries took {spent_s * 1000:.1f} ms together")  # noqa: T201 - not judged
    assert writes == 4
    assert scene.bound() == spread(names)
    assert {one.pod: one.node for one in committed.members} == spread(names)
    assert (committed.repaired, committed.accepted, committed.open) == (0, 0, 0)
    annotations = [pod["metadata"]["annotations"][TRANSACTION_ANNOTATION] for pod in scene.pod_manifests()]
    assert annotations == ["t1"] * 64
    assert len(scene.endings()) == 1


async def test_a_transaction_that_waits_blocks_nobody(scene: Scene) -> None:
    """One place for all: while one gang waits for its next round, another is bound; then the first goes on."""
    first, second = scene.gang("first", size=2), scene.gang("second", size=2)
    scene.pods("first", size=2)
    scene.pods("second", size=2)
    await ready(scene, await scene.start_binder(max_transactions=1))
    refuse(scene, "first-1", node="node-001", is_probed=False)
    await scene.propose(first, dict.fromkeys(("first-0", "first-1"), "node-001"), transaction="t1")
    repairing = await scene.decision(Repairing, transaction="t1")
    await scene.propose(second, dict.fromkeys(("second-0", "second-1"), "node-002"), transaction="t2")
    await scene.decision(Committed, transaction="t2")
    assert not scene.endings("t1")
    await scene.answer(repairing, gang=first, nodes={"first-1": "node-002"}, transaction="t1")
    await scene.decision(Committed, transaction="t1")
    assert len(scene.bound()) == 4
