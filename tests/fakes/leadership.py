"""A leadership that a test gives and takes."""

import asyncio
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class FakeLeadership:
    """Satisfies `services.autoscaler.ports.Leading`; `give` and `take` change it."""

    epoch: int | None = 1
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def changed(self, *, since: int | None) -> int | None:
        """Wait until the epoch is another."""
        while self.epoch == since:
            await self._changed.wait()
            self._changed.clear()
        return self.epoch

    def give(self, epoch: int) -> None:
        """Let it lead."""
        self.epoch = epoch
        self._changed.set()

    def take(self) -> None:
        """Let somebody else lead."""
        self.epoch = None
        self._changed.set()
