"""Puts a scenario's objects onto an API server and takes them away again."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from tests.differential.drawing_cluster import Site
from tests.differential.drawing_volumes import bound_claim
from tests.differential.following import GROUPS, Following
from tests.differential.scenarios import SEED_LABEL, Claim, Fate, GangCase, Manifest, Scenario, StandingPod
from tests.kubernetes.connection import MERGE, STRATEGIC, Connection, RequestError

_NOT_FOUND = 404
_AT_ONCE = {"gracePeriodSeconds": 0}
_GUARD = "differential.phalanx.dev/guard"

_OF_THE_CLUSTER = (
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/csinodes",
    "/apis/node.k8s.io/v1/runtimeclasses",
)
"""Collections whose objects do not go with a namespace."""


class Stage:
    """The objects of one scenario on the API server."""

    def __init__(self, connection: Connection, *, scenario: Scenario, following: Following) -> None:
        self._connection = connection
        self._scenario = scenario
        self._following = following
        self._guard = f"s{scenario.seed}-guard"

    async def build(self) -> None:
        """Make everything but the gangs, and wait until the scheduler knows it."""
        scenario = self._scenario
        await self._all("/api/v1/namespaces", scenario.namespaces)
        for path, items in scenario.others.items():
            await self._all(path, items)
        guard_claim = _guard_claim(scenario, node=self._guard)
        await _together(self._bind_volume(claim) for claim in scenario.claims)
        await self._bind_volume(guard_claim)
        await _together(self._make_node(node) for node in scenario.nodes)
        for pod in scenario.standing:
            await self._stand(pod)
        await self._make_node(_guard_node(scenario, name=self._guard))
        await self._until_known(guard_claim)

    async def submit(self, case: GangCase) -> tuple[Manifest | None, tuple[Manifest, ...]]:
        """Create the pods, then their group, and return both as they were admitted.

        The scheduler hears of pods and of groups by two watches: the group comes when it has heard of all the pods.
        """
        path = f"/api/v1/namespaces/{self._scenario.namespace}/pods"
        members = tuple([await self._connection.request("POST", path, body=pod) for pod in case.pods])
        if case.group is None:
            return None, members
        await self.pass_by(f"before-{case.name}")
        return await self._connection.request("POST", self._groups, body=case.group), members

    async def pass_by(self, name: str) -> None:
        """Wait until the scheduler has refused a pod that comes now: it has seen all pods that came before."""
        pod = _bare_pod(name, self._scenario)
        pod["spec"]["nodeSelector"] = {_GUARD: "nowhere"}
        made = await self._connection.request("POST", f"/api/v1/namespaces/{self._scenario.namespace}/pods", body=pod)

        def is_refused(seen: Following) -> bool:
            (latest,) = seen.latest([made])
            conditions = latest["status"].get("conditions") or ()
            return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)

        await self._following.until(is_refused, what=f"pod {name} is refused")
        await self.withdraw_unbound([made])

    async def withdraw(self, items: Iterable[Manifest]) -> None:
        """Delete a gang of which nothing is bound, and wait until it is gone: its names come again."""
        gone = list(items)
        path = f"/api/v1/namespaces/{self._scenario.namespace}/pods"
        for item in gone:
            if item["kind"] == "Pod":
                await self._delete(f"{path}/{item['metadata']['name']}")
            else:
                await self._delete_group(item["metadata"]["name"])
        await self._following.until(lambda seen: not any(map(seen.has, gone)), what="the gang is withdrawn")

    async def withdraw_unbound(self, members: Iterable[Manifest]) -> None:
        """Delete the members that are not bound."""
        left = [pod for pod in self._following.latest(members) if not pod["spec"].get("nodeName")]
        path = f"/api/v1/namespaces/{self._scenario.namespace}/pods"
        await _together(self._delete(f"{path}/{pod['metadata']['name']}") for pod in left)
        await self._following.until(
            lambda seen: not any(seen.has(pod) for pod in left), what="unbound members are deleted"
        )

    async def clear(self) -> None:
        """Delete everything, and wait until it is gone."""
        names = [namespace["metadata"]["name"] for namespace in self._scenario.namespaces]
        for name in names:
            await self._delete_all(f"/api/v1/namespaces/{name}/pods")
            await self._delete_all(f"/api/v1/namespaces/{name}/persistentvolumeclaims")
        for group in (await self._connection.request("GET", self._groups))["items"]:
            await self._delete_group(group["metadata"]["name"])
        for path in _OF_THE_CLUSTER:
            await self._delete_all(path)
        await self._following.until(lambda seen: not seen.remaining(names), what=f"{names} are empty")
        await _together(self._finalize(name) for name in names)

    @property
    def _groups(self) -> str:
        return GROUPS.replace("/podgroups", f"/namespaces/{self._scenario.namespace}/podgroups")

    async def _all(self, path: str, items: Iterable[Manifest]) -> None:
        await _together(self._connection.request("POST", path, body=item) for item in items)

    async def _bind_volume(self, pair: Claim) -> None:
        """Make both as a volume controller leaves them."""
        namespace = pair.claim["metadata"]["namespace"]
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        claim = await self._connection.request("POST", claims, body=pair.claim)
        volume = dict(pair.volume)
        volume["spec"] = {**volume["spec"], "claimRef": {**volume["spec"]["claimRef"], "uid": claim["metadata"]["uid"]}}
        await self._connection.request("POST", "/api/v1/persistentvolumes", body=volume)
        for path, name in ((claims, claim), ("/api/v1/persistentvolumes", volume)):
            await self._connection.request(
                "PATCH",
                f"{path}/{name['metadata']['name']}/status",
                body={"status": {"phase": "Bound"}},
                content_type=MERGE,
            )

    async def _make_node(self, node: Manifest) -> None:
        """Create a node; admission taints each new one as not ready, which is taken back."""
        await self._connection.request("POST", "/api/v1/nodes", body=node)
        taints = node["spec"].get("taints")
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        await self._connection.request("PATCH", path, body={"spec": {"taints": taints}}, content_type=MERGE)

    async def _stand(self, pod: StandingPod) -> None:
        namespace = pod.manifest["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/pods"
        made = await self._connection.request("POST", path, body=pod.manifest)
        path = f"{path}/{made['metadata']['name']}"
        status = pod.status
        if pod.fate in {Fate.SUCCEEDED, Fate.FAILED}:
            status = {"phase": pod.fate.value.capitalize()}
        if status is not None:
            await self._connection.request("PATCH", f"{path}/status", body={"status": status}, content_type=STRATEGIC)
        if pod.fate is Fate.TERMINATING:
            await self._connection.request("DELETE", path)

    async def _until_known(self, claim: Claim) -> None:
        """Wait until the scheduler has bound a pod to the last node with the last claim.

        The events of one kind come in order: then it knows all nodes, pods, claims and volumes. The pod takes the only
        slot of that node, which has no label that rules are about: neither side can use it, and no rule counts it.
        """
        pod = _bare_pod("guard", self._scenario)
        pod["spec"]["tolerations"] = [{"key": _GUARD, "operator": "Exists"}]
        name = claim.claim["metadata"]["name"]
        pod["spec"]["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}}]
        made = await self._connection.request("POST", f"/api/v1/namespaces/{self._scenario.namespace}/pods", body=pod)

        def is_bound(seen: Following) -> bool:
            return bool(seen.latest([made])[0]["spec"].get("nodeName"))

        await self._following.until(is_bound, what=f"the guard of seed {self._scenario.seed} is bound")

    async def _delete(self, path: str) -> None:
        try:
            await self._connection.request("DELETE", path, body=_AT_ONCE)
        except RequestError as error:
            if error.code != _NOT_FOUND:
                raise

    async def _delete_group(self, name: str) -> None:
        """Delete a PodGroup, whose finalizer no controller takes off here."""
        path = f"{self._groups}/{name}"
        await self._connection.request("DELETE", path)
        await self._release(path)

    async def _release(self, path: str) -> None:
        try:
            await self._connection.request("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=MERGE)
        except RequestError as error:
            if error.code != _NOT_FOUND:
                raise

    async def _delete_all(self, path: str) -> None:
        """Delete this scenario's objects of one collection."""
        query = {"labelSelector": f"{SEED_LABEL}={self._scenario.seed}"}
        items = (await self._connection.request("GET", path, query=query))["items"]

        async def one(item: Manifest) -> None:
            each = f"{path}/{item['metadata']['name']}"
            await self._delete(each)
            if item["metadata"].get("finalizers"):
                await self._release(each)

        await _together(one(item) for item in items)

    async def _finalize(self, name: str) -> None:
        """Delete an empty namespace, which no controller does here."""
        path = f"/api/v1/namespaces/{name}"
        namespace = await self._connection.request("DELETE", path)
        body = {**namespace, "spec": {"finalizers": []}}
        await self._connection.request("PUT", f"{path}/finalize", body=body)


def _bare_pod(name: str, scenario: Scenario) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": scenario.namespace,
            "labels": {SEED_LABEL: str(scenario.seed)},
        },
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }


def _guard_node(scenario: Scenario, *, name: str) -> Manifest:
    resources = {"cpu": "1", "memory": "1Gi", "pods": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {SEED_LABEL: str(scenario.seed), _GUARD: name}},
        "spec": {"taints": [{"key": _GUARD, "effect": "NoSchedule"}]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "there"}],
        },
    }


def _guard_claim(scenario: Scenario, *, node: str) -> Claim:
    """A claim whose volume is on the guard's node only."""
    from_here = [{"matchExpressions": [{"key": _GUARD, "operator": "In", "values": [node]}]}]
    site = Site(seed=scenario.seed, features=scenario.features)
    return bound_claim(site, "guard", mode="ReadWriteMany", terms=from_here)


async def _together(steps: Iterable[Coroutine[Any, Any, Any]]) -> None:
    async with asyncio.TaskGroup() as group:
        for step in steps:
            group.create_task(step)
