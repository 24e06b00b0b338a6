"""The binder's adapters against a real kube-apiserver: what the sandbox only claims."""

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry

from services.binder.adapters.kube_calls import KubeCalls
from services.binder.adapters.kube_pods import KubePods
from services.binder.adapters.kube_status import KubeStatus
from services.binder.binding import PodWriter, read_pod
from services.binder.metrics import BinderMetrics
from services.binder.pacing import Pace
from services.binder.reporting import event_body, reference_of
from services.core.names import CONDITION_COMMITTED, CONDITION_INITIALLY_SCHEDULED
from services.core.objects import NodeName, TransactionId, Uid
from services.core.transaction_answers import ApiAnswer, Meaning, meaning_of
from services.core.transaction_reports import ConditionWrite, EventNote, changed_conditions, event_name
from services.core.transaction_values import Found, Removal, Target
from services.runtime.clock import SystemClock
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries

if TYPE_CHECKING:
    from services.core.reasons import Reason

pytestmark = pytest.mark.kubernetes
NAMESPACE = "binder"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{NAMESPACE}/podgroups"
T = TransactionId("t1")
Manifest = dict[str, Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An API server alone, with a user who may do nothing."""
    require_binaries()
    with Cluster(ClusterConfig(controller_manager=False, users={"nobody": ()})) as running:
        yield running


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """The administrator's client, with an empty namespace to work in."""
    async with await KubeClient.open(cluster.kubeconfig) as opened:
        reply = await opened.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
        assert reply.status in {201, 409}
        yield opened
        await opened.request_ok("DELETE", PODS, query={"gracePeriodSeconds": "0"})


def calls(client: KubeClient) -> KubeCalls:
    """Paced and measured calls of a client."""
    clock = SystemClock()
    return KubeCalls(
        client,
        pace=Pace(most=8, clock=clock),
        readiness=Readiness(),
        metrics=BinderMetrics(CollectorRegistry()),
        clock=clock,
        may_write=lambda: True,
    )


@pytest.fixture
def pods(client: KubeClient) -> KubePods:
    """The adapter for pods."""
    return KubePods(calls(client), clock=SystemClock())


async def create(client: KubeClient, name: str, *, is_held: bool = False) -> Target:
    """Create a pod, and return it as a write addresses it."""
    metadata: Manifest = {"name": name} | ({"finalizers": ["example.com/hold"]} if is_held else {})
    spec = {"schedulerName": "phalanx", "containers": [{"name": "c", "image": "i"}]}
    made = (await client.request_ok("POST", PODS, body={"metadata": metadata, "spec": spec})).json()["metadata"]
    return Target(pod=name, uid=Uid(made["uid"]), node=NodeName("n1"), version=made["resourceVersion"])


async def bind(pods: KubePods, target: Target, *, is_dry_run: bool = False) -> ApiAnswer:
    """Bind in the test's namespace."""
    return await pods.bind(NAMESPACE, target=target, transaction=T, is_dry_run=is_dry_run)


async def test_bindings_are_fenced_and_annotated(client: KubeClient, pods: KubePods) -> None:
    """A dry run binds nothing, a binding is ours by its annotation, and a repetition is settled by reading."""
    target = await create(client, "p")
    assert meaning_of(await bind(pods, target, is_dry_run=True)) is Meaning.TAKEN
    assert (
        read_pod((await pods.read(NAMESPACE, names=["p"]))["p"], uid=target.uid, transaction=T)[1].found is Found.READY
    )
    assert meaning_of(await bind(pods, target)) is Meaning.TAKEN
    assert meaning_of(await bind(pods, target)) is Meaning.LOOK
    reading = read_pod((await pods.read(NAMESPACE, names=["p"]))["p"], uid=target.uid, transaction=T)[1]
    assert (reading.found, reading.node) == (Found.BOUND, "n1")


async def test_large_gangs_are_read_by_one_list(client: KubeClient, pods: KubePods) -> None:
    """Unbound members come from the list, bound ones by themselves, missing ones not at all."""
    targets = [await create(client, f"m{number}") for number in range(9)]
    assert meaning_of(await bind(pods, targets[0])) is Meaning.TAKEN
    found = await pods.read(NAMESPACE, names=[*(one.pod for one in targets), "missing"])
    assert sorted(found) == [one.pod for one in targets]
    assert found["m0"]["spec"]["nodeName"] == "n1"


async def test_a_fence_makes_late_copies_fail(client: KubeClient, pods: KubePods) -> None:
    """The version that the copy rests on is gone."""
    target = await create(client, "p")
    changed = await pods.touch(NAMESPACE, target=target, mark="t1/now")
    assert changed.manifest is not None
    answer = await bind(pods, target)
    assert meaning_of(answer) is Meaning.LOOK
    assert "Precondition failed" in answer.message


async def test_an_undo_announces_and_deletes(client: KubeClient, pods: KubePods) -> None:
    """A bound pod gets DisruptionTarget beside its other conditions, and is going afterwards."""
    target = await create(client, "p", is_held=True)
    await bind(pods, target)
    writer = PodWriter(
        pods,
        tracer=NoOpTracer(),
        metrics=BinderMetrics(CollectorRegistry()),
        clock=SystemClock(),
        has_node=lambda _node: True,
    )
    told: list[Reason] = []
    removals = await writer.undo(NAMESPACE, transaction=T, targets=[target], tell=told.append)
    assert told == []
    assert removals == {target.uid: Removal.DELETED}
    pod = (await client.request_ok("GET", f"{PODS}/p")).json()
    conditions = {one["type"]: one for one in pod["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "PhalanxGangUndone"
    assert conditions["PodScheduled"]["status"] == "True"
    assert pod["metadata"]["deletionTimestamp"]
    await client.request_ok(
        "PATCH",
        f"{PODS}/p",
        body={"metadata": {"finalizers": None}},
        content_type="application/merge-patch+json",
    )


async def test_conditions_and_events_are_written_once(client: KubeClient) -> None:
    """Conditions merge by type; the same event is not created twice."""
    status = KubeStatus(calls(client), clock=SystemClock())
    body = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    await client.request_ok("POST", GROUPS, body=body)
    assert await status.group_version() == "v1beta1"
    group = await status.group(NAMESPACE, name="g")
    assert group is not None
    for wanted in (
        ConditionWrite(type=CONDITION_INITIALLY_SCHEDULED, is_true=False, reason="Unschedulable", message="no room"),
        ConditionWrite(type=CONDITION_COMMITTED, is_true=True, reason="Committed"),
    ):
        present = (group.get("status") or {}).get("conditions") or ()
        conditions = changed_conditions([wanted], present=present, now="2026-01-01T00:00:00Z")
        answer = await status.set_group_conditions(
            NAMESPACE, name="g", uid=group["metadata"]["uid"], conditions=conditions
        )
        assert meaning_of(answer) is Meaning.TAKEN, answer
    group = await status.group(NAMESPACE, name="g")
    assert group is not None
    assert {one["type"]: one["status"] for one in group["status"]["conditions"]} == {
        CONDITION_INITIALLY_SCHEDULED: "False",
        CONDITION_COMMITTED: "True",
    }
    note = EventNote(reason="Committed", message="2 pods are bound", is_warning=False, key="committed t1")
    name = event_name(note, about="g", uid=group["metadata"]["uid"])
    event = event_body(note, name=name, namespace=NAMESPACE, about=reference_of(group), at="2026-01-01T00:00:00Z")
    assert (await status.create_event(NAMESPACE, body=event)).status == 201
    assert (await status.create_event(NAMESPACE, body=event)).status == 409
    repeated = await status.repeat_event(NAMESPACE, name=name, count=2, at="2026-01-01T00:00:09Z")
    assert meaning_of(repeated) is Meaning.TAKEN
    found = await status.event(NAMESPACE, name=name)
    assert found is not None
    assert (found["count"], found["lastTimestamp"]) == (2, "2026-01-01T00:00:09Z")


async def test_a_missing_permission_is_told_from_a_refusal(cluster: Cluster) -> None:
    """RBAC's words are recognized."""
    async with await KubeClient.open(cluster.kubeconfig_of("nobody")) as nobody:
        pods = KubePods(calls(nobody), clock=SystemClock())
        target = Target(pod="p", uid=Uid("u"), node=NodeName("n1"), version="1")
        assert meaning_of(await bind(pods, target)) is Meaning.FORBIDDEN
        assert meaning_of((await pods.touch(NAMESPACE, target=target, mark="x")).answer) is Meaning.FORBIDDEN
        assert meaning_of(await pods.delete(NAMESPACE, target=target)) is Meaning.FORBIDDEN
