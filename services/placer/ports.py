"""What the placer needs of the world, as its own interfaces."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from services.runtime.bus import Batch, Message


class DecisionBus(Protocol):
    """The bus, as the placer uses it; `services.runtime.bus.Bus` is the real one."""

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""

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
        """Store a message if the subject's last sequence is the expected one."""

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject."""
