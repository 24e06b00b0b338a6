"""Gangs as end-to-end tests submit them, and what they look for afterwards."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from services.core.decisions import Committed
from services.core.objects import GangId
from services.sandbox.objects import is_deleting, is_terminal, name_of, spec
from tests.builders import job_manifest, pod_group_manifest, pod_manifest
from tests.cases.play_witness import group_of
from tests.e2e.api import Api, Manifest
from tests.e2e.apiserver import ApiServer
from tests.e2e.system import System
from tests.e2e.waiting import until

SUBMITTERS = 16
"""Requests that a test has in flight while it submits."""


def gang_id(api: Api, name: str) -> GangId:
    """Return the id of a group's gang."""
    return GangId(f"podgroup/{api.namespace}/{name}")


async def submit_group(
    api: Api, name: str, *, min_count: int, annotations: dict[str, str] | None = None, version: str = "v1beta1"
) -> GangId:
    """Create a PodGroup."""
    await api.create(
        pod_group_manifest(name, min_count=min_count, namespace=api.namespace, annotations=annotations, version=version)
    )
    return gang_id(api, name)


async def submit_pods(api: Api, manifests: Iterable[Manifest]) -> None:
    """Create pods in this order, a few at a time."""
    places = asyncio.Semaphore(SUBMITTERS)

    async def create(manifest: Manifest) -> None:
        async with places:
            await api.create(manifest)

    await asyncio.gather(*(create(manifest) for manifest in manifests))


def member(api: Api, group: str, index: int, **fields: Any) -> Manifest:
    """Return one member `<group>-<index>` of one GPU."""
    spec_fields: dict[str, Any] = {"group": group, "gpus": 1}
    return pod_manifest(f"{group}-{index}", namespace=api.namespace, **spec_fields | fields)


async def submit(api: Api, name: str, *, size: int, annotations: dict[str, str] | None = None) -> GangId:
    """Create a group and all its members, each of one GPU, all needed."""
    gang = await submit_group(api, name, min_count=size, annotations=annotations)
    await submit_pods(api, [member(api, name, index) for index in range(size)])
    return gang


async def submit_job(api: Api, name: str, *, size: int, annotations: dict[str, str] | None = None) -> GangId:
    """Create a group and a Job whose pods are its members; deleted pods do not count as failures of the Job."""
    gang = await submit_group(api, name, min_count=size, annotations=annotations)
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    await api.create(
        job_manifest(
            name,
            count=size,
            group=name,
            namespace=api.namespace,
            podFailurePolicy={"rules": [ignored]},
            podReplacementPolicy="Failed",
        )
    )
    return gang


def bound(apiserver: ApiServer, gang: GangId) -> dict[str, str]:
    """Return node by name of the members of a gang that are bound, and neither ending nor failed."""
    _, namespace, group = gang.split("/")
    return {
        name_of(pod): spec(pod)["nodeName"]
        for pod in apiserver.store.objects("pods", namespace=namespace)
        if group_of(pod) == group
        and spec(pod).get("nodeName")
        and not is_deleting(pod)
        and not (is_terminal(pod) and pod["status"]["phase"] == "Failed")
    }


def binding_counts(apiserver: ApiServer, namespace: str) -> Counter[str]:
    """Return how often each pod of a namespace was bound, by what was asked of the API server."""
    return Counter(
        write.name
        for write in apiserver.traffic.writes
        if write.resource == "pods/binding"
        and write.namespace == namespace
        and write.code == 201
        and "dryRun" not in write.query
    )


async def committed(system: System, gang: GangId, *, timeout_s: float = 30.0) -> Committed:
    """Wait until a gang is committed."""
    found: list[Committed] = []

    def is_committed() -> bool:
        found[:] = [one.event for one in system.recorder.of(gang) if isinstance(one.event, Committed)]
        return bool(found)

    await until(is_committed, what=f"{gang} is committed", timeout_s=timeout_s)
    return found[-1]


def oversubscribed(apiserver: ApiServer, *, gpu: str = "nvidia.com/gpu") -> dict[str, int]:
    """Return the nodes that carry more GPUs of living pods than they have."""
    used: Counter[str] = Counter()
    for pod in apiserver.store.objects("pods"):
        node = spec(pod).get("nodeName")
        if node and not is_terminal(pod):
            used[node] += sum(_gpus(container, gpu) for container in spec(pod)["containers"])
    room = {name_of(node): int(node["status"]["allocatable"].get(gpu, 0)) for node in apiserver.store.objects("nodes")}
    return {node: count for node, count in used.items() if count > room.get(node, 0)}


def _gpus(container: Manifest, gpu: str) -> int:
    requests: dict[str, str] = (container.get("resources") or {}).get("requests") or {}
    return int(requests.get(gpu, 0))
