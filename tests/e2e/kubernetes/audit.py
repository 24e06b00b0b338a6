"""What the API server was really asked by our accounts, from its audit log: an independent record of every request."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from tests.e2e.kubernetes.rights import NAMESPACE, Right, account_name

_ACCOUNTS = f"system:serviceaccounts:{NAMESPACE}"
_BINDING = {"group": "", "resources": ["pods/binding"]}
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": [_ACCOUNTS]},
        # Whoever binds: also the native scheduler.
        {"level": "Metadata", "resources": [_BINDING]},
        {"level": "None"},
    ],
}
_CREATED = 201
_FORBIDDEN = 403


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `right` is None for paths outside the resource tree, as `/version`."""

    user: str
    right: Right | None
    namespace: str
    name: str
    code: int
    uri: str

    @property
    def is_forbidden(self) -> bool:
        """True where RBAC or admission said no."""
        return self.code == _FORBIDDEN

    @property
    def is_binding(self) -> bool:
        """True for a binding that took effect."""
        is_create = self.right == Right(verb="create", resource="pods/binding")
        return is_create and self.code == _CREATED and "dryRun" not in self.uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The log of one API server, also over its restarts."""

    log: Path
    policy: Path

    @classmethod
    def within(cls, folder: Path) -> Self:
        """Write the policy, and say where the log will be."""
        policy = folder / "audit-policy.yaml"
        policy.write_text(yaml.safe_dump(_POLICY))
        return cls(log=folder / "audit.log", policy=policy)

    @property
    def apiserver_args(self) -> tuple[str, ...]:
        """Flags that make the API server write it, each request before the next."""
        return (
            f"--audit-policy-file={self.policy}",
            f"--audit-log-path={self.log}",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=1000",
        )

    def requests(self) -> Iterator[Request]:
        """Read every request so far; the last line may be cut off by a killed server, and is left out then."""
        if not self.log.exists():
            return
        for line in self.log.read_text().splitlines():
            try:
                yield _request(json.loads(line))
            except json.JSONDecodeError:
                continue

    def of(self, service: str) -> list[Request]:
        """Return what a service asked for."""
        user = f"system:serviceaccount:{NAMESPACE}:{account_name(service)}"
        return [one for one in self.requests() if one.user == user]

    def bindings(self, namespace: str) -> dict[str, Counter[str]]:
        """Return, by user, how often each pod of a namespace was bound."""
        found: dict[str, Counter[str]] = {}
        for one in self.requests():
            if one.is_binding and one.namespace == namespace:
                found.setdefault(one.user, Counter())[one.name] += 1
        return found


def _request(event: dict[str, Any]) -> Request:
    target = event.get("objectRef") or {}
    parts = [target.get("resource", ""), target.get("subresource", "")]
    resource = "/".join(part for part in parts if part)
    return Request(
        user=event["user"].get("username", ""),
        right=Right(verb=event["verb"], resource=resource, group=target.get("apiGroup", "")) if resource else None,
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        uri=event["requestURI"],
    )
