"""Helm and kubectl as programs."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes import build

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "chart"
DEFAULT = ROOT / "deploy" / "default" / "phalanx.yaml"
NAMESPACE = "phalanx-system"


class ToolError(Exception):
    """A program ended with an error; the message is what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """Where the programs are."""

    folder: Path

    @property
    def kubectl(self) -> Path:
        """The kubectl of the pinned version."""
        return self.folder / "kubectl"

    def render(self, values: Mapping[str, Any], *, namespace: str = NAMESPACE) -> str:
        """Return the chart as manifests. Raises ToolError with what helm says of the values."""
        command = [str(self.folder / f"helm-{build.HELM_VERSION}"), "template", "phalanx", str(CHART)]
        command += ["--namespace", namespace, "--kube-version", build.KUBERNETES_VERSION, "--values", "-"]
        return _output(command, given=yaml.safe_dump(dict(values)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """Kubectl with a kubeconfig, and a home of its own for its caches."""

    program: Path
    kubeconfig: Path
    home: Path

    def run(self, *arguments: str, given: str = "") -> str:
        """Return what kubectl prints. Raises ToolError."""
        command = [str(self.program), f"--kubeconfig={self.kubeconfig}", *arguments]
        return _output(command, given=given, environment={"HOME": str(self.home)})


def _output(command: list[str], *, given: str, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode:
        raise ToolError(done.stderr)
    return done.stdout
