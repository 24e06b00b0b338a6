"""Gangs on the real control plane, and what is looked for afterwards."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from services.core.decisions import Committed, DecisionEvent
from services.core.objects import GangId
from services.sandbox.controllers.kubelets import RUN_SECONDS
from tests.builders import GPU, job_manifest
from tests.e2e.api import Api, Manifest
from tests.e2e.gangs import submit_group
from tests.e2e.kubernetes.system import System
from tests.e2e.kubernetes.witness import Version, bound_at
from tests.e2e.waiting import POLL_S, eventually, until

E = TypeVar("E", bound=DecisionEvent)

LONG_S = 60.0
_ENDED = ("Succeeded", "Failed")


async def submit_job(
    system: System, api: Api, name: str, *, size: int, repair_window: str = "", run_s: float = 0.0
) -> GangId:
    """Create a PodGroup and a Job of one-GPU pods, all of which it needs. Pods run for ever where `run_s` is 0.

    Pods that were disrupted, as by an undo, do not count against the Job, and each index waits for itself alone.
    """
    annotations = {"phalanx.dev/repair-window": repair_window} if repair_window else {}
    gang = await submit_group(api, name, min_count=size, annotations=annotations, version=system.group_version)
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    job = job_manifest(
        name,
        count=size,
        group=name,
        namespace=api.namespace,
        podFailurePolicy={"rules": [ignored]},
        podReplacementPolicy="Failed",
        backoffLimitPerIndex=6,
    )
    job["spec"]["template"]["metadata"]["annotations"] = {RUN_SECONDS: f"{run_s:g}"}
    await api.create(job)
    return gang


def events_of(system: System, gang: GangId, kind: type[E]) -> list[E]:
    """Return what was decided about a gang, of one type."""
    return [one.event for one in system.recorder.of(gang) if isinstance(one.event, kind)]


async def decided(system: System, gang: GangId, kind: type[E], *, timeout_s: float = LONG_S) -> E:
    """Wait until something was decided about a gang, and return it."""
    what = f"{kind.__name__} of {gang}"

    def is_decided() -> bool:
        system.check()
        return bool(events_of(system, gang, kind))

    try:
        await until(is_decided, what=what, timeout_s=timeout_s)
    except AssertionError as error:
        seen = [type(one.event).__name__ for one in system.recorder.of(gang)]
        raise AssertionError(f"{error}; seen so far: {seen}") from None
    return events_of(system, gang, kind)[0]


async def committed(system: System, gang: GangId, *, timeout_s: float = LONG_S) -> Committed:
    """Wait until a gang is committed."""
    return await decided(system, gang, Committed, timeout_s=timeout_s)


async def first_committed(system: System, gangs: Mapping[str, GangId]) -> str:
    """Wait until one of these gangs is committed, and return its name."""

    def found() -> list[str]:
        system.check()
        return [name for name, gang in gangs.items() if events_of(system, gang, Committed)]

    await until(found, what=f"one of {', '.join(gangs.values())} is committed", timeout_s=LONG_S)
    (name,) = found()
    return name


async def placed(api: Api, group: str) -> dict[str, str]:
    """Return node by pod of the members of a group that are bound, and neither ending nor failed."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in await api.list("Pod")
        if _group_of(pod) == group and _is_placed(pod)
    }


async def oversubscribed(api: Api) -> dict[str, int]:
    """Return the nodes that carry more GPUs of living pods, of whatever scheduler, than they have."""
    used: Counter[str] = Counter()
    for pod in await api.list("Pod", everywhere=True):
        if pod["spec"].get("nodeName") and pod["status"]["phase"] not in _ENDED:
            used[pod["spec"]["nodeName"]] += sum(
                int(((one.get("resources") or {}).get("limits") or {}).get(GPU, 0)) for one in pod["spec"]["containers"]
            )
    room = {one["metadata"]["name"]: int(one["status"]["allocatable"][GPU]) for one in await api.list("Node")}
    return {node: count for node, count in used.items() if count > room[node]}


@dataclass(slots=True, kw_only=True)
class RestWatch:
    """Looks again and again whether a gang is partly bound while it has no open transaction."""

    system: System
    api: Api
    #: How many members each watched group needs.
    needed: Mapping[str, int]
    violations: list[str] = field(default_factory=list)
    looks: int = 0

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self._look()
            await asyncio.sleep(POLL_S)

    async def _look(self) -> None:
        # Pods, then every decision that was stored by then, then the same pods again: only so they belong together.
        before = await self._counts()
        await self.system.caught_up()
        if await self._counts() != before:
            return
        self.looks += 1
        for group, count in before.items():
            gang = GangId(f"podgroup/{self.api.namespace}/{group}")
            if 0 < count < self.needed[group] and not self.system.is_open(gang):
                self.violations.append(f"{gang} is at rest with {count} of {self.needed[group]} members bound")

    async def _counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for pod in await self.api.list("Pod"):
            group = _group_of(pod)
            if group in self.needed and _is_placed(pod):
                counts[group] += 1
        return counts


@asynccontextmanager
async def never_partly_bound(system: System, api: Api, **needed: int) -> AsyncIterator[None]:
    """Look until the block ends; fails at its end where a group was partly bound at rest, or a node oversubscribed."""
    watch = RestWatch(system=system, api=api, needed=needed)
    task = asyncio.create_task(watch.run(), name="rest-watch")
    try:
        yield
        assert not task.done(), f"the watch itself ended: {task}"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    assert not watch.violations, watch.violations[:5]
    assert watch.looks, "nothing was ever looked at"
    assert await oversubscribed(api) == {}


def last_bound_at(members: Mapping[str, list[Version]]) -> int:
    """Return the revision in which the last of these pods was bound. All must have been."""
    revisions = [bound_at(versions) for versions in members.values()]
    found = [one for one in revisions if one is not None]
    assert len(found) == len(revisions), f"{len(revisions) - len(found)} of {len(revisions)} pods were never bound"
    return max(found)


async def emptied(api: Api) -> None:
    """Delete what runs in a namespace, so that the next test has all nodes."""

    async def is_empty() -> bool:
        left = 0
        for kind in ("Job", "Pod", "PodGroup"):
            for item in await _listed(api, kind):
                left += 1
                await api.delete(kind, item["metadata"]["name"], grace_s=0)
        return not left

    await eventually(is_empty, what=f"namespace {api.namespace} is empty")


async def _listed(api: Api, kind: str) -> list[Manifest]:
    if kind != "PodGroup":
        return await api.list(kind)
    served = await api.client.served_versions("scheduling.k8s.io")
    return await api.list(kind) if "v1beta1" in served else []


def _group_of(pod: Mapping[str, Any]) -> str:
    return str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName", ""))


def _is_placed(pod: Mapping[str, Any]) -> bool:
    is_ending = "deletionTimestamp" in pod["metadata"]
    return bool(pod["spec"].get("nodeName")) and not is_ending and pod["status"]["phase"] != "Failed"
