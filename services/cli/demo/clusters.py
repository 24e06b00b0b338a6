"""Where the demo plays: the sandbox, or a real Kubernetes control plane."""

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click

from services.cli.processes import LocalProcess
from services.runtime.kube import KubeClient

NODES = 8
GPUS_PER_NODE = 8
START_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A rule of the API server: bindings of pods whose name starts with `prefix` are refused.

    Only to the given nodes, or to every node where there are none.
    """

    name: str
    prefix: str
    nodes: tuple[str, ...] = ()


class DemoCluster(Protocol):
    """A cluster with eight nodes of eight GPUs."""

    @property
    def title(self) -> str:
        """What it is, for people."""

    @property
    def kubeconfig(self) -> Path:
        """How to reach it."""

    @property
    def processes(self) -> dict[str, LocalProcess]:
        """Processes of its own that can be killed by name."""

    async def refuse(self, client: KubeClient, refusal: Refusal) -> None:
        """Let the API server refuse bindings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCluster:
    """The sandbox process; refusals are scripted faults."""

    kubeconfig: Path
    processes: dict[str, LocalProcess]
    title: str = "the sandbox, a Kubernetes API in one process"

    async def refuse(self, client: KubeClient, refusal: Refusal) -> None:
        """Script a fault for the bindings."""
        for node in refusal.nodes or (None,):
            match: dict[str, Any] = {"method": "POST", "path": f"/pods/{refusal.prefix}[^/]*/binding$"}
            if node is not None:
                match["body"] = {"target": {"name": node}}
            answer = {
                "code": 422,
                "reason": "Invalid",
                "message": f"ValidatingAdmissionPolicy {refusal.name!r} denied request: not on this node",
            }
            fault = {"match": match, "action": {"answer": answer}, "times": None}
            await client.request_ok("POST", "/_sandbox/faults", body=fault)


@asynccontextmanager
async def sandbox(folder: Path) -> AsyncIterator[SandboxCluster]:
    """Run the sandbox with eight nodes of eight GPUs."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.unlink(missing_ok=True)
    process = LocalProcess(
        name="sandbox",
        folder=folder,
        environment={},
        arguments=(
            "--address=127.0.0.1:0",
            f"--kubeconfig={kubeconfig}",
            f"--nodes={NODES}",
            f"--gpus-per-node={GPUS_PER_NODE}",
        ),
    )
    process.start()
    try:
        await _appears(kubeconfig, process=process)
        yield SandboxCluster(kubeconfig=kubeconfig, processes={"sandbox": process})
    finally:
        await process.stop()


async def _appears(path: Path, *, process: LocalProcess) -> None:
    """Wait until the process has written the file."""
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not await asyncio.to_thread(path.exists):
                process.check_alive()
                await asyncio.sleep(0.02)
    except TimeoutError as error:
        raise click.ClickException(f"{process.name} did not start:\n{process.tail()}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RealCluster:
    """etcd, kube-apiserver and kube-controller-manager 1.37.2; refusals are a ValidatingAdmissionPolicy."""

    kubeconfig: Path
    processes: dict[str, LocalProcess]
    title: str = "Kubernetes 1.37.2: etcd, kube-apiserver and kube-controller-manager, without its scheduler"

    async def refuse(self, client: KubeClient, refusal: Refusal) -> None:
        """Create a policy and its binding."""
        group = "/apis/admissionregistration.k8s.io/v1"
        pod = f"object.metadata.name.startsWith('{refusal.prefix}')"
        nodes = "[" + ", ".join(f"'{node}'" for node in refusal.nodes) + "]"
        expression = f"!({pod} && object.target.name in {nodes})" if refusal.nodes else f"!({pod})"
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods/binding"],
        }
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": refusal.name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression, "message": "not on this node"}],
            },
        }
        binding = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": refusal.name},
            "spec": {"policyName": refusal.name, "validationActions": ["Deny"]},
        }
        await client.request_ok("POST", f"{group}/validatingadmissionpolicies", body=policy)
        await client.request_ok("POST", f"{group}/validatingadmissionpolicybindings", body=binding)


@asynccontextmanager
async def kubernetes(folder: Path) -> AsyncIterator[RealCluster]:
    """Run a real control plane; nodes and kubelets are played, because there are no machines."""
    try:
        # The control plane is part of the repository's tests, not of the installed package.
        module = importlib.import_module("tests.kubernetes.cluster")
    except ImportError as error:
        raise click.ClickException(
            "a real control plane needs a clone of the repository: run `make demo CLUSTER=kubernetes` there"
        ) from error
    async with module.Cluster() as cluster:
        nodes = LocalProcess(
            name="nodes",
            module="tests.kubernetes.nodes",
            folder=folder,
            environment={},
            arguments=(
                f"--kubeconfig={cluster.kubeconfig}",
                f"--nodes={NODES}",
                f"--gpus-per-node={GPUS_PER_NODE}",
            ),
        )
        nodes.start()
        try:
            yield RealCluster(kubeconfig=cluster.kubeconfig, processes={})
        finally:
            await nodes.stop()
