"""What readers and writers notice of a server that dies, hangs, or forgets; and how soon."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from services.contracts.streams import PLACEMENT_STREAM, SCALING_STREAM, STREAMS
from services.runtime.bus import Bus, BusUnavailable, StaleWrite
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from tests.contract.bus.sides import Reader, reading

pytest_plugins = ("tests.nats_server",)

SUBJECT = "phalanx.placement.v1.pod.a.w-0.proposed"
SOON_S = 2.0
"""Resumption after the server is back; a few hundredths of a second on an idle machine."""
WAIT_S = 15.0


@pytest.fixture
def readiness() -> Readiness:
    """What the connection says about itself."""
    return Readiness()


@pytest.fixture
async def bus(nats_server: EmbeddedNats, readiness: Readiness) -> AsyncIterator[Bus]:
    """An open bus with the streams of every installation."""
    async with Bus(url=nats_server.url, name="test", readiness=readiness) as opened:
        await opened.ensure_streams(STREAMS)
        yield opened


async def until(condition: Callable[[], bool], *, what: str) -> None:
    """Wait until something holds."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, f"waited {WAIT_S:g} s for {what}"
        await asyncio.sleep(0.005)


def details(readiness: Readiness) -> dict[str, str]:
    """What is not ready, and why."""
    return {one.name: one.detail for one in readiness.conditions if not one.ready}


async def write(bus: Bus, subject: str = SUBJECT, *, text: str = "") -> int:
    """Publish a text."""
    return await bus.publish(subject, data=text.encode(), headers={})


async def resumed(reader: Reader, bus: Bus) -> float:
    """Write, and return how long it took from now on until the reader had everything again."""
    started = time.monotonic()
    sequence = await write(bus, text="after")
    await until(lambda: any(one.sequence == sequence for one in reader.messages), what="what was written after")
    return time.monotonic() - started


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
async def test_reading_resumes_soon_after_a_restart(nats_server: EmbeddedNats, bus: Bus, *, is_killed: bool) -> None:
    """A consumer in the server's memory is lost with the server; the reader starts again on its own."""
    await write(bus, text="before")
    async with reading(bus, stream=PLACEMENT_STREAM, last_per_subject=False) as reader:
        await reader.until_caught_up()
        await (nats_server.kill() if is_killed else nats_server.stop())
        await nats_server.start()
        assert await resumed(reader, bus) < SOON_S
    assert reader.restarts == 1
    assert [message.data for message in reader.messages] == [b"before", b"after"]


async def test_reading_resumes_after_a_long_outage(nats_server: EmbeddedNats, bus: Bus, readiness: Readiness) -> None:
    """Also where requests to the dead server have run out of time."""
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
        await nats_server.kill()
        await until(lambda: f"stream {PLACEMENT_STREAM.name}" in details(readiness), what="the reader says so")
        assert "disconnected" in details(readiness)["nats"] or "Connect call failed" in details(readiness)["nats"]
        await nats_server.start()
        assert await resumed(reader, bus) < SOON_S
        await until(lambda: readiness.is_ready, what="ready again")


async def until_stopped(pid: int) -> None:
    """Wait until no thread of a process runs: the signal comes to each in its own time."""
    states = Path(f"/proc/{pid}/task")

    def is_stopped() -> bool:
        return all((one / "stat").read_text().rpartition(")")[2].split()[0] == "T" for one in states.iterdir())

    await until(is_stopped, what=f"process {pid} is stopped")


async def test_reading_resumes_after_a_server_that_hung(nats_server: EmbeddedNats, bus: Bus) -> None:
    """The connection stands, but nothing answers; silence is noticed, and nothing is missing afterwards."""
    await write(bus, text="before")
    async with reading(bus, stream=PLACEMENT_STREAM, last_per_subject=False) as reader:
        await reader.until_caught_up()
        assert nats_server.pid is not None
        os.kill(nats_server.pid, signal.SIGSTOP)
        try:
            await until_stopped(nats_server.pid)
            with pytest.raises(BusUnavailable):
                await write(bus, text="lost answer")
        finally:
            os.kill(nats_server.pid, signal.SIGCONT)
        assert await resumed(reader, bus) < SOON_S
    # Nobody knew whether it was written. It was, once, when the server woke up.
    assert [message.data for message in reader.messages] == [b"before", b"lost answer", b"after"]


async def test_deleted_consumer_is_noticed_at_once(bus: Bus) -> None:
    """As an operator may do it by mistake; nothing has to be written for it."""
    await write(bus, text="before")
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
        (consumer,) = await bus._jetstream.consumers_info(PLACEMENT_STREAM.name)
        started = time.monotonic()
        await bus._jetstream.delete_consumer(PLACEMENT_STREAM.name, consumer.name)
        await reader.until_restarted()
        assert time.monotonic() - started < SOON_S


async def test_deleted_stream_is_waited_for(bus: Bus, readiness: Readiness) -> None:
    """Readiness names the stream while it is missing; the reader goes on when it is made again."""
    async with reading(bus, stream=SCALING_STREAM) as reader:
        await reader.until_caught_up()
        await bus._jetstream.delete_stream(SCALING_STREAM.name)
        condition = f"stream {SCALING_STREAM.name}"
        await until(lambda: condition in details(readiness), what="the missing stream is told")
        assert "not found" in details(readiness)[condition]
        await bus.ensure_streams([SCALING_STREAM])
        await write(bus, "phalanx.scaling.v1.a.h.woken", text="new")
        await reader.until_count(1)
        await until(lambda: readiness.is_ready, what="ready again")


async def test_publish_learns_of_a_lost_connection_at_once(nats_server: EmbeddedNats, bus: Bus) -> None:
    """An answer that was on its way never comes: the writer is told without waiting for the request to time out."""
    assert nats_server.pid is not None
    os.kill(nats_server.pid, signal.SIGSTOP)
    writing = asyncio.create_task(write(bus))
    await until(lambda: bool(bus._requests), what="the request is sent")
    started = time.monotonic()
    await nats_server.kill()
    with pytest.raises(BusUnavailable):
        await writing
    assert time.monotonic() - started < SOON_S


async def test_publish_waits_for_the_server(nats_server: EmbeddedNats, bus: Bus, readiness: Readiness) -> None:
    """A short outage costs a writer time, not an error."""
    await nats_server.stop()
    await until(lambda: not readiness.is_ready, what="the outage is noticed")
    writing = asyncio.create_task(write(bus))
    await nats_server.start()
    assert await writing == 1


async def test_nothing_is_published_twice_across_kills(nats_server: EmbeddedNats, bus: Bus) -> None:
    """Writers that repeat on the same expectation until the answer is definite store each message once, in order."""
    stored: list[int] = []

    async def keep_writing() -> None:
        expected = 0
        for number in range(60):
            while True:
                try:
                    expected = await bus.publish(
                        SUBJECT, data=str(number).encode(), headers={"ce-id": str(number)}, expected_sequence=expected
                    )
                except BusUnavailable:
                    continue
                except StaleWrite:
                    last = await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
                    assert last is not None
                    assert last.headers["ce-id"] == str(number)
                    expected = last.sequence
                break
            stored.append(number)

    writing = asyncio.create_task(keep_writing())
    for count in (10, 30, 50):
        await until(lambda count=count: len(stored) >= count, what="some are written")  # type: ignore[misc]
        await nats_server.kill()
        await nats_server.start()
    await writing
    async with reading(bus, stream=PLACEMENT_STREAM, last_per_subject=False) as reader:
        await reader.until_caught_up()
    assert [message.data for message in reader.messages] == [str(number).encode() for number in range(60)]


async def test_bus_waits_for_its_first_server(nats_server: EmbeddedNats) -> None:
    """A service may start before NATS does; readiness says what is waited for."""
    await nats_server.stop()
    readiness = Readiness()
    bus = Bus(url=nats_server.url, name="early", readiness=readiness)
    opening = asyncio.create_task(bus.__aenter__())
    await until(lambda: "Connect call failed" in details(readiness).get("nats", ""), what="the reason is told")
    await nats_server.start()
    await opening
    try:
        await bus.ensure_streams(STREAMS)
        assert readiness.is_ready
    finally:
        await bus.__aexit__(None, None, None)


async def test_close_leaves_no_consumer(nats_server: EmbeddedNats, bus: Bus) -> None:
    """Also of a reader whose generator nobody closed."""
    async with Bus(url=nats_server.url, name="other", readiness=Readiness()) as other:
        batches = other.follow(PLACEMENT_STREAM.name, subjects=PLACEMENT_STREAM.subjects[0])
        await anext(batches)
        assert len(await bus._jetstream.consumers_info(PLACEMENT_STREAM.name)) == 1
    assert await bus._jetstream.consumers_info(PLACEMENT_STREAM.name) == []
    with contextlib.suppress(StopAsyncIteration):
        await anext(batches)
        pytest.fail("a closed bus has nothing to read")


async def test_stream_that_cannot_be_made_is_told(bus: Bus, readiness: Readiness) -> None:
    """As where its subjects belong to a stream of somebody else: the operator reads it at /readyz."""
    greedy = replace(SCALING_STREAM, name="GREEDY", subjects=("phalanx.placement.v1.pod.>",))
    making = asyncio.create_task(bus.ensure_streams([greedy]))
    await until(lambda: "streams" in details(readiness), what="the conflict is told")
    assert "GREEDY" in details(readiness)["streams"]
    assert "overlap" in details(readiness)["streams"]
    making.cancel()


async def test_several_servers_and_no_password_in_readiness(nats_server: EmbeddedNats) -> None:
    """The first that answers is taken; what readiness shows has no credentials in it."""
    readiness = Readiness()
    urls = f"nats://127.0.0.1:1, {nats_server.url.replace('://', '://user:secret@')}"
    async with Bus(url=urls, name="test", readiness=readiness):
        (condition,) = readiness.conditions
    assert condition.detail == f"connected to nats://127.0.0.1:1, {nats_server.url}"


async def test_a_kept_stream_is_made_again_by_who_reads_or_writes(
    nats_server: EmbeddedNats, readiness: Readiness
) -> None:
    """Deleted while it is read, it comes back empty, and its reader is told that what it read is void."""
    async with Bus(url=nats_server.url, name="test", readiness=readiness) as bus:
        await bus.keep_streams(STREAMS)
        await write(bus, text="before")
        async with reading(bus, stream=PLACEMENT_STREAM) as reader:
            await reader.until_count(1)
            await bus._jetstream.delete_stream(PLACEMENT_STREAM.name)
            await reader.until_restarted()
            assert await write(bus, text="after") == 1
            await reader.until_count(1)
        await bus._jetstream.delete_stream(SCALING_STREAM.name)
        with pytest.raises(BusUnavailable):
            await write(bus, "phalanx.scaling.v1.a.h.woken")
        assert await write(bus, "phalanx.scaling.v1.a.h.woken") == 1
        await bus._jetstream.delete_stream(SCALING_STREAM.name)
        with pytest.raises(BusUnavailable):
            await bus.last(SCALING_STREAM.name, subject="phalanx.scaling.v1.>")
        assert await bus.last(SCALING_STREAM.name, subject="phalanx.scaling.v1.>") is None
