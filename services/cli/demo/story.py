"""The story that the demo tells, act by act. Each act waits for what it shows, and notes its promises."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from services.cli.demo import promises
from services.cli.demo.clusters import GPUS_PER_NODE, NODES, DemoCluster, Refusal
from services.cli.demo.objects import NAMESPACE, DemoGang, group_manifest, job_manifest, namespace_manifest
from services.cli.demo.promises import Promise, Timing
from services.cli.demo.witness import Witness, proposed_for
from services.cli.processes import LocalProcess
from services.core.decisions import Committed, Refused, RolledBack, Waiting
from services.core.names import CONDITION_INITIALLY_SCHEDULED
from services.core.reasons import ReasonCode
from services.runtime.kube import KubeClient

GPUS = NODES * GPUS_PER_NODE
WAIT_S = 60.0
SAY_WITHIN_S = 10.0
ROOM_MESSAGE = "needed pods can be placed"
STEPS = 4

FIRST = DemoGang(name="train-a", members=GPUS, run_s=3.0)
SECOND = DemoGang(name="train-b", members=GPUS, run_s=1.0)
REPAIRED = DemoGang(name="repair", members=16, run_s=1.0)
UNDONE = DemoGang(name="undo", members=16, run_s=1.0, repair_window="0s")
GANGS = (FIRST, SECOND, REPAIRED, UNDONE)

REFUSALS = (
    Refusal(name="demo-repair-7-elsewhere", prefix="repair-7-", nodes=("node-001", "node-002")),
    Refusal(name="demo-undo-5-nowhere", prefix="undo-5-"),
)


@dataclass(slots=True, kw_only=True)
class Story:
    """The demo's acts on one running system. `tell` shows a line to whoever watches."""

    cluster: DemoCluster
    client: KubeClient
    witness: Witness
    tell: Callable[[str], None]
    group_version: str
    kill: LocalProcess | None = None
    is_timed: bool = True
    #: The act about waking, which needs a queue; without one it is left out.
    interlude: Callable[[], Awaitable[list[Promise]]] | None = None
    kept: list[Promise] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    async def play(self) -> None:
        """Play all acts."""
        await self.prepare()
        await self.two_jobs(FIRST, SECOND)
        await self.repair_around()
        await self.undo_whole()
        if self.interlude is not None:
            self.kept += await self.interlude()
        self.kept += [
            promises.never_partial(self.witness, GANGS),
            promises.never_sold_twice(self.witness),
            promises.ended_once(self.witness),
        ]

    async def prepare(self) -> None:
        """Create the namespace and the API server's refusals, and wait for the nodes."""
        await self.client.request_ok("POST", "/api/v1/namespaces", body=namespace_manifest())
        for refusal in REFUSALS:
            await self.cluster.refuse(self.client, refusal)
        async with asyncio.timeout(WAIT_S):
            while await self._usable_nodes() < NODES:  # noqa: ASYNC110 - polls an API, there is no event
                await asyncio.sleep(0.05)

    async def two_jobs(self, first: DemoGang, second: DemoGang) -> None:
        """Two Jobs want all GPUs at once: one gets them, the other waits and says why, then it is its turn."""
        self.tell(f"Two Jobs of {first.members} one-GPU pods arrive mixed on {NODES} nodes of {GPUS_PER_NODE} GPUs.")
        for gang in (first, second):
            await self._create_group(gang)
        killing = asyncio.create_task(self._kill_in_the_middle(first))
        await self._arrive_interleaved(first, second)
        await self._bound(first)
        self.tell(f"{first.name} runs on all {GPUS} GPUs; {second.name} must wait for all of them.")
        await self.witness.until(
            lambda: self._lacks_room(second), timeout_s=WAIT_S, what=f"{second.name} waits for room"
        )
        await killing
        condition = await self._said(second)
        self.tell(f"{second.name} says: {condition.get('message', 'nothing')}")
        await self._bound(second)
        self.tell(f"{first.name} has ended; {second.name} runs on all {GPUS} GPUs.")
        await self._finished(second)
        self.kept += [
            promises.interleaved(self.witness, first, second),
            promises.placed_whole(self.witness, first),
            promises.waits_for(self.witness, second, first),
            promises.says_why(self.witness, second, condition=condition),
            promises.placed_whole(self.witness, second),
        ]
        is_judged = self.is_timed and self.kill is None
        self.timings += [
            promises.bind_time(self.witness, first, goal_s=0.3 if is_judged else None),
            promises.take_over_time(self.witness, second, first, goal_s=0.2 if is_judged else None),
        ]

    async def repair_around(self) -> None:
        """The API refuses one binding of a gang; the member finds another node, and nothing is lost."""
        gang = REPAIRED
        self.tell(f"{gang.name}: the API server will refuse its pod 7 on {' and '.join(REFUSALS[0].nodes)}.")
        await self._create_group(gang)
        await self._create_job(gang)
        await self.witness.until(
            lambda: bool(self.witness.decisions(gang.name, Committed)), timeout_s=WAIT_S, what=f"{gang.name} commits"
        )
        await self._finished(gang)
        self.kept.append(promises.repaired(self.witness, gang))

    async def undo_whole(self) -> None:
        """The API refuses one binding everywhere, and the gang's owner allows no time for repair."""
        gang = UNDONE
        self.tell(f"{gang.name}: the API server will refuse its pod 5 on every node, and repair-window is 0s.")
        await self._create_group(gang)
        await self._create_job(gang)
        await self.witness.until(
            lambda: bool(self.witness.decisions(gang.name, RolledBack)),
            timeout_s=WAIT_S,
            what=f"{gang.name} is undone",
        )
        self.tell(
            f"{gang.name}: all that was bound has been taken back. Its Job makes new pods, which are tried again."
        )
        # The next try must be turned down before anything is written.
        await self.witness.until(
            lambda: bool(self.witness.decisions(gang.name, Refused)),
            timeout_s=WAIT_S,
            what=f"{gang.name} is refused at its next try",
        )
        self.tell(
            f"{gang.name}: after a refusal every binding is tried as a dry run first. The API server refuses one: "
            "none is written, and there is nothing to take back."
        )
        await self.client.request_ok(
            "DELETE",
            f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{gang.name}",
            query={"propagationPolicy": "Background"},
        )
        await self.witness.until(
            lambda: not any(pod.gone_s is None for pod in self.witness.of_gang(gang.name)),
            timeout_s=WAIT_S,
            what=f"the pods of {gang.name} are gone",
        )
        await self.witness.until(
            lambda: not self.witness.has_open_transaction(gang.name), timeout_s=WAIT_S, what=f"{gang.name} is at rest"
        )
        self.kept.append(promises.undone_whole(self.witness, gang))

    async def _arrive_interleaved(self, first: DemoGang, second: DemoGang) -> None:
        """Let both Jobs grow in turns, so that their pods come mixed."""
        for gang in (first, second):
            await self._create_job(gang, parallelism=gang.members // STEPS)
        for step in range(1, STEPS + 1):
            for gang in (first, second):
                wanted = gang.members * step // STEPS
                if step > 1:
                    await self.client.request_ok(
                        "PATCH",
                        f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{gang.name}",
                        body={"spec": {"parallelism": wanted}},
                        content_type="application/merge-patch+json",
                    )
                await self.witness.until(
                    lambda gang=gang, wanted=wanted: len(self.witness.of_gang(gang.name)) >= wanted,  # type: ignore[misc]
                    timeout_s=WAIT_S,
                    what=f"{wanted} pods of {gang.name}",
                )

    async def _create_group(self, gang: DemoGang) -> None:
        path = f"/apis/scheduling.k8s.io/{self.group_version}/namespaces/{NAMESPACE}/podgroups"
        await self.client.request_ok("POST", path, body=group_manifest(gang, api_version=self.group_version))

    async def _create_job(self, gang: DemoGang, *, parallelism: int | None = None) -> None:
        body = job_manifest(gang, parallelism=parallelism or gang.members)
        await self.client.request_ok("POST", f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs", body=body)

    async def _bound(self, gang: DemoGang) -> None:
        await self.witness.until(
            lambda: sum(pod.bound_s is not None for pod in self.witness.of_gang(gang.name)) >= gang.members,
            timeout_s=WAIT_S,
            what=f"{gang.members} pods of {gang.name} bound",
        )

    async def _finished(self, gang: DemoGang) -> None:
        await self.witness.until(
            lambda: sum(pod.finished_s is not None for pod in self.witness.of_gang(gang.name)) >= gang.members,
            timeout_s=WAIT_S,
            what=f"{gang.members} pods of {gang.name} finished",
        )

    async def _usable_nodes(self) -> int:
        nodes = (await self.client.request_ok("GET", "/api/v1/nodes")).json()["items"]
        return sum(not node["spec"].get("taints") for node in nodes)

    async def _said(self, gang: DemoGang) -> dict[str, str]:
        """Return the group's condition once it says what the bus said last, or as it is in the end."""
        path = f"/apis/scheduling.k8s.io/{self.group_version}/namespaces/{NAMESPACE}/podgroups/{gang.name}"
        until_s = self.witness.clock.monotonic() + SAY_WITHIN_S
        while True:
            group = (await self.client.request_ok("GET", path)).json()
            conditions = {one["type"]: one for one in group.get("status", {}).get("conditions", ())}
            condition: dict[str, str] = conditions.get(CONDITION_INITIALLY_SCHEDULED, {})
            is_current = ROOM_MESSAGE in condition.get("message", "")
            if is_current or self.witness.clock.monotonic() > until_s:
                return condition
            await asyncio.sleep(0.05)

    def _lacks_room(self, gang: DemoGang) -> bool:
        """Tell whether the gang waits for room, and no longer for members that were still arriving."""
        events = [one.decision.event for one in self.witness.decisions(gang.name, Waiting)]
        return any(
            reason.code is ReasonCode.INSUFFICIENT_CAPACITY
            for event in events
            if isinstance(event, Waiting)
            for reason in event.reasons
        )

    async def _kill_in_the_middle(self, gang: DemoGang) -> None:
        """Kill a service at the moment when the most depends on it, and start it again."""
        if self.kill is None:
            return
        if self.kill.name == "watcher":
            await self.witness.until(
                lambda: len(self.witness.of_gang(gang.name)) > gang.members // 2, timeout_s=WAIT_S, what="half a gang"
            )
        else:
            await self.witness.until(
                lambda: proposed_for(self.witness, gang.name), timeout_s=WAIT_S, what=f"{gang.name} is proposed"
            )
        self.kill.kill()
        self.tell(f"The {self.kill.name} has been killed (SIGKILL); it is started again.")
        self.kill.start()
        await self.kill.wait_ready()
        self.tell(f"The {self.kill.name} is back.")
