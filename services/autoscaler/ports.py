"""What the autoscaler needs of the world, as its own interfaces."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from services.runtime.bus import Batch


class DecisionStream(Protocol):
    """The placement stream, as the autoscaler reads it; `services.runtime.bus.Bus` is the real one."""

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""
