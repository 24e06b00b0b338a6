"""What the stream says of one kind: first everything that it holds, then each message as it comes.

Most messages are echoes of the watcher's own writes. The others tell of another watcher, of a write that came late, or
of a server that lost its memory.
"""

import asyncio
import contextlib
from collections.abc import Callable

from services.core.objects import Kind
from services.watcher.ports import ClusterStream
from services.watcher.publication import Stored
from services.watcher.publisher import Publisher


class Echoes:
    """Reads one kind's part of the stream. `restarted` is called when everything read before became void."""

    def __init__(
        self, kind: Kind, *, stream: ClusterStream, publisher: Publisher, restarted: Callable[[], None]
    ) -> None:
        """Keep what is needed; `run` does the reading."""
        self._kind = kind
        self._stream = stream
        self._publisher = publisher
        self._restarted = restarted
        # Collected until somebody takes it; from then on messages go to the publisher one by one.
        self._collected: dict[str, Stored] | None = {}
        self._caught_up = asyncio.Event()
        self._scope: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Read for ever."""
        while True:
            try:
                async with asyncio.timeout(None) as self._scope:
                    await self._follow()
            except TimeoutError:
                if self._scope is None or not self._scope.expired():
                    raise
            finally:
                self._scope = None

    def reread(self) -> None:
        """Read everything again, for the next `take`."""
        self._begin()
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def take(self) -> tuple[Stored, ...]:
        """Return the last message of every subject, once all are read. What comes after it goes to the publisher."""
        await self._caught_up.wait()
        collected, self._collected = self._collected or {}, None
        return tuple(collected.values())

    def _begin(self) -> None:
        self._collected = {}
        self._caught_up.clear()

    async def _follow(self) -> None:
        self._begin()
        async with contextlib.aclosing(self._stream.follow(self._kind)) as batches:
            async for batch in batches:
                if batch.is_restarted:
                    self._begin()
                    self._restarted()
                for stored in batch.messages:
                    await self._take(stored)
                if batch.is_caught_up:
                    self._caught_up.set()

    async def _take(self, stored: Stored) -> None:
        if self._collected is None:
            await self._publisher.echo(self._kind, stored)
        else:
            self._collected[stored.subject] = stored
