"""The account of `deploy/audit/rbac.yaml` on a real API server: applied as it stands, used by its token."""

import base64
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from services.cli.audit.optional_sources import NAMESPACE, PROBES
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.connection import Connection, RequestError

FOLDER = Path(__file__).parents[2] / "deploy" / "audit"
ACCOUNT, HOME = "phalanx-audit", "phalanx-system"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_CONFLICT = 409

Right = tuple[str, str, str]
"""Namespace (empty for all), group and resource of a list."""


def manifests(name: str) -> list[dict[str, Any]]:
    """Return the objects of a file of `deploy/audit`."""
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def granted() -> set[Right]:
    """Return what the account may list."""
    found = set()
    for one in manifests("rbac.yaml"):
        for rule in one.get("rules") or ():
            assert set(rule["verbs"]) <= {"get", "list"}
            namespace = one["metadata"].get("namespace", "")
            found |= {(namespace, *right) for right in product(rule.get("apiGroups", ()), rule.get("resources", ()))}
    return found


def granted_urls() -> set[str]:
    """Return the paths outside the resources that the account may get."""
    rules = [rule for one in manifests("rbac.yaml") for rule in one.get("rules") or ()]
    return {url for rule in rules for url in rule.get("nonResourceURLs", ())}


async def apply_rights(api: Connection, *, without_metrics: bool = False) -> None:
    """Create account, roles and bindings; without the rule for /metrics, where that is wanted."""
    for one in manifests("rbac.yaml"):
        if without_metrics and "rules" in one:
            one["rules"] = [rule for rule in one["rules"] if "nonResourceURLs" not in rule]
        try:
            await api.request("POST", _collection(one), body=one)
        except RequestError as error:
            if error.code != _CONFLICT:
                raise


async def allow_dry_runs(api: Connection) -> None:
    """Grant what `--probe` takes, in the namespace of its dry runs."""
    rules = [{"apiGroups": [one.group], "resources": [one.resource], "verbs": ["create"]} for one in PROBES]
    metadata = {"name": "probes", "namespace": NAMESPACE}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "probes"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": HOME}],
    }
    for one in (role, binding):
        await api.request("POST", _collection(one), body=one)


async def account_kubeconfig(api: Connection, *, cluster: Cluster, folder: Path) -> Path:
    """Write the kubeconfig of the account, with a token of an hour."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = await api.request("POST", f"/api/v1/namespaces/{HOME}/serviceaccounts/{ACCOUNT}/token", body=body)
    certificate = base64.b64encode(cluster.ca_file.read_bytes()).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": cluster.url, "certificate-authority-data": certificate}}],
        "users": [{"name": ACCOUNT, "user": {"token": answer["status"]["token"]}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": ACCOUNT}}],
        "current-context": "c",
    }
    file = folder / "account.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(document))
    return file


def _collection(one: dict[str, Any]) -> str:
    kind, namespace = one["kind"], one["metadata"].get("namespace")
    roots = {"Namespace": "/api/v1", "ServiceAccount": "/api/v1", "Job": "/apis/batch/v1", "CronJob": "/apis/batch/v1"}
    root = roots.get(kind, _RBAC)
    return f"{root}/namespaces/{namespace}/{kind.lower()}s" if namespace else f"{root}/{kind.lower()}s"


async def dry_run(api: Connection, one: dict[str, Any]) -> dict[str, Any]:
    """Return what the API server would store of an object; fields that it does not know are an error."""
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    stored: dict[str, Any] = await api.request("POST", _collection(one), body=one, query=query)
    return stored
