"""A service process from its first to its last line: exit codes, signals, health and the port file."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import asyncio
from services.runtime.lifecycle import main
from services.runtime.settings import CommonSettings

async def app(settings, runtime):
    runtime.readiness.set("peer", ready=True)
    with runtime.tracer.start_as_current_span("work"):
        runtime.log.info("app.running", level=settings.log_level)
    {body}

main("example", CommonSettings, app)
"""
DRAINS = 'await runtime.stopping.wait(); runtime.log.info("app.drained")'
IGNORES = "await asyncio.Event().wait()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service process and what it has written so far."""

    process: asyncio.subprocess.Process
    port_file: Path
    lines: list[dict[str, Any]] = field(default_factory=list)

    async def until(self, event: str) -> dict[str, Any]:
        """Read its log until that event."""
        assert self.process.stdout is not None
        async with asyncio.timeout(20):
            while line := await self.process.stdout.readline():
                self.lines.append(orjson.loads(line))
                if self.lines[-1]["event"] == event:
                    return self.lines[-1]
        raise AssertionError(f"ended without {event}: {self.lines}")

    async def ended(self) -> tuple[int, str]:
        """Exit code and standard error, once it is gone."""
        async with asyncio.timeout(20):
            output, errors = await self.process.communicate()
        self.lines.extend(orjson.loads(line) for line in output.splitlines())
        assert self.process.returncode is not None
        return self.process.returncode, errors.decode()

    def events(self) -> list[str]:
        """Names of the events logged so far."""
        return [line["event"] for line in self.lines]


@contextlib.asynccontextmanager
async def started(body: str, *, tmp_path: Path, **settings: str) -> AsyncIterator[Service]:
    """A process that runs `body` as its service; killed when the test leaves it running."""
    port_file = tmp_path / "ports.json"
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PHALANX_", "OTEL_"))} | {
        "PYTHONPATH": str(ROOT),
        "PHALANX_HTTP_ADDRESS": "127.0.0.1:0",
        "PHALANX_PORT_FILE": str(port_file),
        **settings,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM.replace("{body}", body),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Service(process=process, port_file=port_file)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_clean_stop(tmp_path: Path) -> None:
    """SIGTERM lets the service finish; it exits with 0, traces are flushed, health answered on the announced port."""
    trace_file = tmp_path / "trace.jsonl"
    async with started(DRAINS, tmp_path=tmp_path, PHALANX_TRACE_FILE=str(trace_file)) as service:
        running = await service.until("app.running")
        port = orjson.loads(service.port_file.read_bytes())["http"]
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            for path in ("/livez", "/readyz", "/metrics"):
                async with session.get(path) as response:
                    assert response.status == 200
        service.process.send_signal(signal.SIGTERM)
        code, errors = await service.ended()

    assert (code, errors) == (0, "")
    assert service.events() == [
        "service.started",
        "app.running",
        "service.signal",
        "app.drained",
        "service.stopped",
    ]
    (span,) = [orjson.loads(line) for line in trace_file.read_bytes().splitlines()]
    assert span["trace_id"] == running["trace_id"]


async def test_a_service_that_does_not_drain_is_cut(tmp_path: Path) -> None:
    """After the drain timeout the service is cancelled, which shows in the exit code."""
    async with started(IGNORES, tmp_path=tmp_path, PHALANX_DRAIN_TIMEOUT_S="0.05") as service:
        await service.until("app.running")
        service.process.send_signal(signal.SIGTERM)
        code, _ = await service.ended()

    assert code == 1
    assert "service.drain_cut" in service.events()


async def test_a_second_signal_hurries(tmp_path: Path) -> None:
    """Whoever presses Ctrl-C twice does not wait for the drain timeout; meanwhile the process is not ready."""
    async with started(IGNORES, tmp_path=tmp_path, PHALANX_DRAIN_TIMEOUT_S="300") as service:
        await service.until("app.running")
        service.process.send_signal(signal.SIGINT)
        await service.until("service.signal")
        port = orjson.loads(service.port_file.read_bytes())["http"]
        async with (
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
            session.get("/readyz") as response,
        ):
            assert (response.status, "stopping" in await response.text()) == (503, True)
        service.process.send_signal(signal.SIGINT)
        code, _ = await service.ended()

    assert code == 1


async def test_a_crash_is_logged_and_seen_in_the_exit_code(tmp_path: Path) -> None:
    """An exception of the service ends the process with 1 and its traceback in the log."""
    async with started("raise RuntimeError('broken')", tmp_path=tmp_path) as service:
        code, _ = await service.ended()

    assert code == 1
    (crash,) = [line for line in service.lines if line["event"] == "service.crashed"]
    assert "RuntimeError: broken" in crash["exception"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"PHALANX_DRAIN_TIMEOUT_S": "soon", "PHALANX_NATZ_URL": "x"}, ("DRAIN_TIMEOUT_S", "NATZ_URL")),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, ("OTEL_TRACES_EXPORTER",)),
    ],
)
async def test_bad_settings_end_at_once(tmp_path: Path, settings: dict[str, str], told: tuple[str, ...]) -> None:
    """Mistakes in the environment exit with 2 and are told on standard error, all of them."""
    async with started(DRAINS, tmp_path=tmp_path, **settings) as service:
        code, errors = await service.ended()

    assert code == 2
    assert all(name in errors for name in told)
    assert "Traceback" not in errors
