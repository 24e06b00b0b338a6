"""`phalanx audit` of a live API server that refuses, fails or is not there: named gaps, and the rest is reported."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from services.cli.audit.command import EXIT_FINDINGS, EXIT_INCOMPLETE, EXIT_USAGE
from services.cli.main import main
from services.sandbox import kubeconfig
from services.sandbox.app import RunningSandbox, running
from services.sandbox.cluster import ClusterSettings
from services.sandbox.faults import Action, Answer, Match

NODES = 3
OLD = "containerd://1.7.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A small cluster, and how to reach it."""

    sandbox: RunningSandbox
    kubeconfig: Path

    def refuse(self, path: str, *, code: int, reason: str, method: str = "GET") -> None:
        """Let requests fail from now on."""
        answer = Action(answer=Answer(code=code, reason=reason, message="no"))
        self.sandbox.faults.add(Match(method=method, path=path), answer, times=None)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    """Nodes whose container runtimes are old: something that is found whatever else fails."""
    async with running(ClusterSettings(nodes=NODES, run_s=600)) as sandbox:
        path = tmp_path / "kubeconfig"
        kubeconfig.write(path, url=sandbox.url)
        cluster = sandbox.cluster
        for item in cluster.store.objects("nodes"):
            stored = cluster.store.get(cluster.store.kind("nodes"), namespace="", name=item["metadata"]["name"])
            assert stored is not None
            info = {**item["status"].get("nodeInfo", {}), "containerRuntimeVersion": OLD}
            cluster.writer.commit(stored, {**item, "status": {**item["status"], "nodeInfo": info}})
        yield Stage(sandbox=sandbox, kubeconfig=path)


async def audit(kubeconfig: Path, *arguments: str) -> Result:
    """Run the command on a thread, as a process of its own would."""
    command = ["audit", "--kubeconfig", str(kubeconfig), *arguments]
    return await asyncio.to_thread(CliRunner(env={"COLUMNS": "200"}).invoke, main, command)


def gaps(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the gaps by the first word of their source."""
    return {one["source"].split()[0]: one for one in document["gaps"]}


def found(document: dict[str, Any], check: str) -> list[str]:
    """Return the objects that a check found something about."""
    return [one["object"] for one in document["findings"] if one["check"] == check]


@pytest.mark.parametrize(
    ("code", "reason", "told"),
    [
        (403, "Forbidden", 'grant this rule in a ClusterRole: {apiGroups: [""], resources: ["services"]'),
        (500, "InternalError", "look for the cause in the API server's log"),
        (401, "Unauthorized", "the credentials were refused"),
    ],
)
async def test_one_list_that_fails_is_named_and_the_rest_is_reported(
    stage: Stage, *, code: int, reason: str, told: str
) -> None:
    """What could not be looked at, why, and what would help; what was read is judged all the same."""
    before = json.loads((await audit(stage.kubeconfig, "-o", "json")).stdout)
    assert "services" not in gaps(before)
    stage.refuse("^/api/v1/services$", code=code, reason=reason)
    document = json.loads((await audit(stage.kubeconfig, "-o", "json")).stdout)
    assert told in gaps(document)["services"]["fix"]
    assert "proxy-service-count" in gaps(document)["services"]["checks"]
    assert len(found(document, "node-old-runtime")) == NODES


async def test_findings_and_gaps_have_their_exit_codes(stage: Stage) -> None:
    """Warnings alone are no failure; asked for, they are, and weigh more than what is unknown."""
    stage.refuse("^/api/v1/services$", code=403, reason="Forbidden")
    assert (await audit(stage.kubeconfig)).exit_code == EXIT_INCOMPLETE
    assert (await audit(stage.kubeconfig, "--fail-on", "warning")).exit_code == EXIT_FINDINGS


async def test_everything_refused_is_everything_unknown(stage: Stage) -> None:
    """Expired credentials: no check passes, and none finds."""
    stage.refuse("^/", code=401, reason="Unauthorized")
    result = await audit(stage.kubeconfig, "-o", "json")
    document = json.loads(result.stdout)
    assert result.exit_code == EXIT_INCOMPLETE
    assert (document["passed"], document["findings"]) == ([], [])
    assert all("credentials were refused" in one["fix"] for one in document["gaps"])


async def test_a_server_that_is_not_there(stage: Stage, tmp_path: Path) -> None:
    """It is tried once, and every check says that it could not look."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        path = tmp_path / "nobody"
        path.write_text(stage.kubeconfig.read_text().replace(stage.sandbox.url, address))
        result = await audit(path, "-o", "json", "--probe")
    document = json.loads(result.stdout)
    assert result.exit_code == EXIT_INCOMPLETE
    assert (document["passed"], document["findings"]) == ([], [])
    assert {"nodes", "metrics", "probe-pod"} <= gaps(document).keys()
    assert all(address in one["problem"] for one in document["gaps"])


async def test_an_unknown_context_is_wrong_usage(stage: Stage) -> None:
    """What the kubeconfig has instead is told."""
    result = await audit(stage.kubeconfig, "--context", "nowhere")
    assert result.exit_code == EXIT_USAGE
    assert "nowhere" in result.output


async def test_live_and_from_its_own_dump_are_the_same(stage: Stage, tmp_path: Path) -> None:
    """What `--save` keeps is what was judged, gaps too."""
    stage.refuse("^/api/v1/services$", code=403, reason="Forbidden")
    live = json.loads((await audit(stage.kubeconfig, "-o", "json", "--save", str(tmp_path / "dump"))).stdout)
    command = ["audit", "--from-dump", str(tmp_path / "dump"), "-o", "json"]
    again = json.loads((await asyncio.to_thread(CliRunner().invoke, main, command)).stdout)
    assert again == live
