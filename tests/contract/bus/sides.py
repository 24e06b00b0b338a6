"""The two sides of the suite, behind one interface: the real bus on a server of its own, and the fake."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, cast

from services.contracts.streams import STREAMS, Stream
from services.runtime.bus import Batch, Bus, Message
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from tests.fakes.bus import FakeBus

WAIT_S = 10.0


class AnyBus(Protocol):
    """What the suite tests."""

    async def publish(
        self,
        subject: str,
        *,
        data: bytes,
        headers: Mapping[str, str],
        expected_sequence: int | None = None,
        expected_subject: str = "",
        ttl_s: float | None = None,
    ) -> int:
        """Store a message."""

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject."""

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""


class Side(Protocol):
    """A bus with a server that the test may disturb."""

    @property
    def bus(self) -> AnyBus:
        """The connection under test."""

    async def stop(self) -> None:
        """Let the server go away."""

    async def restart(self) -> None:
        """Let the server come back."""

    async def delete_stream(self, stream: Stream) -> None:
        """Remove a stream with all that it holds."""

    async def create_stream(self, stream: Stream) -> None:
        """Create a stream."""

    async def follower_count(self, stream: Stream) -> int:
        """How many readers the server knows."""


@dataclass(slots=True, kw_only=True)
class FakeSide:
    """The fake."""

    bus: FakeBus

    async def stop(self) -> None:
        """Let every request fail."""
        self.bus.stop()

    async def restart(self) -> None:
        """Let requests succeed again."""
        self.bus.restart()

    async def delete_stream(self, stream: Stream) -> None:
        """Forget a stream."""
        self.bus.delete_stream(stream.name)

    async def create_stream(self, stream: Stream) -> None:
        """Know a stream."""
        self.bus.create_stream(stream)

    async def follower_count(self, stream: Stream) -> int:
        """Generators that have not ended."""
        return self.bus.following.count(stream.name)


@dataclass(slots=True, kw_only=True)
class NatsSide:
    """The bus, its server, and a second connection that looks at the server."""

    bus: Bus
    operator: Bus
    server: EmbeddedNats

    async def stop(self) -> None:
        """Kill the server."""
        await self.server.kill()

    async def restart(self) -> None:
        """Start the server on the same port and store."""
        await self.server.kill()
        await self.server.start()

    async def delete_stream(self, stream: Stream) -> None:
        """Delete a stream as an operator would."""
        await self.operator._jetstream.delete_stream(stream.name)

    async def create_stream(self, stream: Stream) -> None:
        """Create a stream."""
        await self.operator.ensure_streams([stream])

    async def follower_count(self, stream: Stream) -> int:
        """Consumers on the server."""
        return len(await self.operator._jetstream.consumers_info(stream.name))


@asynccontextmanager
async def fake_side() -> AsyncIterator[FakeSide]:
    """A fake with the streams of every installation."""
    yield FakeSide(bus=FakeBus())


@asynccontextmanager
async def nats_side() -> AsyncIterator[NatsSide]:
    """A real server with the streams of every installation."""
    async with (
        EmbeddedNats() as server,
        Bus(url=server.url, name="test", readiness=Readiness()) as bus,
        Bus(url=server.url, name="operator", readiness=Readiness()) as operator,
    ):
        await bus.ensure_streams(STREAMS)
        yield NatsSide(bus=bus, operator=operator, server=server)


class Reader:
    """Reads a stream beside the test, and lets it wait for what came."""

    def __init__(self, bus: AnyBus, *, stream: Stream, subjects: str | Sequence[str], last_per_subject: bool) -> None:
        """Keep what `run` needs."""
        self._batches = cast(
            "AsyncGenerator[Batch, None]",
            bus.follow(stream.name, subjects=subjects, last_per_subject=last_per_subject),
        )
        self._news = asyncio.Event()
        self.batches: list[Batch] = []

    async def run(self) -> None:
        """Read until cancelled."""
        async with contextlib.aclosing(self._batches):
            async for batch in self._batches:
                self.batches.append(batch)
                self._news.set()

    @property
    def messages(self) -> list[Message]:
        """Everything since the last restart."""
        start = max((index for index, batch in enumerate(self.batches) if batch.restarted), default=0)
        return [message for batch in self.batches[start:] for message in batch.messages]

    @property
    def is_caught_up(self) -> bool:
        """Whether nothing is pending."""
        return bool(self.batches) and self.batches[-1].pending == 0

    @property
    def restarts(self) -> int:
        """How often everything was delivered again."""
        return sum(batch.restarted for batch in self.batches)

    async def until_count(self, count: int) -> None:
        """Wait for that many messages."""
        await self._until(lambda: len(self.messages) >= count, what=f"{count} messages")

    async def until_caught_up(self) -> None:
        """Wait until everything stored has been read."""
        await self._until(lambda: self.is_caught_up, what="the end of the stream")

    async def until_restarted(self) -> None:
        """Wait until everything is delivered again, and read."""
        await self._until(lambda: bool(self.restarts) and self.is_caught_up, what="a restart")

    async def _until(self, condition: "Condition", *, what: str) -> None:
        try:
            async with asyncio.timeout(WAIT_S):
                while not condition():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError as error:
            raise AssertionError(
                f"waited {WAIT_S:g} s for {what}; read {len(self.messages)} in {len(self.batches)} batches"
            ) from error


class Condition(Protocol):
    """Something that comes true."""

    def __call__(self) -> bool:
        """Tell whether it is."""


@asynccontextmanager
async def reading(
    bus: AnyBus, *, stream: Stream, subjects: str | Sequence[str] = "", last_per_subject: bool = True
) -> AsyncIterator[Reader]:
    """Read a stream while the block runs."""
    reader = Reader(bus, stream=stream, subjects=subjects or stream.subjects[0], last_per_subject=last_per_subject)
    task = asyncio.create_task(reader.run())
    try:
        yield reader
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
