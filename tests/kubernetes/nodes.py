"""Nodes without machines, against any Kubernetes API: `python -m tests.kubernetes.nodes --kubeconfig … --nodes 8`.

Creates Node objects with a status, keeps their leases fresh, and plays their kubelets: bound pods start, Jobs' pods
end, deletions are confirmed. What a kubelet does is decided in `kubelet_steps`; this module watches and writes.
"""

import asyncio
import datetime as dt
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import uvloop

from tests.kubernetes.connection import MERGE, STRATEGIC, Connection, RequestError, Target, connected
from tests.kubernetes.kubelet_steps import (
    ConfirmDeletion,
    Later,
    PatchStatus,
    Pod,
    Seen,
    next_step,
    observed,
    shortage,
)

_LEASE_EVERY_S = 10.0
_CLAIM_RETRY_S = 0.2
_WORKERS = 16
_NOT_FOUND, _CONFLICT, _INVALID = 404, 409, 422


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesConfig:
    """What the nodes look like and how long Jobs run on them."""

    count: int = 8
    gpus_per_node: int = 8
    zones: int = 2
    prefix: str = "node"
    job_run_s: float = 30.0
    """How long a Job's pod runs without the annotation `sandbox.phalanx.dev/run-seconds`."""
    cpu: str = "96"
    memory: str = "1Ti"
    pods: int = 110
    is_kept: bool = False
    """Leave the Node objects behind when done."""


def node_object(config: NodesConfig, *, index: int) -> dict[str, Any]:
    """The Node of that index, from 1."""
    name = f"{config.prefix}-{index:03d}"
    resources = {"cpu": config.cpu, "memory": config.memory, "pods": str(config.pods)}
    if config.gpus_per_node:
        resources["nvidia.com/gpu"] = str(config.gpus_per_node)
    now = _now()
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "fake kubelet",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{(index - 1) % config.zones + 1}",
            },
        },
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    }


class FakeKubelets:
    """Plays the kubelets of some nodes."""

    def __init__(self, connection: Connection, config: NodesConfig) -> None:
        self._connection = connection
        self._config = config
        self._nodes = {
            node["metadata"]["name"]: node
            for node in (node_object(config, index=index) for index in range(1, config.count + 1))
        }
        self._pods: dict[str, Pod] = {}
        #: Pods by node, for the admission of the next one.
        self._on_node: defaultdict[str, dict[str, Pod]] = defaultdict(dict)
        self._seen: dict[str, Seen] = {}
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        #: uids waiting in the queue or in a worker's hands; True if looked at again afterwards.
        self._pending: dict[str, bool] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(self._nodes)

    async def register(self) -> None:
        """Creates the nodes without the taint that admission gives to new ones, and their leases."""
        gate = asyncio.Semaphore(_WORKERS)

        async def one(node: dict[str, Any]) -> None:
            async with gate:
                await self._register(node)

        async with asyncio.TaskGroup() as group:
            for node in self._nodes.values():
                group.create_task(one(node))

    async def _register(self, node: dict[str, Any]) -> None:
        path = f"/api/v1/nodes/{node['metadata']['name']}"
        try:
            await self._connection.request("POST", "/api/v1/nodes", body=node)
        except RequestError as error:
            if error.code != _CONFLICT:
                raise
            await self._connection.request(
                "PATCH", f"{path}/status", body={"status": node["status"]}, content_type=STRATEGIC
            )
        await self._renew(node["metadata"]["name"])
        await self._connection.request("PATCH", path, body={"spec": {"taints": None}}, content_type=MERGE)

    async def unregister(self) -> None:
        """Deletes the nodes."""
        for name in self._nodes:
            try:
                await self._connection.request("DELETE", f"/api/v1/nodes/{name}")
            except RequestError as error:
                if error.code != _NOT_FOUND:
                    raise

    async def run(self) -> None:
        """Plays until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_leases(), name="leases")
            group.create_task(self._follow_pods(), name="pods")
            for number in range(_WORKERS):
                group.create_task(self._work(), name=f"kubelet-{number}")

    async def _keep_leases(self) -> None:
        while True:
            await asyncio.sleep(_LEASE_EVERY_S)
            for name in self._nodes:
                await self._renew(name)

    async def _renew(self, name: str) -> None:
        """Renews a node's lease, creating it where it is missing: else the node would turn NotReady."""
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now(is_precise=True)}
        try:
            await self._connection.request("PATCH", f"{leases}/{name}", body={"spec": spec}, content_type=MERGE)
        except RequestError as error:
            if error.code != _NOT_FOUND:
                raise
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name},
                "spec": spec,
            }
            await self._connection.request("POST", leases, body=lease)

    async def _follow_pods(self) -> None:
        query = {"fieldSelector": "spec.nodeName!="}
        async for event in self._connection.follow("/api/v1/pods", query=query):
            if event["type"] == "LISTED":
                self._take_list(event["object"]["items"])
            elif event["type"] == "DELETED":
                self._forget(event["object"]["metadata"]["uid"])
            else:
                self._take(event["object"])

    def _take_list(self, pods: list[Pod]) -> None:
        for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._forget(uid)
        for pod in pods:
            self._take(pod)

    def _take(self, pod: Pod) -> None:
        """Remembers a pod, unless a later version is known: the answer to a write may come after a later event."""
        node = pod["spec"]["nodeName"]
        if node in self._nodes:
            uid = pod["metadata"]["uid"]
            known = self._pods.get(uid)
            if known is not None and _version(pod) < _version(known):
                return
            self._pods[uid] = pod
            self._on_node[node][uid] = pod
            self._enqueue(uid)

    def _forget(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        self._seen.pop(uid, None)
        if pod is not None:
            self._on_node[pod["spec"]["nodeName"]].pop(uid, None)

    def _enqueue(self, uid: str) -> None:
        if uid in self._pending:
            self._pending[uid] = True
        else:
            self._pending[uid] = False
            self._queue.put_nowait(uid)

    async def _work(self) -> None:
        while True:
            uid = await self._queue.get()
            pod = self._pods.get(uid)
            try:
                if pod is not None:
                    await self._advance(uid, pod)
            except RequestError as error:
                # The pod changed or went meanwhile: its next event says how to go on.
                is_other_pod = error.code == _INVALID and "metadata.uid" in str(error)
                if error.code not in {_NOT_FOUND, _CONFLICT} and not is_other_pod:
                    raise
            is_changed = self._pending.pop(uid)
            if is_changed:
                self._enqueue(uid)

    async def _advance(self, uid: str, pod: Pod) -> None:
        """Takes one pod one step further."""
        now_s = time.monotonic()
        is_new = uid not in self._seen
        seen = self._seen[uid] = observed(pod, seen=self._seen.get(uid, Seen()), now_s=now_s)
        step = next_step(
            pod,
            seen=seen,
            now_s=now_s,
            now=_now(),
            job_run_s=self._config.job_run_s,
            refusal=self._refusal(uid, pod) if is_new else None,
        )
        if isinstance(step, PatchStatus) and step.status["phase"] == "Running" and not await self._has_claims(pod):
            step = Later(after_s=_CLAIM_RETRY_S)
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        match step:
            case Later(after_s=after_s):
                asyncio.get_running_loop().call_later(after_s, self._enqueue, uid)
            case PatchStatus(status=status):
                body = {"metadata": {"uid": uid}, "status": status}
                self._take_answer(
                    await self._connection.request("PATCH", f"{path}/status", body=body, content_type=STRATEGIC)
                )
            case ConfirmDeletion():
                options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
                await self._connection.request("DELETE", path, body=options)

    def _take_answer(self, pod: Pod) -> None:
        """Remembers what was just written, so that the same step is not taken again before its event arrives."""
        uid = pod["metadata"]["uid"]
        if uid in self._pods:
            self._take(pod)

    def _refusal(self, uid: str, pod: Pod) -> str | None:
        node = pod["spec"]["nodeName"]
        others = {other: each for other, each in self._on_node[node].items() if other != uid and other in self._seen}
        return shortage(pod, others=others, allocatable=self._nodes[node]["status"]["allocatable"])

    async def _has_claims(self, pod: Pod) -> bool:
        """Whether all claims of the pod are allocated and reserved for it, without which no kubelet starts it."""
        made = {
            entry["name"]: entry.get("resourceClaimName") for entry in pod["status"].get("resourceClaimStatuses") or ()
        }
        for entry in pod["spec"].get("resourceClaims") or ():
            if entry["name"] in made and made[entry["name"]] is None:
                continue  # the claim controller decided that none is needed
            name = entry.get("resourceClaimName") or made.get(entry["name"])
            if not name or not await self._is_reserved(name, pod):
                return False
        return True

    async def _is_reserved(self, name: str, pod: Pod) -> bool:
        namespace = pod["metadata"]["namespace"]
        path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
        claim: Mapping[str, Any] = await self._connection.request("GET", path)
        status = claim.get("status") or {}
        holders = {holder.get("uid") for holder in status.get("reservedFor") or ()}
        return "allocation" in status and pod["metadata"]["uid"] in holders


def _version(pod: Pod) -> int:
    """Resource versions of one API server compare as numbers (KEP-5504)."""
    return int(pod["metadata"]["resourceVersion"])


def _now(*, is_precise: bool = False) -> str:
    pattern = "%Y-%m-%dT%H:%M:%S.%fZ" if is_precise else "%Y-%m-%dT%H:%M:%SZ"
    return dt.datetime.now(dt.UTC).strftime(pattern)


@asynccontextmanager
async def running_nodes(target: Target, config: NodesConfig | None = None) -> AsyncIterator[FakeKubelets]:
    """Nodes whose kubelets play until the block ends; then the Node objects are deleted unless they are kept."""
    settings = config or NodesConfig()
    async with connected(target) as connection:
        kubelets = FakeKubelets(connection, settings)
        await kubelets.register()
        playing = asyncio.create_task(kubelets.run(), name="fake-kubelets")
        try:
            yield kubelets
        finally:
            # A kubelet that failed must be heard of; one that is merely stopped must not.
            if playing.done():
                playing.result()
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            if not settings.is_kept:
                await kubelets.unregister()


async def _serve(target: Target, config: NodesConfig) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with running_nodes(target, config) as kubelets:
        print(f"{len(kubelets.names)} nodes are ready: {kubelets.names[0]} to {kubelets.names[-1]}", flush=True)
        await ended.wait()


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="KUBECONFIG",
    required=True,
    help="The cluster that gets the nodes.",
)
@click.option("--nodes", default=8, show_default=True, help="Number of nodes.")
@click.option("--gpus-per-node", default=8, show_default=True, help="nvidia.com/gpu of each node.")
@click.option("--zones", default=2, show_default=True, help="Zones that the nodes are spread over.")
@click.option("--prefix", default="node", show_default=True, help="Start of the nodes' names.")
@click.option("--run-seconds", default=30.0, show_default=True, help="How long a Job's pod runs.")
@click.option("--keep", is_flag=True, help="Leave the Node objects behind.")
def main(
    *, kubeconfig: Path, nodes: int, gpus_per_node: int, zones: int, prefix: str, run_seconds: float, keep: bool
) -> None:
    """Add nodes without machines to a cluster and play their kubelets until interrupted."""
    config = NodesConfig(
        count=nodes,
        gpus_per_node=gpus_per_node,
        zones=zones,
        prefix=prefix,
        job_run_s=run_seconds,
        is_kept=keep,
    )
    uvloop.run(_serve(Target.from_kubeconfig(kubeconfig), config))


if __name__ == "__main__":
    main()
