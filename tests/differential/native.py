"""Lets the real kube-scheduler decide a scenario, gang after gang, and keeps what it saw before each.

No controller manager runs: nothing here needs one, and nothing then writes to the nodes. Each gang arrives whole (its
pods first, then the PodGroup that lets them in), so that the scheduler tries all members together. It tries them once,
in the order in which they came; a gang that it refuses is tried a second time in the other order, and only then counts
as refused. What is not bound in the end is taken away, so that the next gang meets the same cluster on both sides.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from tests.differential.features import Feature
from tests.differential.following import GROUPS, PODS, Following
from tests.differential.scenarios import GangCase, Manifest, Scenario
from tests.differential.staging import Stage
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import Connection, Target, connected

CONFIG = ClusterConfig(scheduler=True, controller_manager=False)

_DUMPED = (
    "/api/v1/nodes",
    "/api/v1/namespaces",
    "/api/v1/pods",
    "/api/v1/persistentvolumes",
    "/api/v1/persistentvolumeclaims",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One gang as kube-scheduler met it.

    `objects` is the cluster before, `members` the gang's pods as the API server admitted them, with its PodGroup in
    `group`. `nodes` says where kube-scheduler bound members, by pod name; `said` is its reason where it bound too few.
    """

    seed: int
    case: GangCase
    features: frozenset[Feature]
    objects: tuple[Manifest, ...]
    group: Manifest | None
    members: tuple[Manifest, ...]
    nodes: Mapping[str, str]
    said: str = ""

    @property
    def input(self) -> tuple[Manifest, ...]:
        """What a planner is asked about."""
        return (*self.objects, *((self.group,) if self.group else ()), *self.members)

    @property
    def is_placed(self) -> bool:
        """Whether kube-scheduler placed the gang."""
        return len(self.nodes) >= self.case.wanted


class NativeScheduler:
    """A control plane with kube-scheduler, for one scenario at a time."""

    def __init__(self, connection: Connection, *, following: Following) -> None:
        self._connection = connection
        self._following = following

    async def decide(self, scenario: Scenario) -> list[Observation]:
        """Play the scenario, and take it away again."""
        stage = Stage(self._connection, scenario=scenario, following=self._following)
        await stage.build()
        observations = []
        for case in scenario.gangs:
            before = await self._dump()
            observations.append(await self._decide(stage, scenario, case, before=before))
        await stage.clear()
        return observations

    async def _decide(
        self, stage: Stage, scenario: Scenario, case: GangCase, *, before: tuple[Manifest, ...]
    ) -> Observation:
        group, members = await stage.submit(case)
        nodes, said = await self._answer(stage, case, group=group, members=members)
        if not nodes:
            again = replace(case, pods=tuple(reversed(case.pods)))
            another, retried = await stage.submit(again)
            nodes, said = await self._answer(stage, again, group=another, members=retried)
        return Observation(
            seed=scenario.seed,
            case=case,
            features=case.features | scenario.features,
            objects=before,
            group=group,
            members=members,
            nodes=nodes,
            said=said,
        )

    async def _answer(
        self, stage: Stage, case: GangCase, *, group: Manifest | None, members: tuple[Manifest, ...]
    ) -> tuple[dict[str, str], str]:
        """Where the members are once all is said, and what was said; what is not bound is gone afterwards."""
        if case.is_held_back:
            # Nothing is said about such a gang: when a later pod has been looked at, it would have been too.
            await stage.pass_by(f"after-{case.name}")
        else:
            await self._following.until(
                lambda seen: _is_decided(seen, case, group=group, members=members), what=_what(case)
            )
        bound = {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self._following.latest(members)
            if pod["spec"].get("nodeName")
        }
        said = self._said([*([group] if group else []), *members])
        if bound:
            await stage.withdraw_unbound(members)
        else:
            await stage.withdraw([*([group] if group else []), *members])
        return bound, said

    def _said(self, items: Iterable[Manifest]) -> str:
        conditions = [
            one
            for item in self._following.latest(items)
            for kind in (_SCHEDULED_GROUP, "PodScheduled")
            for one in _conditions(item, kind)
        ]
        texts = [one.get("message") or one.get("reason") for one in conditions if one["status"] == "False"]
        return "; ".join(dict.fromkeys(text for text in texts if text))

    async def _dump(self) -> tuple[Manifest, ...]:
        lists = await asyncio.gather(*(self._connection.request("GET", path) for path in _DUMPED))
        return tuple(_typed(item, of=listed) for listed in lists for item in listed["items"])


_SCHEDULED_GROUP = "PodGroupInitiallyScheduled"


def _typed(item: Manifest, *, of: Manifest) -> Manifest:
    """An item of a list, which says only once what its items are."""
    return {"apiVersion": of["apiVersion"], "kind": of["kind"].removesuffix("List"), **item}


def _is_decided(seen: Following, case: GangCase, *, group: Manifest | None, members: Iterable[Manifest]) -> bool:
    """Whether every pod is bound or told why not, and the gang is not between two answers.

    A refused gang is tried again by itself when something happens in the cluster. Then its pods carry the refusal of
    the first try while the bindings of the second come one by one.
    """
    if group is not None and not any(_conditions(seen.latest([group])[0], _SCHEDULED_GROUP)):
        return False
    pods = seen.latest(members)
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
    if 0 < bound < case.wanted and Feature.BASIC_POLICY not in case.features:
        return False
    return all(pod["spec"].get("nodeName") or _is_refused(pod) for pod in pods)


def _is_refused(pod: Manifest) -> bool:
    return any(one["status"] == "False" for one in _conditions(pod, "PodScheduled"))


def _conditions(item: Manifest, kind: str) -> Iterable[Manifest]:
    return (one for one in (item.get("status") or {}).get("conditions") or () if one["type"] == kind)


def _what(case: GangCase) -> str:
    return f"kube-scheduler has decided {case.pods[0]['metadata']['namespace']}/{case.name}"


@asynccontextmanager
async def native_scheduler() -> AsyncIterator[NativeScheduler]:
    """A control plane that lives as long as the block."""
    async with Cluster(CONFIG) as cluster, connected(Target.from_kubeconfig(cluster.kubeconfig)) as connection:
        following = Following(connection)
        tasks = [asyncio.create_task(following.follow(path)) for path in (PODS, GROUPS)]
        try:
            yield NativeScheduler(connection, following=following)
            cluster.check()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
