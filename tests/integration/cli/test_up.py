"""`phalanx up`: it says what it will write, asks, and starts nothing without a yes."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.cli.up import WRITES
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from services.sandbox.kubeconfig import write

WAIT_S = 60.0


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """A small cluster."""
    path = tmp_path / "kubeconfig"
    async with running(ClusterSettings(nodes=1, has_controllers=False)) as cluster:
        write(path, url=cluster.url)
        yield path


def command(*arguments: str | Path) -> list[str]:
    """The command as a process of its own, as its services are."""
    code = "from services.cli.main import main; main()"
    return [sys.executable, "-c", code, "up", *map(str, arguments)]


async def answered(kubeconfig: Path, folder: Path, *, answer: str) -> subprocess.CompletedProcess[str]:
    """Run it, and answer its question."""
    return await asyncio.to_thread(
        subprocess.run,
        command("--kubeconfig", kubeconfig, "--folder", folder),
        input=answer,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


@pytest.mark.parametrize("answer", ["n\n", "\n", ""], ids=["no", "nothing", "end of input"])
async def test_nothing_is_started_without_a_yes(kubeconfig: Path, tmp_path: Path, answer: str) -> None:
    """The question comes after the cluster's name and all that would be written; no folder, no server, no service."""
    folder = tmp_path / "up"
    result = await answered(kubeconfig, folder, answer=answer)
    assert result.returncode == 1
    assert "Kubernetes v1.37" in result.stdout
    for line in WRITES:
        assert line in " ".join(result.stdout.split())
    assert "Go on? [y/N]" in result.stdout
    assert "Starting" not in result.stdout
    assert not folder.exists()


async def test_cluster_that_cannot_be_reached(tmp_path: Path) -> None:
    """One sentence, and no traceback."""
    path = tmp_path / "kubeconfig"
    write(path, url="http://127.0.0.1:1")
    result = await answered(path, tmp_path / "up", answer="y\n")
    assert result.returncode == 1
    assert result.stderr.startswith("Error: ")
    assert "Traceback" not in result.stderr


async def test_it_runs_until_it_is_told_to_stop(kubeconfig: Path, tmp_path: Path) -> None:
    """All services become ready, their addresses are listed, and Ctrl-C ends them all."""
    folder = tmp_path / "up"
    process = await asyncio.create_subprocess_exec(
        *command("--kubeconfig", kubeconfig, "--folder", folder, "--yes"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    text = ""
    try:
        async with asyncio.timeout(WAIT_S):
            while "Ctrl-C ends it" not in text:
                line = await process.stdout.readline()
                assert line, f"it ended:\n{text}"
                text += line.decode()
            process.send_signal(signal.SIGINT)
            text += (await process.stdout.read()).decode()
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert all(name in text for name in ("nats", "watcher", "placer", "binder", "autoscaler"))
    assert "Stopped. Bound pods stay where they are." in text
    for name in ("watcher", "placer", "binder", "autoscaler"):
        log = await asyncio.to_thread((folder / f"{name}.log").read_text)
        assert '"event":"service.stopped"' in log
