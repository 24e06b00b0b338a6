"""What the binder's account asked of the API server, with bodies, from the server's own audit log."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

NAMESPACE = "phalanx-system"
BINDER = f"system:serviceaccount:{NAMESPACE}:phalanx-binder"
_WRITES = ["create", "update", "patch", "delete", "deletecollection"]
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "users": [BINDER],
            "verbs": _WRITES,
            "resources": [{"group": "", "resources": ["pods", "pods/binding", "pods/status"]}],
        },
        {"level": "None"},
    ],
}
_SUCCESS = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write to a pod. `verb` is that of the audit log, `part` the subresource."""

    verb: str
    part: str
    namespace: str
    pod: str
    code: int
    is_dry_run: bool
    body: Mapping[str, Any]

    @property
    def took_effect(self) -> bool:
        """True where something was changed."""
        return self.code in _SUCCESS and not self.is_dry_run


class AuditLog:
    """The log of one API server, also over its restarts; each line is read once."""

    def __init__(self, folder: Path) -> None:
        """Write the policy, and say where the log will be."""
        self._policy = folder / "chaos-audit-policy.yaml"
        self._policy.write_text(yaml.safe_dump(_POLICY))
        self._log = folder / "chaos-audit.log"
        self._offset = 0

    @property
    def apiserver_args(self) -> tuple[str, ...]:
        """Flags that make the API server write it, each request before its answer."""
        return (
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=2000",
        )

    def news(self) -> Iterator[Write]:
        """Yield what was written since the last time. A line that is cut off, as by a killed server, is left out."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                try:
                    event = json.loads(line)
                except json.JSONDecodeError:
                    continue
                yield _write(event)


def _write(event: Mapping[str, Any]) -> Write:
    target = event.get("objectRef") or {}
    return Write(
        verb=event["verb"],
        part=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        pod=target.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        is_dry_run="dryRun" in event["requestURI"],
        body=event.get("requestObject") or {},
    )
