"""One leader at a time, on a real NATS server: renewal, release, expiry, restarts of the server, paused processes."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import nats as nats_client
import pytest

from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.leader_key import BUCKET
from tests.contract.leadership.candidates import TERMS, candidate, until


async def test_of_two_one_leads_and_both_say_so(nats: EmbeddedNats) -> None:
    """Readiness names the leader, and the metric is 1 for one of them."""
    async with candidate(nats.url, "one") as first:
        epoch = await first.leads()
        async with candidate(nats.url, "two") as second:
            await until(lambda: second.detail == "standby; leader is one", what="the second knows the first")
            assert first.detail == f"leader, epoch {epoch}"
            assert (first.gauge, second.gauge) == (1.0, 0.0)
            assert second.leadership.epoch is None
            assert second.runtime.readiness.is_ready


async def test_renewals_keep_the_epoch(nats: EmbeddedNats) -> None:
    """Over more than one life of the key, its revision grows and the epoch stays."""
    client = await nats_client.connect(nats.url)
    try:
        async with candidate(nats.url, "one") as first:
            epoch = await first.leads()
            bucket = await client.jetstream().key_value(BUCKET)
            before = (await bucket.get("placer")).revision or 0
            end = time.monotonic() + 1.5 * TERMS.ttl_s
            while time.monotonic() < end:
                assert first.leadership.epoch == epoch
                await asyncio.sleep(0.05)
            held = await bucket.get("placer")
            assert (held.revision or 0) >= before + 3
            assert json.loads(held.value or b"")["epoch"] == epoch
    finally:
        await client.close()


async def test_a_release_needs_no_expiry(nats: EmbeddedNats) -> None:
    """The next leads soon after the first has left, with a later epoch."""
    async with contextlib.AsyncExitStack() as leaving:
        first = await leaving.enter_async_context(candidate(nats.url, "one"))
        before = await first.leads()
        async with candidate(nats.url, "two") as second:
            await until(lambda: second.detail == "standby; leader is one", what="the second stands by")
            left = time.monotonic()
            await leaving.aclose()
            assert await second.leads() > before
            assert time.monotonic() - left < TERMS.ttl_s - TERMS.renew_every_s


async def test_a_server_that_is_away_ends_leadership_and_its_return_begins_it_anew(nats: EmbeddedNats) -> None:
    """Without renewals the leader stops by its own clock, before its key can expire."""
    async with candidate(nats.url, "one") as first:
        epoch = await first.leads()
        await nats.kill()
        killed = time.monotonic()
        async with asyncio.timeout(TERMS.ttl_s + 1):
            assert await first.leadership.changed(since=epoch) is None
        assert time.monotonic() - killed < TERMS.ttl_s
        await nats.start()
        assert await first.leads() > epoch


async def test_a_short_restart_of_the_server_keeps_the_leader(nats: EmbeddedNats) -> None:
    """The key is on disk, and renewed when the server is back; should that take too long, a new epoch begins."""
    async with candidate(nats.url, "one") as first, candidate(nats.url, "two") as second:
        await until(lambda: first.leadership.is_leading or second.leadership.is_leading, what="somebody leads")
        await nats.stop()
        await nats.start()
        end = time.monotonic() + TERMS.ttl_s
        while time.monotonic() < end:
            assert not (first.leadership.is_leading and second.leadership.is_leading)
            await asyncio.sleep(0.01)
        await until(lambda: first.leadership.is_leading or second.leadership.is_leading, what="somebody leads again")


async def test_a_blocked_event_loop_keeps_its_key(nats: EmbeddedNats) -> None:
    """The campaign has a thread of its own."""
    async with candidate(nats.url, "one") as first:
        epoch = await first.leads()
        time.sleep(1.5 * TERMS.ttl_s)  # noqa: ASYNC251 - the block is what is tested
        assert first.leadership.epoch == epoch


async def test_without_election_it_leads_at_once(nats: EmbeddedNats) -> None:
    """Epoch 0, and nothing is asked of the bus."""
    await nats.stop()
    async with candidate(nats.url, "one", is_elected=False) as first:
        assert (first.leadership.epoch, first.gauge, first.detail) == (0, 1.0, "")


@pytest.fixture
def processes(nats: EmbeddedNats, tmp_path: Path) -> Iterator["Processes"]:
    """Two candidates as processes, which write to one file while they lead."""
    with Processes(nats.url, tmp_path / "written") as both:
        yield both


class Processes:
    """Candidates `one` and `two`."""

    def __init__(self, url: str, path: Path) -> None:
        """Keep what starts them."""
        self._url = url
        self._path = path
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        """Nothing runs yet."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Kill what runs."""
        for process in self._running.values():
            process.kill()
            process.wait()

    def start(self, name: str) -> None:
        """Start a candidate."""
        arguments = [sys.executable, "-m", "tests.contract.leadership.candidates", self._url, name, str(self._path)]
        self._running[name] = subprocess.Popen(arguments)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal."""
        self._running[name].send_signal(number)

    def written(self) -> list[str]:
        """Return who has written, in order."""
        return [line.split()[0] for line in self._path.read_text().splitlines()] if self._path.exists() else []


async def test_a_paused_process_does_not_write_when_it_goes_on(processes: Processes) -> None:
    """It was replaced meanwhile, and finds out by its own clock, before anybody tells it."""
    processes.start("one")
    await until(lambda: "one" in processes.written(), what="the first leads")
    processes.start("two")
    processes.signal("one", signal.SIGSTOP)
    await until(lambda: "two" in processes.written(), what="the second leads")
    processes.signal("one", signal.SIGCONT)
    so_far = len(processes.written())
    await until(lambda: len(processes.written()) > so_far + 200, what="the second goes on")
    written = processes.written()
    assert "one" not in written[written.index("two") :]


async def test_a_killed_process_is_replaced_when_its_key_expires(processes: Processes) -> None:
    """No sooner, and not much later."""
    processes.start("one")
    await until(lambda: "one" in processes.written(), what="the first leads")
    processes.start("two")
    processes.signal("one", signal.SIGKILL)
    killed = time.monotonic()
    await until(lambda: "two" in processes.written(), what="the second leads")
    assert time.monotonic() - killed < 2 * TERMS.ttl_s + 2
