"""What the sandbox asks of its surroundings, so that tests can move time by hand."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for timers, and waiting."""

    def now(self) -> datetime:
        """The current moment in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back."""
        ...

    async def sleep(self, delay_s: float, /) -> None:
        """Return once that much of this clock's time has passed."""
        ...
