"""`phalanx dead-letters` against a real NATS server."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner, Result

from services.cli import dead_letters
from services.cli.main import main
from services.contracts.streams import DEAD_LETTERS_STREAM, PLACEMENT_STREAM, STREAMS
from services.runtime.bus import Bus, Message
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from tests.fakes.letters import letter_box

pytest_plugins = ("tests.nats_server",)

SUBJECT = "phalanx.placement.v1.pod.team-a.bad.proposed"
HEADERS = {"ce-id": "t1/proposed/0", "Nats-Msg-Id": "t1/proposed/0"}


@pytest.fixture
async def bus(nats_server: EmbeddedNats) -> AsyncIterator[Bus]:
    """A connection with the streams of every installation."""
    async with Bus(url=nats_server.url, name="test", readiness=Readiness()) as opened:
        await opened.ensure_streams(STREAMS)
        yield opened


async def run(*arguments: str, url: str, given: str = "") -> Result:
    """Run the command on a thread, as a process of its own would beside the server."""
    runner = CliRunner(env={"COLUMNS": "200", "PHALANX_NATS_URL": None})
    return await asyncio.to_thread(
        lambda: runner.invoke(main, ["dead-letters", *arguments, "--nats-url", url], input=given)
    )


async def publish(bus: Bus, data: bytes = b"\x0a\x05hello") -> Message:
    """Store a bad message, and return it."""
    sequence = await bus.publish(SUBJECT, data=data, headers=HEADERS)
    return Message(subject=SUBJECT, data=data, headers=HEADERS, sequence=sequence)


async def bury(bus: Bus, message: Message, *services: str) -> None:
    """Let services put a message into the dead letters."""
    for service in services:
        box = letter_box(bus, service=service)
        running = asyncio.create_task(box.run())
        box.put(message, stream=PLACEMENT_STREAM.name, problem="carries no event")
        async with asyncio.timeout(15):
            await box.emptied()
        running.cancel()


async def letters(url: str) -> list[dict[str, object]]:
    """What the list says to programs."""
    found: list[dict[str, object]] = json.loads((await run("list", "-o", "json", url=url)).stdout)
    return found


async def test_list_and_show(bus: Bus, nats_server: EmbeddedNats) -> None:
    """A line for each letter; one whole with headers and body, and all of it as JSON."""
    await bury(bus, await publish(bus), "binder", "placer")
    listed = await run("list", url=nats_server.url)
    assert listed.exit_code == 0
    lines = [line.split() for line in listed.stdout.splitlines()]
    assert [line[0] for line in lines] == ["letter", "binder/PHALANX_PLACEMENT/1", "placer/PHALANX_PLACEMENT/1"]
    assert lines[1][1:3] == [SUBJECT, "1"]
    shown = (await run("show", "binder/PHALANX_PLACEMENT/1", url=nats_server.url)).stdout
    assert "carries no event" in shown
    assert "ce-id: t1/proposed/0" in shown
    assert 'gang: "hello"' in shown
    document = json.loads((await run("show", "binder/PHALANX_PLACEMENT/1", "-o", "json", url=nats_server.url)).stdout)
    assert (document["body"], document["headers"]) == ("CgVoZWxsbw==", HEADERS)


async def test_a_body_that_is_no_message_is_shown_as_bytes(bus: Bus, nats_server: EmbeddedNats) -> None:
    """As hexadecimal and text."""
    await bury(bus, await publish(bus, b"\xffabc"), "binder")
    shown = (await run("show", "binder/PHALANX_PLACEMENT/1", url=nats_server.url)).stdout
    assert "00000000  ff 61 62 63" in shown
    assert shown.rstrip().endswith(".abc")


async def test_retry_delivers_the_same_again_and_drops_the_letters(bus: Bus, nats_server: EmbeddedNats) -> None:
    """Bytes and headers as they were, on the same subject, also while the server would drop repetitions of its id.

    Every service's letter about the message is gone.
    """
    await bury(bus, await publish(bus), "binder", "placer")
    result = await run("retry", "binder/PHALANX_PLACEMENT/1", url=nats_server.url)
    assert (result.exit_code, result.stdout) == (
        0,
        "binder/PHALANX_PLACEMENT/1: delivered again as message 2 of PHALANX_PLACEMENT\n",
    )
    last = await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    assert last is not None
    assert (last.sequence, last.data, last.headers["ce-id"]) == (2, b"\x0a\x05hello", "t1/proposed/0")
    assert await letters(nats_server.url) == []


async def test_retry_never_replaces_a_newer_message(bus: Bus, nats_server: EmbeddedNats) -> None:
    """The letter is kept, and the error says what to do; others are delivered all the same."""
    await bury(bus, await publish(bus), "binder")
    await bus.publish(SUBJECT, data=b"newer", headers={})
    other = Message(subject=SUBJECT.replace("bad", "worse"), data=b"w", headers={}, sequence=0)
    sequence = await bus.publish(other.subject, data=other.data, headers={})
    await bury(bus, Message(subject=other.subject, data=b"w", headers={}, sequence=sequence), "binder")
    result = await run("retry", "--all", url=nats_server.url)
    assert result.exit_code == 1
    assert "has a newer message" in result.stderr
    assert "phalanx dead-letters drop binder/PHALANX_PLACEMENT/1" in result.stderr
    assert [one["letter"] for one in await letters(nats_server.url)] == ["binder/PHALANX_PLACEMENT/1"]
    last = await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    assert last is not None
    assert last.data == b"newer"


async def test_drop_asks_first(bus: Bus, nats_server: EmbeddedNats) -> None:
    """No is no; --yes answers."""
    await bury(bus, await publish(bus), "binder", "placer")
    refused = await run("drop", "binder/PHALANX_PLACEMENT/1", url=nats_server.url, given="n\n")
    assert refused.exit_code == 1
    assert "Drop binder/PHALANX_PLACEMENT/1 for good?" in refused.output
    assert len(await letters(nats_server.url)) == 2
    dropped = await run("drop", "--all", "--yes", url=nats_server.url)
    assert dropped.exit_code == 0
    assert await letters(nats_server.url) == []
    assert await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT) is not None


async def test_mistakes_are_told(bus: Bus, nats_server: EmbeddedNats) -> None:
    """Unknown letters, none named, and a stream that holds something else."""
    assert bus is not None
    unknown = await run("show", "binder/X/1", url=nats_server.url)
    assert (unknown.exit_code, "there is no dead letter binder/X/1" in unknown.stderr) == (1, True)
    assert (await run("retry", url=nats_server.url)).exit_code == 2
    assert (await run("drop", "--all", "x", url=nats_server.url)).exit_code == 2
    empty = await run("list", url=nats_server.url)
    assert (empty.exit_code, empty.stdout, empty.stderr) == (0, "", "there are no dead letters\n")
    await bus.publish(f"{DEAD_LETTERS_STREAM.subjects[0][:-2]}.x.y.1", data=b"\xff", headers={})
    assert "is no letter" in (await run("list", url=nats_server.url)).stderr


async def test_servers_that_are_not_there(nats_server: EmbeddedNats, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers, or Phalanx was never there."""
    never = await run("list", url=nats_server.url)
    assert (never.exit_code, "no service of Phalanx has used this NATS server yet" in never.stderr) == (1, True)
    monkeypatch.setattr(dead_letters, "CONNECT_TIMEOUT_S", 0.5)
    nobody = await run("list", url="nats://127.0.0.1:1")
    assert (nobody.exit_code, "no NATS server answers at nats://127.0.0.1:1" in nobody.stderr) == (1, True)
