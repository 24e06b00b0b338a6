"""`phalanx up`: it says what it will write, asks, and starts nothing without a yes."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from services.cli.folder_lock import locked
from services.cli.up import WAKES, WRITES
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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: [", "not YAML: while parsing"),
        ("hello", "expected a YAML object"),
        ("\0", "not YAML"),
        ("{}", "expected"),
    ],
)
async def test_junk_for_a_kubeconfig(tmp_path: Path, text: str, sentence: str) -> None:
    """One line that names the file and what was expected."""
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    result = await answered(path, tmp_path / "up", answer="y\n")
    assert result.returncode == 1
    assert result.stderr.startswith(f"Error: {path} is no kubeconfig: {sentence}")
    assert result.stderr.count("\n") == 1


async def test_without_a_terminal(kubeconfig: Path, tmp_path: Path) -> None:
    """Nobody can answer; the error says how to."""
    result = await answered(kubeconfig, tmp_path / "up", answer="")
    assert result.stderr.endswith("Error: nothing was started; without a terminal, --yes answers\n")


async def test_folder_in_use(kubeconfig: Path, tmp_path: Path) -> None:
    """A second instance would take the first one's store and logs."""
    folder = tmp_path / "up"
    with locked(folder):
        result = await answered(kubeconfig, folder, answer="y\n")
    assert result.returncode == 1
    assert f"{folder} is in use by another phalanx (process {os.getpid()}); end that one" in result.stderr


async def test_cluster_in_use(kubeconfig: Path, tmp_path: Path) -> None:
    """A second one with a bus of its own would place the same pods, whatever its folder is."""
    async with started(kubeconfig, tmp_path / "first") as first:
        await first.until("Starting the services")
        second = await answered(kubeconfig, tmp_path / "second", answer="y\n")
        await first.until("export ")
        await first.interrupt()
    assert second.returncode == 1
    text = " ".join(second.stderr.split())
    assert f"another phalanx on this machine (process {first.process.pid}) places the pods of this cluster" in text
    assert "--nats-url" in text


class Running:
    """The command as it runs, with all that it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Nothing was said yet."""
        self.process = process
        self.text = ""

    async def until(self, sentence: str) -> None:
        """Wait until it says something."""
        assert self.process.stdout is not None
        while sentence not in self.text:
            line = await self.process.stdout.readline()
            assert line, f"it ended:\n{self.text}"
            self.text += line.decode()

    async def interrupt(self) -> None:
        """End it as Ctrl-C does, and hear it out."""
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGINT)
        self.text += (await self.process.stdout.read()).decode()
        assert await self.process.wait() == 0


@contextlib.asynccontextmanager
async def started(kubeconfig: Path, folder: Path) -> AsyncIterator[Running]:
    """The command, without a question, and with the configuration file where there is one beside the folder."""
    config = folder.with_name("phalanx.yaml")
    further: list[str | Path] = ["--config", config] if await asyncio.to_thread(config.exists) else []
    process = await asyncio.create_subprocess_exec(
        *command("--kubeconfig", kubeconfig, "--folder", folder, "--yes", *further),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(WAIT_S):
            yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


CONFIGURATION = "metricSources: [{metric: queue_depth, jetstream: {stream: ORDERS, consumer: infer}}]\n"


async def test_a_configuration_file_is_passed_on(kubeconfig: Path, tmp_path: Path) -> None:
    """All services read it; where it has something to wake by, that is among what will be written."""
    (tmp_path / "phalanx.yaml").write_text(CONFIGURATION)
    folder = tmp_path / "up"
    async with started(kubeconfig, folder) as running:
        await running.until("export ")
        addresses = re.findall(r"^  autoscaler: (http://[0-9.:]+)", running.text, re.MULTILINE)
        async with aiohttp.ClientSession() as session, session.get(f"{addresses[0]}/readyz") as answer:
            page = await answer.text()
        await running.interrupt()
    assert WAKES in " ".join(running.text.split())
    assert "hpas" in page


async def test_a_configuration_file_that_cannot_be_used(kubeconfig: Path, tmp_path: Path) -> None:
    """It is told before anything is asked of the cluster, with the line."""
    (tmp_path / "phalanx.yaml").write_text("metricSources:\n- {metric: queue_depth}\n")
    async with started(kubeconfig, tmp_path / "up") as running:
        assert running.process.stdout is not None
        text = (await running.process.stdout.read()).decode()
        assert await running.process.wait() == 1
    assert "phalanx.yaml:2: metricSources[0]" in text
    assert "Kubernetes" not in text


async def test_it_runs_until_it_is_told_to_stop(kubeconfig: Path, tmp_path: Path) -> None:
    """All services become ready, their addresses are lines that can be pasted, and Ctrl-C ends them all."""
    folder = tmp_path / "up"
    async with started(kubeconfig, folder) as running:
        await running.until("export ")
        await running.interrupt()
    lines = running.text.splitlines()
    for name in ("watcher", "placer", "binder", "autoscaler"):
        (line,) = [line for line in lines if line.startswith(f"  {name}: http://127.0.0.1:")]
        assert line.endswith(f", log {folder / name}.log")
        log = await asyncio.to_thread((folder / f"{name}.log").read_text)
        assert '"event":"service.stopped"' in log
    (export,) = [line for line in lines if line.startswith("export ")]
    assert re.fullmatch(r"export PHALANX_PLACER=127.0.0.1:\d+ PHALANX_NATS_URL=nats://127.0.0.1:\d+", export)
    assert "Stopped. Bound pods stay where they are." in running.text
