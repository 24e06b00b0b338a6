"""The kubeconfig by which clients reach a running sandbox."""

import os
import tempfile
from pathlib import Path

import yaml

TOKEN = "sandbox"  # noqa: S105 - the sandbox checks no tokens; clients only need one to send
_NAME = "phalanx-sandbox"


def document(url: str) -> str:
    """A kubeconfig with one cluster, one user and one context."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": {"server": url}}],
        "users": [{"name": _NAME, "user": {"token": TOKEN}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME, "namespace": "default"}}],
        "current-context": _NAME,
    }
    return yaml.safe_dump(config, sort_keys=False)


def write(path: Path, *, url: str) -> None:
    """Write it in one step, so that whoever waits for the file never reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "w") as file:
        file.write(document(url))
    Path(temporary).replace(path)
