"""`phalanx taint` against the sandbox: rules are written, listed and removed, and a binder is looked for on NATS."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from services.cli.main import main
from services.runtime.embedded_nats import EmbeddedNats
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from services.sandbox.faults import Action, Answer, Match
from tests.integration.binder.harness import Scene, staged
from tests.integration.binder.test_faults import ready

pytest_plugins = ("tests.nats_server",)

DRIVER = "gpu.example.com"
POD_SPEC = {"nodeName": "node-001", "containers": [{"name": "main", "image": "registry.example.com/none:1"}]}


@pytest.fixture
async def scene(nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[Scene]:
    """A small cluster, and an empty NATS server."""
    async with (
        running(ClusterSettings(nodes=2, run_s=600)) as sandbox,
        staged(sandbox, nats_url=nats_server.url, directory=tmp_path) as scene,
    ):
        yield scene


async def taint(scene: Scene, *arguments: str, typed: str = "", nats_url: str = "") -> Result:
    """Run the command on a thread, as a process of its own would beside the servers of the test."""
    runner = CliRunner(env={"COLUMNS": "200", "PHALANX_NATS_URL": nats_url or scene.nats_url, "PHALANX_CONFIG": None})
    command = ["taint", *arguments, "--kubeconfig", str(scene.kubeconfig)]
    return await asyncio.to_thread(runner.invoke, main, command, input=typed)


def rules(scene: Scene) -> dict[str, dict[str, Any]]:
    """Return the rules that are there, by name."""
    found = scene.sandbox.store.objects("devicetaintrules", group="resource.k8s.io")
    return {one["metadata"]["name"]: one for one in found}


def with_a_user(scene: Scene) -> None:
    """A pod that runs on a node and holds a device by a claim."""
    uid = scene.create("Pod", {"metadata": {"name": "user"}, "spec": POD_SPEC})["metadata"]["uid"]
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    scene.create("ResourceClaim", {"metadata": {"name": "held"}, "spec": spec})
    result = {"driver": DRIVER, "pool": "node-001", "device": "gpu-0", "request": "gpu"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "user", "uid": uid}],
    }
    store = scene.sandbox.cluster.store
    stored = store.get(store.kind("resourceclaims", group="resource.k8s.io"), namespace="team-a", name="held")
    assert stored is not None
    scene.sandbox.cluster.writer.commit(stored, {**stored.obj, "status": status})


async def test_a_pool_is_tainted_listed_and_given_back(scene: Scene) -> None:
    """What is written is an ordinary rule without an end."""
    with_a_user(scene)
    result = await taint(scene, "add", DRIVER, "--pool", "node-001")
    assert result.exit_code == 0, result.output
    name = "maintenance-gpu-example-com-node-001"
    assert f"{name} written: phalanx.dev/maintenance:NoSchedule on gpu.example.com/node-001" in result.output
    written = rules(scene)[name]
    assert written["spec"]["deviceSelector"] == {"driver": DRIVER, "pool": "node-001"}
    assert "annotations" not in written["metadata"]
    listed = json.loads((await taint(scene, "list", "-o", "json")).output)
    assert [(one["name"], one["devices"], one["claims"], one["ends"]) for one in listed] == [
        (name, "gpu.example.com/node-001", 1, "")
    ]
    assert name in (await taint(scene, "list")).output
    again = await taint(scene, "add", DRIVER, "--pool", "node-001")
    assert again.exit_code == 1
    assert "already" in again.output
    assert (await taint(scene, "remove", name)).exit_code == 0
    assert rules(scene) == {}
    missing = await taint(scene, "remove", name)
    assert missing.exit_code == 1
    assert f"there is no DeviceTaintRule {name}" in missing.output


async def test_an_end_needs_a_binder_and_the_command_says_whether_one_runs(scene: Scene) -> None:
    """None runs, one does, or no NATS server answers: each has its own sentence, and the rule is written."""
    result = await taint(scene, "add", DRIVER, "--for", "2h")
    assert "only if a binder runs, and none does now" in result.output
    assert "phalanx.dev/expires-at" in rules(scene)["maintenance-gpu-example-com"]["metadata"]["annotations"]
    await ready(scene, await scene.start_binder(instance="binder-a"))
    result = await taint(scene, "add", DRIVER, "--pool", "p", "--for", "2h")
    assert "binder binder-a removes it then" in result.output
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"nats://127.0.0.1:{free.getsockname()[1]}"
        result = await taint(scene, "add", DRIVER, "--pool", "q", "--for", "2h", nats_url=nobody)
    assert result.exit_code == 0
    assert f"no NATS server answers at {nobody}" in result.output
    assert len(rules(scene)) == 3


async def test_no_execute_asks_first(scene: Scene) -> None:
    """Without a yes nothing is written; what would be deleted is shown before."""
    with_a_user(scene)
    for typed in ("n\n", ""):
        result = await taint(scene, "add", DRIVER, "--effect", "NoExecute", typed=typed)
        assert result.exit_code == 1
        assert "team-a/user" in result.output
        assert "nothing was written" in result.output
    assert rules(scene) == {}
    assert (await taint(scene, "add", DRIVER, "--effect", "NoExecute", typed="y\n")).exit_code == 0
    assert (await taint(scene, "add", DRIVER, "--pool", "p", "--effect", "NoExecute", "--yes")).exit_code == 0
    assert len(rules(scene)) == 2


async def test_a_dry_run_writes_nothing(scene: Scene) -> None:
    """Claims and pods are named; a pod that nobody recreates is harm, so the exit code is 1."""
    with_a_user(scene)
    result = await taint(scene, "add", DRIVER, "--effect", "NoExecute", "--dry-run", "-o", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["claims"] == ["team-a/held"]
    assert [one["name"] for one in document["notRecreated"]] == ["user"]
    assert document["problems"] == []
    assert (await taint(scene, "add", DRIVER, "--dry-run")).exit_code == 0
    assert (await taint(scene, "add", "other.example.com", "--effect", "NoExecute", "--dry-run")).exit_code == 0
    assert rules(scene) == {}


async def test_what_may_not_be_read_is_named(scene: Scene) -> None:
    """A dry run without the right to list nodes says which rule to add, and does not call anything harmless."""
    refused = Action(answer=Answer(code=403, reason="Forbidden", message="no"))
    scene.sandbox.faults.add(Match(method="GET", path="^/api/v1/nodes$"), refused, times=None)
    result = await taint(scene, "add", DRIVER, "--effect", "NoExecute", "--dry-run")
    assert result.exit_code == 1
    assert 'resources: ["nodes"], verbs: ["list"]' in result.output


async def test_what_the_server_refuses_is_not_done(scene: Scene) -> None:
    """Without the right to create rules, the rule to add to a ClusterRole is told."""
    refused = Action(answer=Answer(code=403, reason="Forbidden", message="no"))
    scene.sandbox.faults.add(Match(method="POST", path="devicetaintrules$"), refused, times=None)
    result = await taint(scene, "add", DRIVER)
    assert result.exit_code == 1
    assert 'resources: ["devicetaintrules"], verbs: ["create"]' in result.output
    assert rules(scene) == {}


async def test_an_api_server_that_does_not_answer(scene: Scene, tmp_path: Path) -> None:
    """Exit code 3, and the address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        path = tmp_path / "nobody"
        path.write_text(scene.kubeconfig.read_text().replace(scene.sandbox.url, f"http://127.0.0.1:{port}"))
        result = await asyncio.to_thread(CliRunner().invoke, main, ["taint", "list", "--kubeconfig", str(path)])
    assert result.exit_code == 3
    assert str(port) in result.output
