"""How many requests are in flight at once: as many as allowed, fewer while the API server says that it is busy."""

import asyncio
from types import TracebackType

from services.runtime.clock import Clock

DEFAULT_PAUSE_S = 1.0
"""Pause after a 429 that names none."""

LONGEST_PAUSE_S = 60.0


class Pace:
    """A bound on requests in flight, used as `async with pace:`.

    It halves when the server is busy and grows by one with each round of answers, as TCP does.
    """

    def __init__(self, *, most: int, clock: Clock) -> None:
        """Start with the most that is allowed."""
        self._most = most
        self._clock = clock
        self._limit = float(most)
        self._in_flight = 0
        self._opens_at = 0.0
        self._changed = asyncio.Condition()

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return max(1, int(self._limit))

    @property
    def in_flight(self) -> int:
        """Requests that are in flight."""
        return self._in_flight

    async def __aenter__(self) -> None:
        """Wait for a free place, and for the end of a pause."""
        while (pause_s := self._opens_at - self._clock.monotonic()) > 0:
            await self._clock.sleep(pause_s)
        async with self._changed:
            await self._changed.wait_for(lambda: self._in_flight < self.limit)
            self._in_flight += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the place back."""
        async with self._changed:
            self._in_flight -= 1
            self._limit = min(self._limit + 1 / self.limit, float(self._most))
            # As many as there is room for: waking thousands to let one in would cost more than the request.
            self._changed.notify(max(self.limit - self._in_flight, 0))

    def slow_down(self, *, retry_after_s: float | None) -> None:
        """The server is busy: pause, and go on with half as many."""
        pause_s = DEFAULT_PAUSE_S if retry_after_s is None else min(max(retry_after_s, 0.0), LONGEST_PAUSE_S)
        self._opens_at = max(self._opens_at, self._clock.monotonic() + pause_s)
        self._limit = max(1.0, self._limit / 2)
