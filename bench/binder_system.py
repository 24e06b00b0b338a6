"""Whole gangs on a real control plane with played nodes: how soon they are bound, and how soon an undo is over.

Phalanx runs whole, each service with its own rights, beside the native scheduler; both find the same idle cluster.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.binder_burst import REST_S
from bench.binding_log import FAILED, BindingLog, Entry
from services.core.decisions import Proposed
from services.sandbox.controllers.kubelets import STOP_SECONDS
from tests.builders import pod_manifest
from tests.e2e.api import Api, Manifest
from tests.e2e.gangs import submit_group
from tests.e2e.kubernetes.gangs import decided, emptied
from tests.e2e.kubernetes.refusals import refusing
from tests.e2e.kubernetes.system import GPUS, System, running_system
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import ClusterConfig

PHALANX, NATIVE = "phalanx", "default-scheduler"
NAMESPACE = "bench"
CONFIRMED_AFTER_S = 0.1
"""How long a played node takes to confirm a deletion."""

_CREATING = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoTimes:
    """What the API server saw of an undo, in seconds."""

    refusal_to_last_delete_s: float
    last_delete_to_next_binding_s: float


@dataclass(slots=True, kw_only=True)
class SystemStage:
    """The running system and its audit log."""

    system: System
    api: Api
    log: BindingLog
    _rounds: int = 0

    async def bound_after(self, scheduler: str) -> float:
        """Submit a gang of all GPUs; returns seconds from the last pod's creation to the last binding."""
        name = self._next("gang")
        await submit_group(self.api, name, min_count=GPUS)
        created_at = await self._create(self._pods(name, scheduler=scheduler))
        bindings = await self._bindings(name, count=GPUS)
        await self._clear()
        return (bindings[-1].answered_at - created_at).total_seconds()

    async def undone(self) -> UndoTimes:
        """Let one binding of a gang be refused that has no repair window, while another gang waits for its GPUs."""
        name, following = self._next("undone"), self._next("next")
        stops = {STOP_SECONDS: f"{CONFIRMED_AFTER_S:g}"}
        annotations = {"phalanx.dev/repair-window": "0s", "phalanx.dev/allow-delete": "true"}
        async with refusing(self.system, self.api, f"{name}-{GPUS - 1}", spares_dry_runs=True):
            await self._create(self._pods(following, annotations=stops))
            gang = await submit_group(self.api, name, min_count=GPUS, annotations=annotations)
            await self._create(self._pods(name, annotations=stops))
            await decided(self.system, gang, Proposed)
            # Its pods are there already: from now on it waits for nothing but GPUs.
            await submit_group(self.api, following, min_count=GPUS)
            bindings = await self._bindings(following, count=GPUS)
        entries = [one for one in self.log.of(NAMESPACE) if one.pod.rpartition("-")[0] == name]
        victim = f"{name}-{GPUS - 1}"
        refused = next(one for one in entries if one.pod == victim and one.is_binding and not one.is_dry_run)
        deletes = [one for one in entries if one.verb == "delete" and one.code < FAILED and one.by_binder]
        await self._clear()
        last = max(one.answered_at for one in deletes)
        return UndoTimes(
            refusal_to_last_delete_s=(last - refused.answered_at).total_seconds(),
            last_delete_to_next_binding_s=(bindings[0].answered_at - last).total_seconds(),
        )

    def _next(self, word: str) -> str:
        self._rounds += 1
        return f"{word}-{self._rounds}"

    def _pods(
        self, group: str, *, scheduler: str = PHALANX, annotations: dict[str, str] | None = None
    ) -> Iterable[Manifest]:
        for number in range(GPUS):
            yield pod_manifest(
                f"{group}-{number}",
                namespace=NAMESPACE,
                group=group,
                gpus=1,
                scheduler=scheduler,
                annotations=annotations,
            )

    async def _create(self, pods: Iterable[Manifest]) -> datetime:
        """Create the pods, and return when the last one was there."""
        waiting = iter(pods)

        async def create() -> None:
            for manifest in waiting:
                await self.api.create(manifest)

        async with asyncio.TaskGroup() as group:
            for _ in range(_CREATING):
                group.create_task(create())
        return datetime.fromtimestamp(time.time(), tz=UTC)

    async def _bindings(self, group: str, *, count: int) -> list[Entry]:
        def found() -> list[Entry]:
            return [one for one in self.log.of(NAMESPACE) if one.is_bound and one.pod.rpartition("-")[0] == group]

        async def is_whole() -> bool:
            return len(found()) >= count

        await eventually(is_whole, what=f"{group} is bound", timeout_s=60)
        return found()

    async def _clear(self) -> None:
        await emptied(self.api)
        await self.system.at_rest()
        await asyncio.sleep(REST_S)


@asynccontextmanager
async def system_stage(folder: Path) -> AsyncIterator[SystemStage]:
    """Run everything until the block ends."""
    async with running_system(folder, config=ClusterConfig(scheduler=True)) as system:
        api = system.api(NAMESPACE)
        await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        log = BindingLog.reading(system.audit.log)
        yield SystemStage(system=system, api=api, log=log)
