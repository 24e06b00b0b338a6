"""How many requests are in flight at once: as many as allowed, fewer while the API server says that it is busy."""

import asyncio
from collections import deque
from types import TracebackType

from services.runtime.clock import Clock

DEFAULT_PAUSE_S = 1.0
"""Pause after a 429 that names none."""

LONGEST_PAUSE_S = 60.0


class Pace:
    """A bound on requests in flight, used as `async with pace:`.

    It halves when the server is busy and grows by one with each round of answers, as TCP does. Whoever has to wait is
    let in in order; where there is room, nothing is waited for and no lock is taken.
    """

    def __init__(self, *, most: int, clock: Clock) -> None:
        """Start with the most that is allowed."""
        self._most = most
        self._clock = clock
        self._limit = float(most)
        self._in_flight = 0
        self._opens_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return max(1, int(self._limit))

    @property
    def in_flight(self) -> int:
        """Requests that are in flight."""
        return self._in_flight

    async def __aenter__(self) -> None:
        """Wait for the end of a pause, and for a free place."""
        await self._pause()
        if self._in_flight < self.limit and not self._waiting:
            self._in_flight += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
            # It may have been a long wait, and another pause may have begun.
            await self._pause()
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._in_flight -= 1
                self._let_in()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the place back."""
        self._in_flight -= 1
        if self._limit < self._most:
            self._limit = min(self._limit + 1 / self.limit, float(self._most))
        self._let_in()

    def slow_down(self, *, retry_after_s: float | None) -> None:
        """The server is busy: pause, and go on with half as many."""
        pause_s = DEFAULT_PAUSE_S if retry_after_s is None else min(max(retry_after_s, 0.0), LONGEST_PAUSE_S)
        self._opens_at = max(self._opens_at, self._clock.monotonic() + pause_s)
        self._limit = max(1.0, self._limit / 2)

    async def _pause(self) -> None:
        while self._opens_at and (pause_s := self._opens_at - self._clock.monotonic()) > 0:
            await self._clock.sleep(pause_s)

    def _let_in(self) -> None:
        """Give free places to those who wait: a place is taken when it is given, so that nobody slips in between."""
        while self._waiting and self._in_flight < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self._in_flight += 1
                place.set_result(None)
