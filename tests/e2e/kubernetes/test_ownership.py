"""deploy/base/ownership.yaml on the real API server: other schedulers stay off owned nodes, DaemonSets do not."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from services.runtime.kube import KubeClient, Reply
from tests.e2e.kubernetes.rights import NAMESPACE, account_name
from tests.e2e.waiting import eventually
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries

pytestmark = [pytest.mark.kubernetes, pytest.mark.asyncio(loop_scope="module")]

POLICIES = Path(__file__).parents[3] / "deploy" / "base" / "ownership.yaml"
BINDER = f"system:serviceaccount:{NAMESPACE}:{account_name('binder')}"
NATIVE = "system:kube-scheduler"
OTHER = "other-scheduler"
MASTERS = ("system:masters",)
PODS = "/api/v1/namespaces/ownership/pods"
DAEMON = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
TOLERATION = {"key": "phalanx.dev/owned", "operator": "Exists", "effect": "NoSchedule"}
PATHS = {
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}
TAINT = {"key": "phalanx.dev/owned", "value": "true", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """An API server, with the users whose bindings are told apart."""
    require_binaries()
    users = dict.fromkeys((BINDER, NATIVE, OTHER), MASTERS)
    with Cluster(ClusterConfig(controller_manager=False, users=users)) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(cluster: Cluster) -> AsyncIterator[KubeClient]:
    """The administrator, after an owned node and a shared one were made and the policies are in force."""
    async with await KubeClient.open(cluster.kubeconfig) as client:
        await client.request_ok("POST", "/api/v1/namespaces", body={"metadata": {"name": "ownership"}})
        for name, owned in (("owned", True), ("shared", False)):
            labels, taints = ({"phalanx.dev/owned": "true"}, [TAINT]) if owned else ({}, [])
            node = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}
            await client.request_ok("POST", "/api/v1/nodes", body=node)
        for document in yaml.safe_load_all(POLICIES.read_text()):
            await client.request_ok("POST", PATHS[document["kind"]], body=document)

        async def are_in_force() -> bool:
            # Dry runs: until then they leave nothing behind.
            tries = [
                await create(client, "probe", dry_run=True, tolerations=[TOLERATION]),
                await create(client, "probe", dry_run=True, nodeName="owned"),
            ]
            return all(reply.status == 422 for reply in tries)

        await eventually(are_in_force, what="the policies are in force")
        yield client


async def create(
    client: KubeClient, name: str, *, owner: dict[str, Any] | None = None, dry_run: bool = False, **spec: Any
) -> Reply:
    """Create a pod."""
    metadata = {"name": name} | ({"ownerReferences": [owner]} if owner else {})
    body = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    return await client.request("POST", PODS, body=body, query={"dryRun": "All"} if dry_run else {})


async def bind(cluster: Cluster, user: str, name: str, *, node: str) -> Reply:
    """Bind a pod as a user."""
    async with await KubeClient.open(cluster.kubeconfig_of(user)) as client:
        body = {"metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        return await client.request("POST", f"{PODS}/{name}/binding", body=body)


def message(reply: Reply) -> str:
    """What a refusal says."""
    return str(reply.json().get("message", ""))


async def test_another_schedulers_binding_is_refused(cluster: Cluster, admin: KubeClient) -> None:
    """On the owned node; on the shared one it is free to bind."""
    assert (await create(admin, "foreign", schedulerName="other")).status == 201
    refused = await bind(cluster, OTHER, "foreign", node="owned")
    assert refused.status == 422
    assert "node owned is owned by Phalanx" in message(refused)
    assert (await bind(cluster, OTHER, "foreign", node="shared")).status == 201


async def test_the_binder_may_bind(cluster: Cluster, admin: KubeClient) -> None:
    """Pods of Phalanx need no toleration for it."""
    assert (await create(admin, "ours", schedulerName="phalanx")).status == 201
    assert (await bind(cluster, BINDER, "ours", node="owned")).status == 201


async def test_a_pod_that_names_an_owned_node_is_refused(admin: KubeClient) -> None:
    """Whatever its scheduler; a shared node it may name."""
    for scheduler in ("default-scheduler", "phalanx"):
        refused = await create(admin, "direct", schedulerName=scheduler, nodeName="owned")
        assert refused.status == 422
        assert "leave spec.nodeName to the scheduler" in message(refused)
    assert (await create(admin, "direct", nodeName="shared")).status == 201


@pytest.mark.parametrize("toleration", [TOLERATION, {"operator": "Exists"}])
async def test_other_pods_may_not_tolerate_the_taint(admin: KubeClient, toleration: dict[str, str]) -> None:
    """Neither by name nor with all others; pods of Phalanx may."""
    refused = await create(admin, "tolerant", dry_run=True, tolerations=[toleration])
    assert refused.status == 422
    assert "may tolerate the taint phalanx.dev/owned" in message(refused)
    assert (await create(admin, "t", dry_run=True, schedulerName="phalanx", tolerations=[toleration])).status == 201
    other_taint = {"key": "example.com/x", "operator": "Exists"}
    assert (await create(admin, "t", dry_run=True, tolerations=[other_taint])).status == 201


async def test_daemon_sets_are_still_possible(cluster: Cluster, admin: KubeClient) -> None:
    """Their pods may tolerate the taint, and the native scheduler binds them."""
    created = await create(admin, "agent-1", owner=DAEMON, tolerations=[{"operator": "Exists"}])
    assert created.status == 201
    assert (await bind(cluster, NATIVE, "agent-1", node="owned")).status == 201


async def test_a_pod_from_before_can_be_changed(admin: KubeClient) -> None:
    """What it tolerated already is no news; a toleration that is added is."""
    assert (await create(admin, "label-me", owner=None)).status == 201
    patch = {"metadata": {"labels": {"a": "b"}}}
    merge = "application/merge-patch+json"
    changed = await admin.request("PATCH", f"{PODS}/label-me", body=patch, content_type=merge)
    assert changed.status == 200
    tolerations = {"spec": {"tolerations": [*changed.json()["spec"]["tolerations"], TOLERATION]}}
    refused = await admin.request("PATCH", f"{PODS}/label-me", body=tolerations, content_type=merge)
    assert refused.status == 422
