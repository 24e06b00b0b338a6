"""Time as a dependency, so that everything which waits or compares ages can be tested without waiting.

The core never sees a clock: shells read one and hand `now` in.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What a service may ask about time."""

    def now(self) -> datetime:
        """Wall-clock time in UTC, for what people and other processes read."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump, for deadlines and ages inside one process."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait that long on the running event loop."""
        await asyncio.sleep(seconds)
