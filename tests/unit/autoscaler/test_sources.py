"""Reading sources: how it ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from prometheus_client import CollectorRegistry

from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.sources import SourceBook
from services.core.metric_readings import Sample
from services.core.metric_sources import SourceSpec
from tests.fakes.clock import FakeClock
from tests.fakes.hpas import FakeQueues
from tests.unit.autoscaler.waking_scene import SOURCE


class SwallowingQueues(FakeQueues):
    """As a library may do before Python 3.12: what cancels a request is lost, and it ends as if nothing had been."""

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the number when it is cancelled."""
        await _swallowed()
        return await FakeQueues.read(self, source)

    @contextlib.asynccontextmanager
    async def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """Listen when it is cancelled."""
        await _swallowed()
        async with FakeQueues.listening(self, source, hint=hint) as has_hints:
            yield has_hints


async def test_a_cancellation_that_is_swallowed_ends_the_reading_all_the_same() -> None:
    """Each task of a group is cancelled only once: a service that is asked to stop would wait for ever."""
    clock = FakeClock()
    book = SourceBook(
        [SOURCE],
        queues=SwallowingQueues(clock=clock, lengths={"infer": 0}),
        clock=clock,
        metrics=WakingMetrics(CollectorRegistry()),
        interval_s=3600,
        asleep_interval_s=3600,
        changed=lambda _key: None,
    )
    reading = asyncio.create_task(book.run())
    book.set_sleeper("x", keys=tuple(book.states), is_asleep=True)
    await clock.settle()
    reading.cancel()
    await asyncio.wait([reading], timeout=20)
    assert reading.done()


async def _swallowed() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
