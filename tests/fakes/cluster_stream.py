"""The cluster stream in memory, which can be told to fail as the real one does."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from services.contracts.subjects import CLUSTER
from services.core.objects import Kind, WatchState
from services.watcher.ports import StoredBatch, StreamRefused, StreamUnavailable
from services.watcher.publication import Outgoing, Stored


@dataclass(slots=True, kw_only=True)
class FakeClusterStream:
    """Last message per subject, written by compare-and-set.

    `answers_lost` writes are stored without an answer, `writes_lost` are not stored either; `gate` holds writes back.
    """

    last_by_subject: dict[str, Stored] = field(default_factory=dict)
    log: list[Outgoing] = field(default_factory=list)
    states: list[WatchState] = field(default_factory=list)
    sequence: int = 0
    answers_lost: int = 0
    writes_lost: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    gate: asyncio.Event | None = None

    async def follow(self, kind: Kind) -> AsyncGenerator[StoredBatch, None]:
        """Yield what is held; nothing comes after it."""
        prefix = f"{CLUSTER}.{kind.value}."
        held = tuple(item for subject, item in self.last_by_subject.items() if subject.startswith(prefix))
        yield StoredBatch(messages=held, is_caught_up=True)
        await asyncio.Event().wait()

    async def last(self, subject: str) -> Stored | None:
        """Return the last message of a subject."""
        return self.last_by_subject.get(subject)

    async def publish(self, outgoing: Outgoing, *, expected_sequence: int) -> int:
        """Write by compare-and-set, or fail as told."""
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.gate is not None:
                await self.gate.wait()
            return self._write(outgoing, expected_sequence=expected_sequence)
        finally:
            self.in_flight -= 1

    def _write(self, outgoing: Outgoing, *, expected_sequence: int) -> int:
        if self.writes_lost:
            self.writes_lost -= 1
            raise StreamUnavailable("no answer")
        held = self.last_by_subject.get(outgoing.subject)
        if (held.sequence if held else 0) != expected_sequence:
            raise StreamRefused(outgoing.subject)
        self.sequence += 1
        self.last_by_subject[outgoing.subject] = Stored(
            subject=outgoing.subject, sequence=self.sequence, version=outgoing.version
        )
        self.log.append(outgoing)
        if self.answers_lost:
            self.answers_lost -= 1
            raise StreamUnavailable("no answer")
        return self.sequence

    async def publish_state(self, state: WatchState) -> None:
        """Keep the state."""
        self.states.append(state)

    async def ensure(self) -> None:
        """It is always there."""
