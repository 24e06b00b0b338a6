"""Killed before, after and in the middle of each of its effects, the binder leaves no gang in part.

The first run of a scenario counts the calls of both ports; then each call is struck by each fault, and a new binder
takes over. `judging` says whether the gang is whole or nothing, and whether it ended once.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM, TRANSACTIONS_STREAM
from services.contracts.subjects import transaction_subject
from services.core.decisions import Committed, Repairing, RolledBack
from services.core.objects import GangId, TransactionId
from services.runtime.bus import BusUnavailable, StaleWrite
from services.runtime.kube import KubeClient
from tests.integration.binder.claims_stage import device_gang, judged, own_claims
from tests.integration.binder.harness import Scene, end_task
from tests.integration.binder.judging import Witness
from tests.integration.binder.killing import Fault, Steps, binder
from tests.integration.binder.test_repair_and_undo import refuse

SIZE = 8
LIMIT_S = 20.0
OWNER = {"apiVersion": "example.com/v1", "kind": "Train", "name": "j", "uid": "j", "controller": True}
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A gang of eight, and what the API server refuses; `ending` is how it ends where nobody dies.

    Members that have claims are fewer, because each is written three times.
    """

    name: str
    ending: type
    size: int = SIZE
    has_claims: bool = False
    repair_window_s: float = 30.0
    refuse: Callable[[Scene, str], None] = lambda _scene, _group: None


SCENARIOS = (
    Scenario(name="happy", ending=Committed),
    Scenario(
        name="repair",
        ending=Committed,
        refuse=lambda scene, group: refuse(scene, f"{group}-3", node="node-001", is_probed=False),
    ),
    # The first member's dry run passes, and every later try of it is refused.
    Scenario(
        name="undo", ending=RolledBack, repair_window_s=0.0, refuse=lambda scene, group: refuse(scene, f"{group}-0")
    ),
    Scenario(
        name="claims, repair",
        ending=Committed,
        size=3,
        has_claims=True,
        refuse=lambda scene, group: refuse(scene, f"{group}-1", node="node-001", is_probed=False),
    ),
    Scenario(
        name="claims, undo",
        ending=RolledBack,
        size=3,
        has_claims=True,
        repair_window_s=0.0,
        refuse=lambda scene, group: refuse(scene, f"{group}-0"),
    ),
)


@dataclass(slots=True, kw_only=True)
class Stage:
    """One cluster for all points of a scenario."""

    scene: Scene
    client: KubeClient
    witness: Witness
    is_journal_late: bool = False

    async def play(self, scenario: Scenario, *, steps: Steps) -> list[str]:
        """Play a scenario with one death, and return what is wrong afterwards."""
        scene, group = self.scene, f"g{next(_numbers)}"
        if scenario.has_claims:
            gang, _names = device_gang(scene, group, size=scenario.size, ownerReferences=[OWNER])
        else:
            gang = scene.gang(group, size=scenario.size)
            scene.pods(group, size=scenario.size, ownerReferences=[OWNER])
        scenario.refuse(scene, group)
        await scene.settled()
        self.witness.open()
        placer = asyncio.create_task(self._answer(gang, group, scenario=scenario))
        first = asyncio.create_task(self._binder(steps))
        second: asyncio.Task[None] | None = None
        try:
            await steps.caught_up.wait()
            nodes = {f"{group}-{number}": "node-001" for number in range(scenario.size)}
            await scene.propose(
                gang,
                nodes,
                transaction=group,
                repair_window_s=scenario.repair_window_s,
                claims=own_claims(scene, nodes) if scenario.has_claims else (),
            )
            ended = asyncio.create_task(self._ended(group))
            died = asyncio.create_task(steps.died.wait())
            await asyncio.wait({ended, died, first}, return_when=asyncio.FIRST_COMPLETED)
            if steps.died.is_set():
                await end_task(first)
                second = asyncio.create_task(self._binder(Steps()))
            await ended
            await end_task(died)
            for request in steps.late:
                with contextlib.suppress(StaleWrite, BusUnavailable):
                    await request()
            found = await self.witness.problems(scene.bus, group=group, transaction=group, min_count=scenario.size)
            return found + await self._devices_at_rest()
        finally:
            for task in (placer, first, second):
                if task is not None:
                    await end_task(task)
            self.witness.close()
            await self._clear()

    def _binder(self, steps: Steps) -> Any:
        return binder(self.scene.bus, self.client, steps=steps, is_journal_late=self.is_journal_late)

    async def _devices_at_rest(self) -> list[str]:
        """Return what is wrong with devices, once those of deleted pods are freed by their controller."""

        def is_settled() -> bool:
            return not any(pod["metadata"].get("deletionTimestamp") for pod in self.scene.pod_manifests())

        with contextlib.suppress(TimeoutError):
            await self.scene.until(lambda: is_settled() and not judged(self.scene), limit_s=3)
        return judged(self.scene)

    async def _answer(self, gang: GangId, transaction: str, *, scenario: Scenario) -> None:
        """Play the placer: the first node that has not refused; what is neither bound nor open is promised again."""
        held = {f"{transaction}-{number}": "node-001" for number in range(scenario.size)}
        for number in itertools.count(1):
            repairing = await self.scene.decision(Repairing, transaction=transaction, nth=number, limit_s=None)
            for member in repairing.bound:
                held.pop(member.pod, None)
            held |= {
                one.pod: next(name for name in ("node-001", "node-002", "node-003") if name not in one.excluded_nodes)
                for one in repairing.open
            }
            claims = own_claims(self.scene, held) if scenario.has_claims else ()
            await self.scene.answer(repairing, gang=gang, nodes=held, transaction=transaction, claims=claims)

    async def _ended(self, transaction: str) -> None:
        """Wait until the transaction has ended, and the journal has forgotten it."""
        scene = self.scene
        subject = transaction_subject(TransactionId(transaction))
        async with asyncio.timeout(LIMIT_S):
            await scene.until(lambda: bool(scene.endings(transaction)), limit_s=LIMIT_S)
            while await self._is_journaled(subject):  # noqa: ASYNC110 - a key of a bucket, which nobody announces
                await asyncio.sleep(0.005)

    async def _is_journaled(self, subject: str) -> bool:
        last = await self.scene.bus.last(TRANSACTIONS_STREAM.name, subject=subject)
        return last is not None and bool(last.data)

    async def _clear(self) -> None:
        """Remove the gang with everything that is stored of it, so that later binders read no more than this one."""
        scene = self.scene
        scene.sandbox.faults.clear()
        cluster = scene.sandbox.cluster
        for plural, group in (("pods", ""), ("podgroups", "scheduling.k8s.io"), ("resourceclaims", "resource.k8s.io")):
            kind = cluster.store.kind(plural, group=group)
            for manifest in cluster.store.objects(plural, group=group, namespace="team-a"):
                stored = cluster.store.get(kind, namespace="team-a", name=manifest["metadata"]["name"])
                if stored is not None:
                    cluster.remover.force(stored)
        await scene.settled()
        jetstream = scene.bus._jetstream
        for subject in ("phalanx.cluster.v1.pod.>", "phalanx.cluster.v1.podgroup.>"):
            await jetstream.purge_stream(CLUSTER_STREAM.name, subject=subject)
        await jetstream.purge_stream(PLACEMENT_STREAM.name)


@pytest.fixture
async def stage(scene: Scene) -> AsyncIterator[Stage]:
    """A scene with a client for all binders."""
    await scene.bus.ensure_streams([TRANSACTIONS_STREAM])
    async with await KubeClient.open(scene.kubeconfig, connections=16, user_agent="test") as client:
        yield Stage(scene=scene, client=client, witness=Witness(store=scene.sandbox.store))


@pytest.mark.timeout(90)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
async def test_whole_or_nothing_wherever_it_dies(stage: Stage, scenario: Scenario) -> None:
    """Every call of both ports, struck by every fault."""
    counted = Steps()
    assert await stage.play(scenario, steps=counted) == []
    assert type(stage.scene.decisions[-1].event) is scenario.ending
    print(f"\n{scenario.name}: {len(counted.names)} calls")  # noqa: T201 - the table is for people
    wrong: list[str] = []
    for at, name in enumerate(counted.names, start=1):
        cells = []
        for fault in Fault:
            steps = Steps(at=at, fault=fault)
            problems = await stage.play(scenario, steps=steps)
            assert len(steps.names) >= at, "the call was never made"
            ending = type(stage.scene.decisions[-1].event).__name__
            cells.append(f"{fault.value}: {'; '.join(problems) or ending}")
            wrong += [f"{scenario.name} {at} {name}, {fault.value}: {problem}" for problem in problems]
        print(f"{at:4} {name:18} {' | '.join(cells)}")  # noqa: T201 - the table is for people
    assert wrong == []


@pytest.mark.timeout(60)
async def test_a_journal_written_after_the_bindings_is_found_out(stage: Stage) -> None:
    """The rule that is tested above matters: broken, it leaves a gang in part somewhere."""
    scenario = SCENARIOS[-1]
    stage.is_journal_late = True
    counted = Steps()
    assert await stage.play(scenario, steps=counted) == []
    bindings = [at for at, name in enumerate(counted.names, start=1) if name == "bind"]
    wrong = [await stage.play(scenario, steps=Steps(at=at, fault=Fault.LANDS_LATE)) for at in bindings]
    assert any("at rest" in problem for problems in wrong for problem in problems)
