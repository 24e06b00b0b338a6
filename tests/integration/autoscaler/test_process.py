"""`python -m services.autoscaler`: it starts, says when it is ready, counts, and stops."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import orjson
import pytest

from services.cli.processes import SERVICES, LocalProcess, ServiceFailed
from services.contracts.decision_codec import decision_subject, encode_decision
from services.core.decisions import Decision, Waiting
from services.core.objects import GangId
from services.core.reasons import Reason, ReasonCode
from services.runtime.bus import Bus
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from tests.builders import START

pytest_plugins = ("tests.nats_server",)

WAIT_S = 15.0


def process(nats_url: str, folder: Path) -> LocalProcess:
    """An autoscaler on free ports."""
    settings = {
        "PHALANX_NATS_URL": nats_url,
        "PHALANX_HTTP_ADDRESS": "127.0.0.1:0",
        "PHALANX_INSTANCE": "autoscaler-test",
    }
    return LocalProcess(name="autoscaler", folder=folder, environment=settings)


@pytest.fixture
async def autoscaler(nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[LocalProcess]:
    """A process that is ready."""
    running = process(nats_server.url, tmp_path)
    running.start()
    try:
        await running.wait_ready()
        yield running
    finally:
        await running.stop()


async def get(url: str) -> tuple[int, str]:
    """Status and text of a page."""
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def until_metric(running: LocalProcess, line: str) -> None:
    """Wait until `/metrics` has a line."""
    end = time.monotonic() + WAIT_S
    while line not in (await get(f"{running.http_url}/metrics"))[1].splitlines():
        assert time.monotonic() < end, f"waited {WAIT_S:g} s for {line}"
        await asyncio.sleep(0.02)


async def test_it_counts_decisions(autoscaler: LocalProcess, nats_server: EmbeddedNats) -> None:
    """It makes the streams that it reads, and counts what is published on them."""
    waiting = Waiting(
        revision=1, min_count=1, existing=1, placeable=0, reasons=(Reason(code=ReasonCode.NO_NODES, message="none"),)
    )
    decision = Decision(gang=GangId("pod/team-a/w-0"), event=waiting, decided_at=START)
    async with Bus(url=nats_server.url, name="test", readiness=Readiness()) as bus:
        await bus.publish(decision_subject(decision), data=encode_decision(decision), headers={})
    await until_metric(autoscaler, 'phalanx_autoscaler_decisions_seen_total{event="waiting"} 1.0')
    await until_metric(autoscaler, "phalanx_autoscaler_revision 1.0")
    status, _ = await get(f"{autoscaler.http_url}/livez")
    assert status == 200


async def test_readiness_follows_the_bus(autoscaler: LocalProcess, nats_server: EmbeddedNats) -> None:
    """Without NATS it is not ready, and yet alive; it needs no restart afterwards."""
    await nats_server.kill()
    end = time.monotonic() + WAIT_S
    while (page := await get(f"{autoscaler.http_url}/readyz"))[0] == 200:
        assert time.monotonic() < end, "waited for the outage to be noticed"
        await asyncio.sleep(0.02)
    assert "NOT nats: waiting for nats://127.0.0.1" in page[1]
    assert (await get(f"{autoscaler.http_url}/livez"))[0] == 200
    await nats_server.start()
    await autoscaler.wait_ready(timeout_s=WAIT_S)


async def test_it_stops_when_asked(nats_server: EmbeddedNats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM ends it soon, with code 0, and its log is JSON from the first line to the last."""
    monkeypatch.setenv("PHALANX_WRONG", "not handed on")
    running = process(nats_server.url, tmp_path)
    running.start()
    await running.wait_ready()
    popen = running._process
    assert popen is not None
    await running.stop()
    assert popen.returncode == 0
    lines = [orjson.loads(line) for line in running.log_file.read_text().splitlines()]
    assert [lines[0]["event"], lines[-1]["event"]] == ["service.started", "service.stopped"]
    assert {(line["service"], line["instance"]) for line in lines} == {("autoscaler", "autoscaler-test")}


async def test_it_stops_at_once_while_it_waits_for_nats(tmp_path: Path) -> None:
    """Nothing is in flight then, so nothing has to be drained."""
    running = process("nats://127.0.0.1:1", tmp_path)
    running.start()
    with pytest.raises(ServiceFailed, match=r"NOT nats: waiting for nats://127\.0\.0\.1:1"):
        await running.wait_ready(timeout_s=3)
    popen = running._process
    assert popen is not None
    started = time.monotonic()
    await running.stop()
    assert popen.returncode == 0
    assert time.monotonic() - started < 5


async def test_wrong_settings_are_all_told(tmp_path: Path) -> None:
    """The process ends with code 2, and one sentence for each variable."""
    running = process("nats://127.0.0.1:1", tmp_path)
    running.environment = {**running.environment, "PHALANX_NATS_ULR": "x", "PHALANX_DRAIN_TIMEOUT_S": "soon"}
    running.start()
    popen = running._process
    assert popen is not None
    assert await asyncio.to_thread(popen.wait, WAIT_S) == 2
    text = running.log_file.read_text()
    assert re.search(r"PHALANX_NATS_ULR: .*did you mean PHALANX_NATS_URL", text)
    assert "PHALANX_DRAIN_TIMEOUT_S: given 'soon', expected number of at least 0" in text


@pytest.mark.parametrize("service", SERVICES)
async def test_no_service_starts_on_a_bad_configuration_file(tmp_path: Path, service: str) -> None:
    """Each reads it, and ends with code 2 and all mistakes in its log."""
    file = tmp_path / "phalanx.yaml"
    file.write_text("topology: 1\nqueues: {}\n")
    running = process("nats://127.0.0.1:1", tmp_path)
    running.name = service
    running.environment = {**running.environment, "PHALANX_CONFIG": str(file)}
    running.start()
    popen = running._process
    assert popen is not None
    assert await asyncio.to_thread(popen.wait, WAIT_S) == 2
    told = [orjson.loads(line) for line in running.log_file.read_text().splitlines()]
    (problems,) = [line["problems"] for line in told if line["event"] == "service.settings"]
    assert [problem.removeprefix(str(file)).split(": ")[0] for problem in problems] == [":1", ":2"]


async def test_a_changed_configuration_file_is_read_again(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """A bad version is refused and counted, and the service goes on; a good one ends that."""
    file = tmp_path / "phalanx.yaml"
    file.write_text("topology: {levels: [{nodeLabel: a}]}\n")
    running = process(nats_server.url, tmp_path)
    running.environment = {**running.environment, "PHALANX_CONFIG": str(file)}
    running.start()
    try:
        await running.wait_ready()
        file.write_text("topology: {levels: [{nodeLabel: '?'}]}\n")
        await until_metric(running, "phalanx_config_refused 1.0")
        await until_metric(running, 'phalanx_config_loads_total{result="refused"} 1.0')
        assert (await get(f"{running.http_url}/readyz"))[0] == 200
        file.write_text("topology: {levels: [{nodeLabel: b}]}\n")
        await until_metric(running, "phalanx_config_refused 0.0")
        await until_metric(running, 'phalanx_config_loads_total{result="accepted"} 2.0')
    finally:
        await running.stop()
