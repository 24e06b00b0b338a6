"""Deployments, PodGroup protection, garbage, namespaces and quotas in the sandbox."""

import pytest

from services.sandbox import table
from services.sandbox.deletion import DeleteOptions
from services.sandbox.failures import ApiError
from services.sandbox.objects import Obj, is_deleting, metadata, spec, status
from tests.builders import pod_group_manifest, pod_spec
from tests.unit.sandbox.world import pod, world


def _deployment(*, replicas: int = 2, image: str = "example.com/main:1") -> Obj:
    one = pod_spec(gpus=0)
    containers = [{**one["containers"][0], "image": image}]
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {**one, "containers": containers}}
    selector = {"matchLabels": {"app": "d"}}
    return {"metadata": {"name": "d"}, "spec": {"replicas": replicas, "selector": selector, "template": template}}


async def test_deployment_keeps_its_replicas() -> None:
    """Pods come through a ReplicaSet, deleted ones are replaced, and the status counts ready ones."""
    async with world() as here:
        here.create(table.DEPLOYMENT, _deployment())
        await here.settle()
        here.bind(here.pods())
        await here.settle()
        here.delete(table.POD, metadata(here.pods()[0])["name"])
        await here.settle()
        here.bind(here.pods())
        await here.settle()
        found = here.found(table.DEPLOYMENT, "d")
        owners = {metadata(one)["ownerReferences"][0]["kind"] for one in here.pods()}
    assert status(found)["readyReplicas"] == 2
    assert owners == {"ReplicaSet"}


async def test_deployment_replaces_old_template_when_new_pods_are_ready() -> None:
    """A changed template gets a new ReplicaSet, and the old one shrinks as new pods become ready."""
    async with world() as here:
        here.create(table.DEPLOYMENT, _deployment())
        await here.settle()
        here.bind(here.pods())
        await here.settle()
        here.patch(table.DEPLOYMENT, "d", template=spec(_deployment(image="example.com/main:2"))["template"])
        await here.settle()
        assert len(here.active_pods()) == 4
        here.bind(here.pods())
        await here.settle()
        images = {spec(one)["containers"][0]["image"] for one in here.active_pods()}
    assert images == {"example.com/main:2"}


async def test_scale_to_zero_removes_unbound_pods_first() -> None:
    """Scaling down prefers pods that run nowhere."""
    async with world() as here:
        here.create(table.DEPLOYMENT, _deployment(replicas=2))
        await here.settle()
        here.bind(here.pods()[:1])
        await here.settle()
        here.patch(table.DEPLOYMENT, "d", replicas=1)
        await here.settle()
        assert [bool(spec(one).get("nodeName")) for one in here.pods()] == [True]
        here.patch(table.DEPLOYMENT, "d", replicas=0)
        await here.settle()
        assert here.pods() == []


async def test_pod_group_stays_while_an_active_pod_names_it() -> None:
    """A deleted PodGroup waits for its members to finish."""
    async with world() as here:
        here.create(table.POD_GROUP, pod_group_manifest(min_count=2))
        here.create(table.POD, pod(schedulingGroup={"podGroupName": "g"}))
        here.delete(table.POD_GROUP, "g")
        await here.settle()
        assert is_deleting(here.found(table.POD_GROUP, "g"))
        here.delete(table.POD, "p")
        await here.settle()
        assert here.get(table.POD_GROUP, "g") is None


async def test_unused_pod_group_goes_at_once() -> None:
    """A deleted PodGroup without members does not hang."""
    async with world() as here:
        here.create(table.POD_GROUP, pod_group_manifest(min_count=2))
        here.delete(table.POD_GROUP, "g")
        await here.settle()
        assert here.get(table.POD_GROUP, "g") is None


async def test_foreground_deletion_waits_for_dependents() -> None:
    """The owner goes after its dependents."""
    async with world() as here:
        here.create(table.DEPLOYMENT, _deployment(replicas=1))
        await here.settle()
        here.bind(here.pods())
        await here.settle()
        here.delete(table.DEPLOYMENT, "d", propagation="Foreground")
        assert is_deleting(here.found(table.DEPLOYMENT, "d"))
        await here.settle()
        assert here.get(table.DEPLOYMENT, "d") is None
        assert here.pods() == []


async def test_dependent_of_a_vanished_owner_is_collected() -> None:
    """An object that names an owner that does not exist is garbage; one of an unknown kind is not."""
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    strange = {"apiVersion": "example.com/v1", "kind": "Flow", "name": "x", "uid": "strange"}
    async with world() as here:
        for name, owner in (("garbage", gone), ("kept", strange)):
            body = pod(name)
            body["metadata"]["ownerReferences"] = [owner]
            here.create(table.POD, body)
        await here.settle()
        names = [metadata(one)["name"] for one in here.pods()]
    assert names == ["kept"]


async def test_deleted_namespace_is_emptied_and_takes_nothing_new() -> None:
    """A terminating namespace refuses new objects and goes once its content has gone."""
    async with world() as here:
        here.create(table.NAMESPACE, {"metadata": {"name": "team"}}, namespace="")
        slow = pod(namespace="team", annotations={"sandbox.phalanx.dev/stop-seconds": "5"})
        here.create(table.POD, slow, namespace="team")
        binding: Obj = {"metadata": {"name": "p"}, "target": {"name": "node-001"}}
        here.cluster.subresources.bind(binding, namespace="team", name="p")
        await here.settle()
        stored = here.cluster.writer.require(table.NAMESPACE, namespace="", name="team")
        here.cluster.remover.delete(stored, DeleteOptions())
        await here.settle()
        with pytest.raises(ApiError, match="is being terminated"):
            here.create(table.POD, pod("new", namespace="team"), namespace="team")
        assert here.get(table.NAMESPACE, "team", namespace="") is not None
        await here.run_for(6)
        assert here.get(table.NAMESPACE, "team", namespace="") is None


async def test_quota_is_enforced_and_its_use_shown() -> None:
    """Pods beyond the quota are refused with the numbers, and the status shows what is used."""
    quotas = {"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4", "pods": "10"}}}
    async with world() as here:
        kind = here.cluster.store.kind("resourcequotas")
        here.create(kind, quotas)
        here.create(table.POD, pod("one", gpus=3))
        await here.settle()
        with pytest.raises(ApiError, match=r"exceeded quota: q, requested: requests\.nvidia\.com/gpu=2") as refused:
            here.create(table.POD, pod("two", gpus=2))
        assert refused.value.code == 403
        assert status(here.found(kind, "q"))["used"] == {"requests.nvidia.com/gpu": "3", "pods": "1"}
        here.delete(table.POD, "one")
        await here.settle()
        assert status(here.found(kind, "q"))["used"] == {"requests.nvidia.com/gpu": "0", "pods": "0"}
