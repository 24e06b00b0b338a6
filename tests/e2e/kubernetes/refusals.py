"""An API server that refuses bindings, by a ValidatingAdmissionPolicy."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.builders import pod_manifest
from tests.e2e.api import Api
from tests.e2e.kubernetes.system import System
from tests.e2e.waiting import eventually

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_POLICIES, _BINDINGS = f"{_GROUP}/validatingadmissionpolicies", f"{_GROUP}/validatingadmissionpolicybindings"
_INVALID = 422


@asynccontextmanager
async def refusing(
    system: System, api: Api, prefix: str, *, nodes: Sequence[str] = (), spares_dry_runs: bool = False
) -> AsyncIterator[None]:
    """Refuse to bind pods of this prefix to these nodes, or to any, from the start of the block to its end.

    Where dry runs are spared, the refusal comes when other members have been bound already.
    """
    name = f"{api.namespace}.{prefix.strip('-')}"
    policy = _policy(name, prefix=prefix, nodes=nodes, spares_dry_runs=spares_dry_runs)
    await system.client.request_ok("POST", _POLICIES, body=policy)
    await system.client.request_ok("POST", _BINDINGS, body=_in_force(name))
    try:
        await _comes_into_force(system, api, f"{prefix}probe", policy=name, node=nodes[0] if nodes else "node-001")
        yield
    finally:
        for path in (_BINDINGS, _POLICIES):
            await system.client.request("DELETE", f"{path}/{name}")


async def _comes_into_force(system: System, api: Api, pod: str, *, policy: str, node: str) -> None:
    """Wait until the API server has compiled the policy: a pod of nobody is bound until it is refused."""
    await api.create(pod_manifest(pod, namespace=api.namespace, scheduler="nobody", gpus=0))
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    path = f"/api/v1/namespaces/{api.namespace}/pods/{pod}/binding"

    async def is_refused() -> bool:
        reply = await system.client.request("POST", path, body=body)
        return reply.status == _INVALID and policy in str(reply.body)

    await eventually(is_refused, what=f"policy {policy} is in force")
    await api.delete("Pod", pod, grace_s=0)


def _policy(name: str, *, prefix: str, nodes: Sequence[str], spares_dry_runs: bool) -> dict[str, Any]:
    conditions = [f"object.metadata.name.startsWith('{prefix}')"]
    if nodes:
        conditions.append("object.target.name in [" + ", ".join(f"'{node}'" for node in nodes) + "]")
    if spares_dry_runs:
        conditions.append("!(has(request.dryRun) && request.dryRun)")
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"!({' && '.join(conditions)})", "message": "not on this node"}],
        },
    }


def _in_force(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
