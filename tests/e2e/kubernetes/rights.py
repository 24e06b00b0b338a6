"""The rights of `deploy/base/rbac.yaml`: applied as they stand, and read as a set.

Services get the tokens of their service accounts, so that the bindings are tried too and not only the roles.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from services.runtime.kube import KubeClient, KubeError
from tests.kubernetes.cluster import Cluster

MANIFESTS = Path(__file__).parents[3] / "deploy" / "base" / "rbac.yaml"
NAMESPACE = "phalanx-system"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"

_ROOTS: Mapping[str, str] = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": ROLES,
    "Role": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}/rolebindings",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
_CONFLICT = 409


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Right:
    """One verb on one resource, which has its subresource in it, as `pods/binding`."""

    verb: str
    resource: str
    group: str = ""


def manifests() -> list[dict[str, Any]]:
    """Return the objects of the file."""
    return list(yaml.safe_load_all(MANIFESTS.read_text()))


def account_name(service: str) -> str:
    """Return the name of a service's account, which is the name of its role too."""
    return f"phalanx-{service}"


def granted(service: str) -> frozenset[Right]:
    """Return what a service's role allows; nothing where it has none."""
    rules = [
        rule
        for one in manifests()
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == account_name(service)
        for rule in one["rules"]
    ]
    return frozenset(
        Right(verb=verb, resource=resource, group=group)
        for rule in rules
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"])
    )


async def apply(client: KubeClient) -> None:
    """Create everything in the file."""
    for one in manifests():
        try:
            await client.request_ok("POST", _ROOTS[one["kind"]], body=one)
        except KubeError as error:
            if error.status != _CONFLICT:
                raise


async def kubeconfig(client: KubeClient, *, cluster: Cluster, service: str, folder: Path) -> Path:
    """Write the kubeconfig of a service's account, with a token of an hour."""
    account = account_name(service)
    path = f"{_ROOTS['ServiceAccount']}/{account}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    token = (await client.request_ok("POST", path, body=body)).json()["status"]["token"]
    certificate = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.url, "certificate-authority-data": certificate}}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": account}}],
        "current-context": "c",
    }
    file = folder / f"{account}.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(document))
    return file


async def take_away(client: KubeClient, service: str, right: Right) -> None:
    """Remove one verb from one resource of a service's role, and nothing else."""
    role = next(
        one for one in manifests() if one["kind"] == "ClusterRole" and one["metadata"]["name"] == account_name(service)
    )
    left = granted(service) - {right}
    assert left != granted(service), f"{service} has no {right}"
    rules = [{"apiGroups": [one.group], "resources": [one.resource], "verbs": [one.verb]} for one in sorted(left)]
    await _replace(client, role | {"rules": rules})


async def give_back(client: KubeClient, service: str) -> None:
    """Restore a service's role as it stands in the file."""
    for one in manifests():
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == account_name(service):
            await _replace(client, one)


async def _replace(client: KubeClient, role: dict[str, Any]) -> None:
    await client.request_ok("PUT", f"{ROLES}/{role['metadata']['name']}", body=role)
