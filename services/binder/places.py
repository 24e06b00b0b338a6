"""A bounded number of transactions that are worked on at once; those that only wait do not count."""

import asyncio


class Place:
    """One transaction's place. It is given up while it only waits, so that a long wait blocks nobody."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        """Have none yet."""
        self._places = places
        self.is_taken = False

    async def take(self) -> None:
        """Wait for a place, in the order of asking, unless it has one."""
        if not self.is_taken:
            await self._places.acquire()
            self.is_taken = True

    def leave(self) -> None:
        """Give the place up, where it has one."""
        if self.is_taken:
            self.is_taken = False
            self._places.release()
