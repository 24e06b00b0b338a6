"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

_SETTLE_TURNS = 20


class FakeClock:
    """Satisfies `services.runtime.clock.Clock`; sleepers wake in the order of their deadlines."""

    def __init__(self, *, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """Start time plus everything that was advanced."""
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        """Wait until a test has advanced that far; zero gives others a turn, as the real one does."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + seconds, next(self._order), wake))
        await wake

    @property
    def sleeper_count(self) -> int:
        """How many are asleep: a test waits for this before it advances."""
        return sum(not wake.done() for _, _, wake in self._sleepers)

    def advance(self, seconds: float) -> None:
        """Move time and release everyone whose deadline has come; they run at the next turn of the loop."""
        self._elapsed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed_s:
            _, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)

    async def run_for(self, seconds: float) -> None:
        """Advance deadline by deadline, letting sleepers run in between: loops that sleep again do so in time."""
        end = self._elapsed_s + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.advance(self._sleepers[0][0] - self._elapsed_s)
            await self.settle()
        self.advance(end - self._elapsed_s)
        await self.settle()

    async def settle(self) -> None:
        """Give every task that is ready a few turns of the event loop."""
        for _ in range(_SETTLE_TURNS):
            await asyncio.sleep(0)
