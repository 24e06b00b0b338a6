"""Gangs that ran and lose members, to their node or to a kubelet; and one that loses the bus in mid-burst."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from services.core.decisions import Committed, Degraded, Proposed, RolledBack
from services.core.objects import GangId
from services.sandbox.cluster import ClusterSettings
from services.sandbox.controllers.kubelets import START_SECONDS
from services.sandbox.faults import Action, Match
from tests.builders import GPU, job_manifest, namespace_manifest, pod_group_manifest
from tests.e2e.api import Api, Manifest
from tests.e2e.gangs import binding_counts, bound, committed, gang_id, member, oversubscribed, submit_group, submit_pods
from tests.e2e.system import System, running_system
from tests.e2e.waiting import eventually, until

SETTINGS = ClusterSettings(nodes=4, gpus_per_node=4, run_s=3600)
SIZE = 8
PRIORITY: Manifest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}


async def submit_job(
    api: Api, name: str, *, size: int = SIZE, start_s: float = 0, annotations: dict[str, str] | None = None
) -> GangId:
    """Create a group and a Job whose pods are its members, and start after a while."""
    gang = await submit_group(api, name, min_count=size, annotations=annotations)
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    job = job_manifest(
        name,
        count=size,
        group=name,
        namespace=api.namespace,
        backoffLimit=1000,
        podFailurePolicy={"rules": [ignored]},
        podReplacementPolicy="Failed",
    )
    job["spec"]["template"]["metadata"]["annotations"] = {START_SECONDS: f"{start_s:g}"}
    await api.create(job)
    return gang


def events(system: System, gang: GangId, kind: type[Any]) -> list[Any]:
    """Return what was decided about a gang, of one type."""
    return [one.event for one in system.recorder.of(gang) if isinstance(one.event, kind)]


async def lose_node(api: Api, name: str) -> list[str]:
    """Take a node away with all that runs on it, as when its machine is deleted; return its pods."""
    await api.delete("Node", name)
    pods = [pod for pod in await api.list("Pod") if pod["spec"].get("nodeName") == name]
    for pod in pods:
        await api.delete("Pod", pod["metadata"]["name"], grace_s=0)
    return [pod["metadata"]["name"] for pod in pods]


async def bring_back(api: Api, node: Manifest) -> None:
    """Give the cluster a node of the same name and size."""
    name, labels = node["metadata"]["name"], node["metadata"]["labels"]
    await api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    await api.patch("Node", name, {"status": node["status"]}, subresource="status")
    await api.patch("Node", name, {"spec": {"taints": None}})


async def condition(api: Api, name: str, type_: str) -> Manifest:
    """Return a condition of a PodGroup, empty where it has none."""
    group = await api.get("PodGroup", name)
    return next((one for one in (group.get("status") or {}).get("conditions") or () if one["type"] == type_), {})


@pytest.mark.asyncio(loop_scope="module")
async def test_members_of_a_lost_node_are_placed_ahead_of_whoever_waits(system: System, api: Api) -> None:
    """Four of eight are gone and the cluster is full: room that comes goes to them, and not to an urgent newcomer."""
    gang = await submit_job(api, "train")
    await committed(system, gang)
    filler = await submit_group(api, "filler", min_count=1)
    await submit_pods(api, [member(api, "filler", index) for index in range(8)])
    await until(lambda: len(bound(system.apiserver, filler)) == 8, what="the cluster is full")
    (lost, *_) = sorted(set(bound(system.apiserver, gang).values()))
    node = await api.get("Node", lost)
    gone = await lose_node(api, lost)
    assert len(gone) == 4
    await until(lambda: events(system, gang, Degraded), what="the gang is degraded")
    assert events(system, gang, Degraded)[0].placed == 4

    await api.create({**PRIORITY, "value": 1000})
    await api.create(
        pod_group_manifest(
            "urgent", min_count=2, namespace=api.namespace, priorityClassName=PRIORITY["metadata"]["name"]
        )
    )
    urgent = gang_id(api, "urgent")
    await submit_pods(api, [member(api, "urgent", index, priorityClassName="urgent") for index in range(2)])

    async def is_told() -> bool:
        return (await condition(api, "train", "phalanx.dev/Degraded")).get("status") == "True"

    await eventually(is_told, what="the group says that it is degraded")
    # Two GPUs are freed: enough for the newcomer, and not for the four that are missing.
    for index in range(2):
        await api.delete("Pod", f"filler-{index}", grace_s=0)
    await system.placer_follows()
    assert bound(system.apiserver, urgent) == {}
    await bring_back(api, node)
    await until(lambda: len(bound(system.apiserver, gang)) == SIZE, what="the gang is whole again")
    (repair,) = [one for one in events(system, gang, Proposed) if one.already_placed]
    assert len(repair.assignments) == 4
    await until(lambda: len(bound(system.apiserver, urgent)) == 2, what="the newcomer has its turn")

    async def is_over() -> bool:
        return (await condition(api, "train", "phalanx.dev/Degraded")).get("status") == "False"

    await eventually(is_over, what="the group says that it is degraded no more")
    assert not oversubscribed(system.apiserver)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_member_that_its_kubelet_rejects_gets_another_node(system: System, api: Api) -> None:
    """Its successor goes around the survivors and not to the same node, though that one has the room."""
    gang = await submit_job(api, "train", start_s=3600)
    await committed(system, gang)
    name, node = min(bound(system.apiserver, gang).items())
    rejection = {"phase": "Failed", "reason": f"OutOf{GPU}", "message": "Pod was rejected"}
    await api.patch("Pod", name, {"status": rejection}, subresource="status")
    await until(lambda: len(events(system, gang, Committed)) == 2, what="the successor is bound")
    (one,) = events(system, gang, Committed)[1].members
    assert one.node != node
    assert len(bound(system.apiserver, gang)) == SIZE
    assert set(binding_counts(system.apiserver, api.namespace).values()) == {1}


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_left_is_released_where_the_group_says_so(system: System, api: Api) -> None:
    """The members of the node that is lost cannot be had in time: the others go too, and the Job begins anew."""
    annotations = {"phalanx.dev/degraded-policy": "release", "phalanx.dev/degraded-timeout": "2s"}
    gang = await submit_job(api, "train", size=16, annotations=annotations)
    await committed(system, gang)
    (lost, *_) = sorted(set(bound(system.apiserver, gang).values()))
    node = await api.get("Node", lost)
    await lose_node(api, lost)
    await until(lambda: events(system, gang, RolledBack), what="what is left is taken back")
    assert len(events(system, gang, RolledBack)[0].undone) == 12
    await until(lambda: not bound(system.apiserver, gang), what="nothing of it is left")
    await until(lambda: any(one.is_over for one in events(system, gang, Degraded)), what="it is degraded no more")
    await bring_back(api, node)
    await until(lambda: len(bound(system.apiserver, gang)) == 16, what="all of it runs again", timeout_s=60)
    await until(lambda: not system.recorder.open(), what="nothing is open")
    assert all(len(found) == 1 for found in system.recorder.endings().values())


async def test_a_volume_of_nats_that_is_lost_in_the_middle_of_a_burst_heals(tmp_path: Path) -> None:
    """Half a gang is bound when everything on the bus is gone; services run on, and make it whole, each pod once."""
    async with running_system(tmp_path, settings=SETTINGS) as system:
        api = system.api("team-a")
        await api.create(namespace_manifest(api.namespace))
        held = system.apiserver.faults.add(
            Match(method="POST", path="/pods/train-[0-9a-z-]+/binding$", lacks="dryRun"),
            Action(hold=True),
            nth=5,
            times=None,
        )
        gang = await submit_job(api, "train")
        await until(lambda: held.held_count and len(bound(system.apiserver, gang)) == 4, what="half of it is bound")
        await system.nats.kill()
        shutil.rmtree(system.nats._directory / "jetstream")
        system.recorder.forget()
        await system.nats.start()
        system.apiserver.faults.remove(held.id)
        await until(lambda: len(bound(system.apiserver, gang)) == SIZE, what="the gang is whole", timeout_s=60)
        await until(lambda: events(system, gang, Committed), what="a transaction says so", timeout_s=60)
        await until(lambda: not system.recorder.open(), what="nothing is open", timeout_s=60)
        assert set(binding_counts(system.apiserver, api.namespace).values()) == {1}
        assert all(len(found) == 1 for found in system.recorder.endings().values())
        assert not oversubscribed(system.apiserver)
        for service in ("watcher", "placer", "binder"):

            async def is_ready(service: str = service) -> bool:
                return (await system.readyz(service))[0]

            await eventually(is_ready, what=f"{service} is ready")
