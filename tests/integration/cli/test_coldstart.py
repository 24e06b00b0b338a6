"""`phalanx coldstart` on a cluster whose pods are bound at once by a test, and started by the sandbox's kubelets."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from services.runtime.kube import KubeClient, KubeFault
from services.sandbox import kubeconfig
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.hpas import hpa_manifest

NAMESPACE = "team-a"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
WAIT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A cluster, and how to reach it."""

    client: KubeClient
    kubeconfig: Path

    async def command(self, *arguments: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        """Run the command as a process."""
        code = "from services.cli.main import main; main()"
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", code, "coldstart", *arguments, "--kubeconfig", str(self.kubeconfig)],
            input=answer,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )

    async def sleeper(self, *, replicas: int = 0, scaled_to_zero: str = "True", **given: Any) -> None:
        """Create a Deployment and its HPA."""
        labels = {"app": "infer"}
        pod = {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.client.request_ok("POST", APPS, body={"metadata": {"name": "infer"}, "spec": spec})
        manifest = hpa_manifest(namespace=NAMESPACE, **given)
        await self.client.request_ok("POST", HPAS, body={key: manifest[key] for key in ("metadata", "spec")})
        condition = {"type": "ScaledToZero", "status": scaled_to_zero, "reason": "x", "lastTransitionTime": None}
        body = {"status": {"conditions": [condition]}}
        kind = "application/strategic-merge-patch+json"
        await self.client.request_ok("PATCH", f"{HPAS}/infer/status", body=body, content_type=kind)

    async def replicas(self) -> int:
        """How many the Deployment is asked to have."""
        return int((await self.client.request_ok("GET", f"{APPS}/infer")).json()["spec"].get("replicas", 0))

    async def scaled_to_zero(self) -> str:
        """The HPA's mark."""
        status = (await self.client.request_ok("GET", f"{HPAS}/infer")).json()["status"]
        return next(str(one["status"]) for one in status["conditions"] if one["type"] == "ScaledToZero")


async def bind_everything(client: KubeClient) -> None:
    """Play the scheduler until cancelled."""
    while True:
        for pod in (await client.request_ok("GET", PODS)).json()["items"]:
            if not pod["spec"].get("nodeName"):
                body = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": "node-001"}}
                with contextlib.suppress(KubeFault):
                    await client.request_ok("POST", f"{PODS}/{pod['metadata']['name']}/binding", body=body)
        await asyncio.sleep(0.02)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """One node."""
    path = tmp_path / "kubeconfig"
    async with running(ClusterSettings(nodes=1)) as sandbox:
        kubeconfig.write(path, url=sandbox.url)
        async with await KubeClient.open(path) as client:
            await client.request_ok("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
            binding = asyncio.create_task(bind_everything(client))
            try:
                yield Scene(client=client, kubeconfig=path)
            finally:
                binding.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await binding


async def test_a_target_is_woken_some_times_and_left_as_it_was(scene: Scene) -> None:
    """Asleep, and marked as put to sleep by its HPA; the numbers are there for programs."""
    await scene.sleeper(annotations={"phalanx.dev/group-size": "3"})
    result = await scene.command("team-a/infer", "--runs", "2", "--yes", "-o", "json")
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert (document["target"], document["replicas"], len(document["runs"])) == ("Deployment/infer", 3, 2)
    phases = {"replicas-set", "pods-created", "bound", "running", "ready"}
    assert [(set(run["ends_s"]), run["missing"]) for run in document["runs"]] == [(phases, "")] * 2
    assert set(document["p50_s"]) == phases | {"total"}
    assert document["dominating"] in phases
    assert document["advice"]
    assert await scene.replicas() == 0
    assert await scene.scaled_to_zero() == "True"


async def test_a_target_that_runs_has_its_replicas_in_the_end(scene: Scene) -> None:
    """The table names what dominates."""
    await scene.sleeper(replicas=2, scaled_to_zero="False")
    result = await scene.command("team-a/infer", "--runs", "1", "--replicas", "4", "--yes")
    assert result.returncode == 0, result.stderr
    assert "Deployment/infer, 0 → 4, 1 runs" in result.stdout
    assert " dominates: " in result.stdout
    assert await scene.replicas() == 2
    assert await scene.scaled_to_zero() == "False"


async def test_nothing_is_scaled_without_a_yes(scene: Scene) -> None:
    """The question says what would happen."""
    await scene.sleeper(replicas=2, scaled_to_zero="False")
    result = await scene.command("team-a/infer", answer="n\n")
    assert result.returncode == 1
    assert "Deployment/infer in team-a has 2 replicas. Scale it to 0 and to 1, 3 times, and back?" in result.stderr
    assert await scene.replicas() == 2


async def test_a_run_that_does_not_end_is_told(scene: Scene) -> None:
    """With what is missing; the target is as it was all the same."""
    await scene.sleeper()
    node = {"metadata": {"annotations": {"sandbox.phalanx.dev/kubelet": "stopped"}}}
    kind = "application/merge-patch+json"
    await scene.client.request_ok("PATCH", "/api/v1/nodes/node-001", body=node, content_type=kind)
    result = await scene.command("team-a/infer", "--runs", "1", "--yes", "--timeout", "2")
    assert result.returncode == 1
    assert "run 1 was not complete: " in result.stdout
    assert "0 of 1 running, 0 of 1 ready" in result.stdout
    assert await scene.replicas() == 0


async def test_what_cannot_be_measured_is_said(scene: Scene) -> None:
    """In one sentence, before anything is scaled."""
    await scene.sleeper()
    for arguments, sentence in (
        (("team-a/other", "--yes"), "there is no HorizontalPodAutoscaler other in namespace team-a"),
        (("team-a/infer", "--yes", "--replicas", "11"), "11 replicas: expected 1 to 10, the HPA's maxReplicas"),
        (("team-a/infer", "--yes", "--nats-url", "nats://127.0.0.1:1"), "no NATS server answers at nats://127.0.0.1:1"),
    ):
        result = await scene.command(*arguments)
        assert result.returncode == 1
        assert sentence in result.stderr
        assert await scene.replicas() == 0
