"""The rights of `deploy/base/rbac.yaml` are enough, none is too many, and each that is taken away is named.

What was really asked comes from the API server's audit log.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path

import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from services.cli.processes import SERVICES
from services.core.decisions import Proposed, Repairing, RolledBack, Waiting
from services.core.objects import GangId
from tests.builders import pod_manifest
from tests.device_manifests import pools, template_manifest, with_template
from tests.e2e.api import Api
from tests.e2e.gangs import member, submit_group, submit_pods
from tests.e2e.kubernetes import rights
from tests.e2e.kubernetes.gangs import committed, decided, emptied, placed, submit_job
from tests.e2e.kubernetes.refusals import refusing
from tests.e2e.kubernetes.rights import Right
from tests.e2e.kubernetes.system import GPUS, System
from tests.e2e.waiting import eventually, until
from tests.hpas import hpa_manifest

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

IS_DENIED = True
NOT_FOUND = 404
ENVIRONMENT = {"PHALANX_CONFIG": str(Path(__file__).with_name("metric_sources.yaml"))}
"""Without a metric source the autoscaler asks for nothing."""

SIZE = 16

TAINT_RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
ENDED_RULE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "over", "annotations": {"phalanx.dev/expires-at": "2026-01-01T00:00:00Z"}},
    "spec": {
        "deviceSelector": {"driver": "nobody.example.com"},
        "taint": {"key": "example.com/maintenance", "effect": "NoSchedule"},
    },
}
"""A maintenance window whose end is over."""

OPTIONAL = (
    ("podgroups", "scheduling.x-k8s.io"),
    ("podgroups", "scheduling.volcano.sh"),
    ("jobsets", "jobset.x-k8s.io"),
    ("leaderworkersets", "leaderworkerset.x-k8s.io"),
    ("rayclusters", "ray.io"),
    ("pytorchjobs", "kubeflow.org"),
    ("tfjobs", "kubeflow.org"),
    ("mpijobs", "kubeflow.org"),
)
"""Resources of platforms that are not installed here."""

UNUSED: Mapping[str, Mapping[Right, str]] = {
    "watcher": {
        Right(verb=verb, resource=resource, group=group): "only where that platform is installed"
        for resource, group in OPTIONAL
        for verb in ("list", "watch")
    },
    "placer": {},
    "binder": {
        Right(verb="get", resource="events"): "only for an event that happens again, before it is counted up",
        Right(verb="patch", resource="events"): "as above",
        Right(verb="patch", resource="resourceclaims/binding", group="resource.k8s.io"): (
            "asked of the authorizer beside a patch of resourceclaims/status, and never a request of its own"
        ),
        **{
            Right(verb=verb, resource="resourceclaims", group="resource.k8s.io"): (
                "only for extended resources that stand for devices: whoever binds their pod makes the claim"
            )
            for verb in ("create", "delete")
        },
        Right(
            verb="create", resource="pods/eviction"
        ): "only for a gang of higher priority: test_preemption.py plays it",
        Right(verb="patch", resource="pods"): (
            "only for a member whose binding may still be on its way, because its answer was lost or a successor finds "
            "no journal entry; the member is marked, so that a late copy meets a conflict"
        ),
    },
    "autoscaler": {
        Right(verb=verb, resource=f"{plural}{suffix}", group=group): "only for targets of that kind"
        for (plural, group), (suffix, verb) in product(
            (("replicasets", "apps"), ("statefulsets", "apps"), ("leaderworkersets", "leaderworkerset.x-k8s.io")),
            (("/scale", "get"), ("/scale", "update"), ("", "get")),
        )
    },
}
"""What a role grants and these tests need not have used, and why it is granted all the same."""


async def test_every_right_is_used_and_nothing_else_is_asked(system: System, api: Api) -> None:
    """A gang that waits, one that is bound, one whose binder dies, one that is undone: no request was too many."""
    holder = await submit_job(system, api, "holder", size=GPUS)
    await committed(system, holder)
    late = await submit_job(system, api, "late", size=SIZE)
    await decided(system, late, Waiting)
    await emptied(api)
    small = await submit_group(api, "small", min_count=1)
    await submit_pods(api, [member(api, "small", 0)])
    await committed(system, small)
    await _with_a_device(system, api)
    await _undone_by_a_second_binder(system, api)
    await _woken(system, api)
    await system.at_rest()
    await asyncio.gather(*(_all_used(system, service) for service in SERVICES))
    for service in SERVICES:
        asked = {one.right for one in system.audit.of(service) if one.right is not None}
        allowed = rights.granted(service)
        assert asked <= allowed, f"{service} asks for more than it is granted: {asked - allowed}"
        assert not [one for one in system.audit.of(service) if one.is_forbidden]
    assert not system.audit.of("placer")


async def test_without_bindings_the_binder_says_so_and_waits(system: System, api: Api) -> None:
    """Nothing is bound, /readyz names verb and resource, and the gang is bound once the right is back."""
    await rights.take_away(system.client, "binder", Right(verb="create", resource="pods/binding"))
    gang = await submit_group(api, "g", min_count=SIZE)
    await submit_pods(api, [member(api, "g", index) for index in range(SIZE)])
    await decided(system, gang, Proposed)
    await system.says("binder", "permissions", "create", "pods/binding")
    assert await placed(api, "g") == {}
    await rights.give_back(system.client, "binder")
    await committed(system, gang)
    await system.says("binder", "permissions", is_ready=True)
    assert len(await placed(api, "g")) == SIZE


async def test_without_the_right_to_allocate_the_binder_says_so_and_waits(system: System, api: Api) -> None:
    """Nothing is allocated or bound, /readyz says what is missing, and the gang is bound once the right is back."""
    right = Right(verb="patch", resource="resourceclaims/binding", group="resource.k8s.io")
    await rights.take_away(system.client, "binder", right)
    async with devices(api):
        gang = await submit_device_gang(api)
        await decided(system, gang, Proposed)
        await system.says("binder", "permissions", "may not allocate claims")
        assert await placed(api, "device") == {}
        assert not any((one.get("status") or {}).get("allocation") for one in await api.list("ResourceClaim"))
        await rights.give_back(system.client, "binder")
        await committed(system, gang)
        await system.says("binder", "permissions", is_ready=True)
        await emptied(api)


async def test_without_its_list_the_watcher_says_so_and_waits(system: System, api: Api) -> None:
    """A watcher that may not list pods names the right, and follows them once it is back."""
    process = system.services.processes["watcher"]
    await rights.take_away(system.client, "watcher", Right(verb="list", resource="pods"))
    process.kill()
    process.start()
    await system.says("watcher", "watch:pod", "forbidden", "list pods")
    gang = await submit_group(api, "g", min_count=SIZE)
    await submit_pods(api, [member(api, "g", index) for index in range(SIZE)])
    assert not system.recorder.of(gang)
    await rights.give_back(system.client, "watcher")
    await process.wait_ready()
    await committed(system, gang)
    assert len(await placed(api, "g")) == SIZE


@asynccontextmanager
async def devices(api: Api) -> AsyncIterator[None]:
    """One device on the first node, and a template for claims, until the block ends."""
    made = [*pools(["node-001"], count=1), template_manifest(namespace=api.namespace)]
    for manifest in made:
        await api.create(manifest)
    yield
    for manifest in made:
        await api.delete(manifest["kind"], manifest["metadata"]["name"])


async def submit_device_gang(api: Api) -> GangId:
    """A gang of one member, which claims a device."""
    gang = await submit_group(api, "device", min_count=1)
    pod = pod_manifest("device-0", namespace=api.namespace, group="device", gpus=0)
    await submit_pods(api, [with_template(pod)])
    return gang


async def _with_a_device(system: System, api: Api) -> None:
    """A gang whose member claims a device; both are gone afterwards."""
    async with devices(api):
        await committed(system, await submit_device_gang(api))
        await emptied(api)


async def _undone_by_a_second_binder(system: System, api: Api) -> None:
    """A member cannot be bound anywhere; the binder dies during the repair, and the next one undoes the gang.

    Its first look finds the rule whose end is over.
    """
    await system.client.request_ok("POST", TAINT_RULES, body=ENDED_RULE)
    async with refusing(system, api, "u-5-", spares_dry_runs=True):
        gang = await submit_job(system, api, "u", size=SIZE, repair_window="4s")
        await decided(system, gang, Repairing)
        system.services.processes["binder"].kill()
        await system.services.restart("binder")
        await decided(system, gang, RolledBack)
    await emptied(api)

    async def is_gone() -> bool:
        return (await system.client.request("GET", f"{TAINT_RULES}/over")).status == NOT_FOUND

    await eventually(is_gone, what="the rule whose end is over is removed")


async def _woken(system: System, api: Api) -> None:
    """A message wakes a Deployment that sleeps; Deployment and HPA are gone afterwards."""
    await system.jetstream.add_stream(name="ORDERS", subjects=["orders"])
    await system.jetstream.add_consumer("ORDERS", ConsumerConfig(durable_name="infer", ack_policy=AckPolicy.EXPLICIT))
    labels = {"app": "infer"}
    containers = [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "infer", "namespace": api.namespace}
    await api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    hpa = hpa_manifest(namespace=api.namespace, scaled_to_zero="True")
    hpa["status"]["conditions"] = [
        {
            "type": "ScaledToZero",
            "status": "True",
            "reason": "ScaledToZero",
            "lastTransitionTime": "2026-11-02T08:50:00Z",
        }
    ]
    await api.create(hpa)
    await system.jetstream.publish("orders", b"work")

    async def is_woken() -> bool:
        found = await api.find("Deployment", "infer")
        return found is not None and found["spec"].get("replicas") == 1

    await eventually(is_woken, what="the Deployment is woken")
    for kind in ("HorizontalPodAutoscaler", "Deployment"):
        await api.delete(kind, "infer")


async def _all_used(system: System, service: str) -> None:
    """Wait until every right was used that must be: reports are written beside the rest."""
    expected = rights.granted(service) - UNUSED[service].keys()

    def left() -> set[Right]:
        return set(expected - {one.right for one in system.audit.of(service) if one.right is not None})

    try:
        await until(lambda: not left(), what=f"{service} uses its rights", timeout_s=15)
    except AssertionError as error:
        raise AssertionError(f"{error}; granted and never used: {sorted(left())}") from None
