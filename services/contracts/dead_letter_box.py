"""Where a service puts messages that it cannot read or handle, beside its work: putting one in never waits.

Reading goes on at once, because one bad message must not hold up the others. What does not fit into the box while the
bus is away is dropped and counted; the message itself is still in its stream, and is met again when that is read anew.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter
from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_delay, wait_random_exponential

from services.contracts.dead_letters import (
    DeadLetter,
    UnreadableLetter,
    decode_letter,
    encode_letter,
    letter_headers,
    letter_of,
    letter_subject,
    met_again,
)
from services.contracts.streams import DEAD_LETTERS_STREAM
from services.runtime.bus import BusUnavailable, Message, StaleWrite
from services.runtime.clock import Clock
from services.runtime.log import get

MAX_WAITING = 1024
"""Letters that wait for the bus; later ones are dropped."""
PATIENCE_S = 300.0
"""How long one letter is tried before it is dropped, so that one which the server never takes holds up no others."""

_log = get("contracts.dead_letters")


class LetterBus(Protocol):
    """The bus, as the box uses it; `services.runtime.bus.Bus` is the real one."""

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


class DeadLetterMetrics:
    """What is counted about dead letters."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything."""
        self.stored = Counter(
            "phalanx_dead_letters",
            "Messages that could not be read or handled and were put into PHALANX_DEAD_LETTERS, by their stream",
            ["stream"],
            registry=registry,
        )
        self.dropped = Counter(
            "phalanx_dead_letters_dropped",
            "Letters that could not be stored; their messages are met again when their stream is read anew",
            registry=registry,
        )


class DeadLetterBox:
    """Stores letters in the order in which they are put in."""

    def __init__(
        self, bus: LetterBus, *, service: str, instance: str, clock: Clock, metrics: DeadLetterMetrics
    ) -> None:
        """Keep the parts; `run` does the work."""
        self._bus = bus
        self._service = service
        self._instance = instance
        self._clock = clock
        self._metrics = metrics
        self._waiting: asyncio.Queue[DeadLetter] = asyncio.Queue(MAX_WAITING)

    def put(self, message: Message, *, stream: str, problem: str) -> None:
        """Put a message in, with what is wrong with it."""
        letter = letter_of(
            message,
            service=self._service,
            instance=self._instance,
            stream=stream,
            problem=problem,
            at=self._clock.now(),
        )
        _log.error("message.dead", letter=letter.id, subject=letter.subject, problem=letter.problem)
        try:
            self._waiting.put_nowait(letter)
        except asyncio.QueueFull:
            self._drop(letter, detail=f"{MAX_WAITING} letters wait already")

    async def emptied(self) -> None:
        """Wait until everything that was put in is stored or dropped."""
        await self._waiting.join()

    async def run(self) -> None:
        """Store what is put in, for ever."""
        while True:
            letter = await self._waiting.get()
            patient = AsyncRetrying(
                wait=wait_random_exponential(multiplier=0.05, max=5),
                retry=retry_if_exception_type((BusUnavailable, StaleWrite)),
                stop=stop_after_delay(PATIENCE_S),
                sleep=self._clock.sleep,
            )
            try:
                async for attempt in patient:
                    with attempt:
                        await self._store(letter)
            except RetryError as error:
                self._drop(letter, detail=str(error.last_attempt.exception()))
            self._waiting.task_done()

    async def _store(self, letter: DeadLetter) -> None:
        """Write the letter, counted up from the one that is there. Raises StaleWrite where another wrote meanwhile."""
        subject = letter_subject(letter)
        last = await self._bus.last(DEAD_LETTERS_STREAM.name, subject=subject)
        if last is not None:
            try:
                letter = met_again(letter, earlier=decode_letter(last.data))
            except UnreadableLetter:
                # Somebody else wrote it: ours says more.
                _log.warning("letter.replaced", letter=letter.id)
        await self._bus.publish(
            subject,
            data=encode_letter(letter),
            headers=letter_headers(letter),
            expected_sequence=0 if last is None else last.sequence,
        )
        self._metrics.stored.labels(stream=letter.stream).inc()

    def _drop(self, letter: DeadLetter, *, detail: str) -> None:
        self._metrics.dropped.inc()
        _log.error("letter.dropped", letter=letter.id, detail=detail)
