"""Gangs where no PodGroups are served, the default of Kubernetes 1.37: Jobs by label, JobSets, LeaderWorkerSets."""

from typing import Any

import pytest

from services.core.decisions import Waiting
from services.core.objects import GangId
from services.sandbox.cluster import ClusterSettings
from services.sandbox.controllers.kubelets import RUN_SECONDS
from services.sandbox.objects import is_deleting, name_of, spec
from tests.builders import Manifest, job_manifest, pod_manifest
from tests.e2e.api import Api
from tests.e2e.gangs import committed, submit_pods
from tests.e2e.system import System
from tests.e2e.waiting import eventually, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

SETTINGS = ClusterSettings(nodes=8, gpus_per_node=8, apis=(("scheduling.k8s.io", ("v1",)),))
"""64 GPUs, and of `scheduling.k8s.io` PriorityClasses alone."""

SIZE = 48
"""More than half of the 64 GPUs: two such gangs never fit beside each other."""


def bound(system: System, api: Api, prefix: str) -> list[str]:
    """Names of the pods with a prefix that are on nodes."""
    pods = system.apiserver.store.objects("pods", namespace=api.namespace)
    return sorted(
        name_of(one)
        for one in pods
        if name_of(one).startswith(prefix) and spec(one).get("nodeName") and not is_deleting(one)
    )


def controller(owner: Manifest) -> list[Manifest]:
    """A controller reference to an object that exists."""
    metadata = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return [reference | {"name": metadata["name"], "uid": metadata["uid"]}]


async def waits(system: System, gang: GangId) -> None:
    """Wait until a gang is told that it waits."""
    await until(lambda: isinstance(system.recorder.last(gang), Waiting), what=f"{gang} waits")


async def test_jobs_by_label(system: System, api: Api) -> None:
    """Two Jobs of 48 pods on 64 GPUs: one is bound whole, the other holds nothing and runs when the first has ended."""
    for name in ("a", "b"):
        job = job_manifest(name, count=SIZE, namespace=api.namespace, pod_labels={"phalanx.dev/gang": "true"})
        await api.create(job)
    gangs = [GangId(f"job/{api.namespace}/{name}") for name in ("a", "b")]

    def first() -> GangId | None:
        return next(
            (gang for gang in gangs if system.recorder.of(gang) and len(bound(system, api, gang[-1:])) == SIZE), None
        )

    await until(lambda: first() is not None, what="one Job is bound whole")
    winner = first()
    assert winner is not None
    (loser,) = set(gangs) - {winner}
    await waits(system, loser)
    await system.quiet()
    assert bound(system, api, loser[-1:]) == []
    for name in bound(system, api, winner[-1:]):
        await api.patch("Pod", name, {"metadata": {"annotations": {RUN_SECONDS: "0.01"}}})
    await committed(system, loser)
    assert len(bound(system, api, loser[-1:])) == SIZE


async def test_job_set_is_one_gang_of_all_its_jobs(system: System, api: Api) -> None:
    """Its Jobs come one after the other; nothing is bound before the last pod is there."""
    roles = [("driver", 1), ("workers", 8)]
    job_set = await api.create(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "train", "namespace": api.namespace},
            "spec": {
                "replicatedJobs": [
                    {"name": name, "template": {"spec": {"parallelism": count}}} for name, count in roles
                ]
            },
        }
    )
    gang = GangId(f"jobset/{api.namespace}/train")
    for name, count in roles:
        labels = {"jobset.sigs.k8s.io/jobset-name": "train", "jobset.sigs.k8s.io/replicatedjob-name": name}
        job = job_manifest(f"train-{name}-0", count=count, namespace=api.namespace, pod_labels=labels)
        job["metadata"] |= {"ownerReferences": controller(job_set), "labels": labels}
        if name == "workers":
            await waits(system, gang)
            assert bound(system, api, "train-") == []
        await api.create(job)
    await committed(system, gang)
    assert len(bound(system, api, "train-")) == 9
    await eventually(lambda: _is_told(api, job_set), what="events are about the JobSet, and not about its Jobs")


async def test_groups_of_a_leader_worker_set_are_gangs_and_a_liar_is_none_of_them(system: System, api: Api) -> None:
    """Two groups of four are bound; a pod with their labels and no owner is bound as the lone pod that it is."""
    lws = await api.create(
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": "serve", "namespace": api.namespace},
            "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 4}},
        }
    )
    leaders = await _stateful_set(api, "serve", owner=lws)
    for group in range(2):
        leader = await api.create(_lws_pod(api, group, 0, owner=leaders))
        workers = await _stateful_set(api, f"serve-{group}", owner=leader)
        await submit_pods(api, [_lws_pod(api, group, index, owner=workers) for index in range(1, 4)])
        await committed(system, GangId(f"lws/{api.namespace}/serve-{group}"))
    assert len(bound(system, api, "serve-")) == 8
    await api.create(_lws_pod(api, 1, 9, owner=None))
    await committed(system, GangId(f"pod/{api.namespace}/serve-1-9"))
    found = await system.explain(f"lws/{api.namespace}/serve-1")
    assert (found.state, found.placed) == ("running", 4)


async def _is_told(api: Api, about: Manifest) -> bool:
    told = [one["involvedObject"] for one in await api.list("Event") if one["involvedObject"]["kind"] != "Pod"]
    wanted = {key: about[key] for key in ("apiVersion", "kind")} | {"uid": about["metadata"]["uid"]}
    ours = [one for one in told if one["kind"] in {"JobSet", "Job"}]
    return bool(ours) and all({key: one.get(key) for key in wanted} == wanted for one in ours)


async def _stateful_set(api: Api, name: str, *, owner: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": api.namespace, "ownerReferences": controller(owner)}
    return await api.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {}})


def _lws_pod(api: Api, group: int, index: int, *, owner: Manifest | None) -> Manifest:
    key = "leaderworkerset.sigs.k8s.io"
    labels = {f"{key}/name": "serve", f"{key}/group-index": str(group), f"{key}/worker-index": str(index)}
    name = f"serve-{group}-{index}" if index else f"serve-{group}"
    found: dict[str, Any] = pod_manifest(name, namespace=api.namespace, labels=labels)
    if owner is not None:
        found["metadata"]["ownerReferences"] = controller(owner)
    return found
