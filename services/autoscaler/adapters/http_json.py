"""A number in a JSON document, which a server answers to GET."""

import contextlib
import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from jsonpointer import JsonPointerException, resolve_pointer

from services.autoscaler.adapters.http_reader import HttpReader
from services.autoscaler.ports import SourceFailed
from services.core.metric_readings import Sample
from services.core.metric_sources import HttpSource, SourceSpec
from services.runtime.clock import Clock


class HttpQueues:
    """Satisfies `services.autoscaler.ports.Queues` for HttpSource."""

    def __init__(self, reader: HttpReader, *, clock: Clock) -> None:
        """Use an open reader."""
        self._reader = reader
        self._clock = clock

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the number. Raises SourceFailed."""
        assert isinstance(source, HttpSource)
        document = await self._reader.json(source.url, token_file=source.bearer_token_file, ca_file=source.ca_file)
        return (Sample(value=number_at(document, pointer=source.pointer), taken_at=self._clock.now()),)

    @contextlib.asynccontextmanager
    async def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """A server that is asked tells nobody."""
        del source, hint
        yield False


def number_at(document: Any, *, pointer: str) -> float:
    """Return the number in a document, also one that is written as text. Raises SourceFailed where there is none."""
    where = f"at {pointer!r}" if pointer else "as the whole document"
    try:
        found = resolve_pointer(document, pointer)
    except JsonPointerException as error:
        raise SourceFailed(f"has nothing {where}; expected a number") from error
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        raise SourceFailed(f"has {str(found)[:60]!r} {where}; expected a number")
    try:
        return float(found)
    except ValueError as error:
        raise SourceFailed(f"has {str(found)[:60]!r} {where}; expected a number") from error
    except OverflowError:
        return math.inf
