"""Gangs and Jobs that come and go at random, by a seed, while pods are deleted, nodes vanish, and services are killed.

Every act is one of a user, an operator or an accident. It leaves nothing that has to be undone for the gangs to finish:
`close` lets the cluster recover, and then all of them must.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.sandbox.controllers.kubelets import RUN_SECONDS
from tests.builders import job_manifest, pod_group_manifest
from tests.chaos.nursery import Binder
from tests.chaos.stage import Stage
from tests.chaos.timeline import Timeline
from tests.e2e.api import Api, Manifest
from tests.e2e.waiting import eventually

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0
MOST_JOBS = 10
"""That have not finished, at once."""

SIZES = (1, 2, 3, 4, 6, 8)
GPUS = (1, 1, 1, 2, 4)
REPAIR_WINDOWS = ("", "0s", "2s", "10s")
LONGEST_RUN_S = 8.0
CLOSE_S = 150.0
"""In which everything must have finished, once the cluster is well again."""


@dataclass(slots=True, kw_only=True)
class Workload:
    """Acts until it is closed. `elected` are the binders of which one leads."""

    stage: Stage
    api: Api
    rng: random.Random
    timeline: Timeline
    elected: list[Binder]
    acts: dict[str, int] = field(default_factory=dict)
    _serial: int = 0
    _cordoned: set[str] = field(default_factory=set)
    _removed: set[str] = field(default_factory=set)

    async def run(self, *, for_s: float) -> None:
        """Do one thing after the other for that long."""
        async with asyncio.timeout(for_s + CLOSE_S):
            loop = asyncio.get_running_loop()
            end_s = loop.time() + for_s
            while loop.time() < end_s:
                await self._act()
                await asyncio.sleep(self.rng.uniform(SHORTEST_PAUSE_S, LONGEST_PAUSE_S))

    async def close(self) -> None:
        """Make the cluster well again, and wait until everything that was asked for has finished."""
        self.timeline.note("nothing more happens; the cluster recovers")
        await self.stage.kubelets.register()
        for node in self.stage.kubelets.names:
            await self._cordon(node, is_cordoned=False)
        await eventually(self._has_finished, what="every Job has finished", timeout_s=CLOSE_S)

    def _acts(self) -> list[tuple[int, str, Callable[[], Awaitable[str]]]]:
        """Return what may be done, each with its weight."""
        return [
            (10, "gang", self._submit_gang),
            (4, "job", self._submit_job),
            (5, "delete pod", self._delete_pod),
            (2, "delete job", self._delete_job),
            (3, "cordon", self._cordon_one),
            (3, "uncordon", self._uncordon_one),
            (1, "remove node", self._remove_node),
            (2, "add nodes", self._add_nodes),
            (2, "kill a binder", self._kill_binder),
            (1, "kill another service", self._kill_service),
        ]

    async def _act(self) -> None:
        acts = self._acts()
        ((_, name, act),) = self.rng.choices(acts, weights=[weight for weight, _, _ in acts])
        told = await act()
        if told:
            self.acts[name] = self.acts.get(name, 0) + 1
            self.timeline.note(f"{name}: {told}")

    async def _submit_gang(self) -> str:
        if await self._is_full():
            return ""
        name, size = self._named("gang"), self.rng.choice(SIZES)
        window = self.rng.choice(REPAIR_WINDOWS)
        annotations = {"phalanx.dev/repair-window": window} if window else {}
        group = pod_group_manifest(name, min_count=size, namespace=self.api.namespace, annotations=annotations)
        await self.api.create(group)
        return await self._submit(name, size=size, group=name) + f", repair window {window or 'as set'}"

    async def _submit_job(self) -> str:
        if await self._is_full():
            return ""
        return await self._submit(self._named("job"), size=self.rng.choice(SIZES[:3]), group="")

    async def _submit(self, name: str, *, size: int, group: str) -> str:
        gpus, run_s = self.rng.choice(GPUS), self.rng.uniform(0.5, LONGEST_RUN_S)
        ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        job = job_manifest(
            name,
            count=size,
            group=group,
            namespace=self.api.namespace,
            pod_fields={"gpus": gpus, "terminationGracePeriodSeconds": 2},
            podFailurePolicy={"rules": [ignored]},
            podReplacementPolicy="Failed",
            backoffLimitPerIndex=20,
        )
        job["spec"]["template"]["metadata"]["annotations"] = {RUN_SECONDS: f"{run_s:.2f}"}
        await self.api.create(job)
        return f"{name}, {size} of {gpus} GPUs for {run_s:.1f} s"

    async def _delete_pod(self) -> str:
        pods = [pod for pod in await self.api.list("Pod") if not _has_ended(pod)]
        if not pods:
            return ""
        name, grace_s = self.rng.choice(pods)["metadata"]["name"], self.rng.choice((None, 0))
        await self.api.delete("Pod", name, grace_s=grace_s)
        return f"{name}{' by force' * (grace_s == 0)}"

    async def _delete_job(self) -> str:
        jobs = await self._unfinished()
        if not jobs:
            return ""
        name = self.rng.choice(jobs)["metadata"]["name"]
        path = f"/apis/batch/v1/namespaces/{self.api.namespace}/jobs/{name}"
        await self.api.client.request("DELETE", path, body={"propagationPolicy": "Background"})
        return str(name)

    async def _cordon_one(self) -> str:
        free = [one for one in self.stage.kubelets.names if one not in self._cordoned | self._removed]
        # One is left, so that something goes on.
        if len(free) < len(self.stage.kubelets.names) // 2:
            return ""
        return await self._cordon(self.rng.choice(free), is_cordoned=True)

    async def _uncordon_one(self) -> str:
        there = sorted(self._cordoned - self._removed)
        return await self._cordon(self.rng.choice(there), is_cordoned=False) if there else ""

    async def _cordon(self, node: str, *, is_cordoned: bool) -> str:
        await self.api.patch("Node", node, {"spec": {"unschedulable": is_cordoned}})
        (self._cordoned.add if is_cordoned else self._cordoned.discard)(node)
        return node

    async def _remove_node(self) -> str:
        there = [one for one in self.stage.kubelets.names if one not in self._removed]
        if len(self._removed) > 1:
            return ""
        node = self.rng.choice(there)
        await self.api.delete("Node", node)
        self._removed.add(node)
        self._cordoned.discard(node)
        return node

    async def _add_nodes(self) -> str:
        if not self._removed:
            return ""
        removed, self._removed = sorted(self._removed), set()
        await self.stage.kubelets.register()
        return ", ".join(removed)

    async def _kill_binder(self) -> str:
        victim = self.rng.choice(self.elected)
        await victim.kill()
        self.elected.remove(victim)
        self.elected.append(await self.stage.bear(is_elected=True))
        return f"{victim.name}; {self.elected[-1].name} is started"

    async def _kill_service(self) -> str:
        name = self.rng.choice(sorted(self.stage.services))
        process = self.stage.services[name]
        process.kill()
        process.start()
        return name

    async def _is_full(self) -> bool:
        return len(await self._unfinished()) >= MOST_JOBS

    async def _unfinished(self) -> list[Manifest]:
        return [job for job in await self.api.list("Job") if not _is_over(job)]

    async def _has_finished(self) -> bool:
        return not await self._unfinished() and not self.stage.bucket.open()

    def _named(self, kind: str) -> str:
        self._serial += 1
        return f"{kind}-{self._serial:03d}"


def _is_over(job: Manifest) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    is_ended = any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)
    return is_ended or "deletionTimestamp" in job["metadata"]


def _has_ended(pod: Manifest) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"} or "deletionTimestamp" in pod["metadata"]
