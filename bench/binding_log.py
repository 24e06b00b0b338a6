"""When the API server was asked for each binding and deletion, and when it had answered: from its audit log.

Neither the binder nor what it is compared with measures itself: first and last are what the server says.
"""

import asyncio
import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Self

import yaml

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "Metadata", "verbs": ["create", "delete"], "resources": [{"group": "", "resources": ["pods"]}]},
        {"level": "None"},
    ],
}
FAILED = 400
_POLL_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One answered request. Moments are those of the API server."""

    verb: str
    namespace: str
    pod: str
    code: int
    is_binding: bool
    is_dry_run: bool
    by_binder: bool
    received_at: datetime
    answered_at: datetime

    @property
    def is_bound(self) -> bool:
        """True for a binding that took effect."""
        return self.is_binding and not self.is_dry_run and self.code < FAILED


@dataclass(slots=True, kw_only=True)
class BindingLog:
    """The log of one API server; read from where the last reading ended."""

    file: Path
    policy: Path
    _entries: dict[str, list[Entry]]
    _position: int = 0

    @classmethod
    def within(cls, folder: Path) -> Self:
        """Write the policy, and say where the log will be."""
        policy = folder / "binding-policy.yaml"
        policy.write_text(yaml.safe_dump(_POLICY))
        return cls(file=folder / "binding.log", policy=policy, _entries={})

    @classmethod
    def reading(cls, file: Path) -> Self:
        """Read a log that somebody else's policy writes."""
        return cls(file=file, policy=Path(), _entries={})

    @property
    def apiserver_args(self) -> tuple[str, ...]:
        """Flags that make the API server write it."""
        return (
            f"--audit-policy-file={self.policy}",
            f"--audit-log-path={self.file}",
            "--audit-log-mode=batch",
            "--audit-log-batch-max-wait=100ms",
            "--audit-log-batch-throttle-enable=false",
            "--audit-log-batch-buffer-size=100000",
            "--audit-log-maxsize=1000",
        )

    def of(self, namespace: str) -> list[Entry]:
        """Return what has been asked about a namespace so far, in order of the answers."""
        if self.file.exists():
            with self.file.open("rb") as log:
                log.seek(self._position)
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    self._position += len(line)
                    entry = _entry(line)
                    self._entries.setdefault(entry.namespace, []).append(entry)
        return sorted(self._entries.get(namespace, ()), key=lambda one: one.answered_at)

    async def bindings(self, namespace: str, *, count: int, limit_s: float = 60.0) -> list[Entry]:
        """Wait until so many bindings of a namespace took effect, and return them in order of the answers."""
        async with asyncio.timeout(limit_s):
            while len(found := [one for one in self.of(namespace) if one.is_bound]) < count:  # noqa: ASYNC110 - a file
                await asyncio.sleep(_POLL_S)
        return found


def _entry(line: bytes) -> Entry:
    event = json.loads(line)
    about = event.get("objectRef") or {}
    return Entry(
        verb=event["verb"],
        namespace=about.get("namespace", ""),
        pod=about.get("name", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        is_binding=about.get("subresource") == "binding",
        is_dry_run="dryRun" in event["requestURI"],
        by_binder=str(event["user"].get("username", "")).endswith(":phalanx-binder"),
        received_at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        answered_at=datetime.fromisoformat(event["stageTimestamp"]),
    )
