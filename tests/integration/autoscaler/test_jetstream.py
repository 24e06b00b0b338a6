"""Lengths of queues from a real NATS server: what is counted, and what is said where nothing can be."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from services.autoscaler.adapters.jetstream import JetStreamQueues
from services.autoscaler.ports import SourceFailed
from services.core.metric_sources import JetStreamSource
from services.runtime.clock import SystemClock
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness

pytest_plugins = ("tests.nats_server",)

SOURCE = JetStreamSource(stream="ORDERS", consumer="infer")
USERS = """
authorization {
  users = [
    {user: owner, password: o}
    {user: phalanx, password: p, permissions: {publish: {deny: "$JS.API.CONSUMER.INFO.ORDERS.>"}}}
  ]
}
"""


class StrictServer(EmbeddedNats):
    """A server on which one account may not ask for consumers."""

    def _configuration(self) -> str:
        return EmbeddedNats._configuration(self) + USERS

    async def _answer(self, process: asyncio.subprocess.Process) -> None:
        """Its first answer needs a password, which the tests give themselves."""

    def of(self, user: str) -> str:
        """The address for a user, whose password is its first letter."""
        return self.url.replace("//", f"//{user}:{user[0]}@")


@contextlib.asynccontextmanager
async def queues(url: str) -> AsyncIterator[JetStreamQueues]:
    """An open connection."""
    async with JetStreamQueues(url=url, name="test", clock=SystemClock(), readiness=Readiness()) as opened:
        yield opened


@contextlib.asynccontextmanager
async def owner(url: str) -> AsyncIterator[Client]:
    """Whoever owns the stream ORDERS, which has one message and the consumer."""
    client = Client()
    await client.connect(url)
    try:
        jetstream = client.jetstream()
        await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
        await jetstream.add_consumer("ORDERS", ConsumerConfig(durable_name="infer", ack_policy=AckPolicy.EXPLICIT))
        await jetstream.publish("orders.a", b"1")
        yield client
    finally:
        await client.close()


async def test_waiting_and_unacknowledged_messages_are_added_up(nats_server: EmbeddedNats) -> None:
    """And what is acknowledged is over: an explicit zero."""
    async with owner(nats_server.url) as client, queues(nats_server.url) as opened:
        subscription = await client.jetstream().pull_subscribe_bind(stream="ORDERS", consumer="infer")
        await client.jetstream().publish("orders.b", b"2")
        (message,) = await subscription.fetch(1, timeout=5)
        assert [sample.value for sample in await opened.read(SOURCE)] == [2]
        await message.ack_sync()
        (last,) = await subscription.fetch(1, timeout=5)
        await last.ack_sync()
        assert [sample.value for sample in await opened.read(SOURCE)] == [0]


@pytest.mark.parametrize(
    ("source", "what"),
    [
        (JetStreamSource(stream="NONE", consumer="infer"), r"does not exist \(stream NONE\)"),
        (JetStreamSource(stream="ORDERS", consumer="none"), r"does not exist \(consumer none of stream ORDERS\)"),
    ],
)
async def test_what_does_not_exist_is_said(nats_server: EmbeddedNats, source: JetStreamSource, what: str) -> None:
    """Neither for its length nor for its hints is anything made."""
    async with owner(nats_server.url) as client, queues(nats_server.url) as opened:
        with pytest.raises(SourceFailed, match=what):
            await opened.read(source)
        with pytest.raises(SourceFailed, match=what):
            async with opened.listening(source, hint=lambda: None):
                pass
        assert (await client.jetstream().stream_info("ORDERS")).state.consumer_count == 1


async def test_hints_come_while_somebody_listens(nats_server: EmbeddedNats) -> None:
    """And after a lost connection once without a message, for what came meanwhile."""
    hinted = asyncio.Event()
    async with (
        owner(nats_server.url) as client,
        queues(nats_server.url) as opened,
        opened.listening(SOURCE, hint=hinted.set),
    ):
        await client.publish("orders.c", b"3")
        await asyncio.wait_for(hinted.wait(), timeout=10)
        hinted.clear()
        await nats_server.kill()
        await nats_server.start()
        await asyncio.wait_for(hinted.wait(), timeout=20)


async def test_a_missing_permission_is_said(tmp_path: Path) -> None:
    """The server is silent about the request itself; what it says beside it becomes the reason."""
    async with (
        StrictServer(store_dir=tmp_path) as server,
        owner(server.of("owner")),
        queues(server.of("phalanx")) as it,
    ):
        with pytest.raises(
            SourceFailed, match=r"may not be read \(consumer infer of stream ORDERS\): .*[Pp]ermissions"
        ):
            await it.read(SOURCE)
