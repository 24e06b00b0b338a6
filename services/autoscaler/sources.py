"""Reads the configured sources: regularly, and at once where a hint says that something came."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.ports import Queues, SourceFailed
from services.core.metric_readings import NEVER_READ, Known, MetricKey, Reading, SourceState, Unknown, reading_of
from services.core.metric_sources import MetricSource, SourceSpec
from services.runtime.clock import Clock
from services.runtime.stopping import end_if_cancelled

AFTER_HINT_S = (0.02, 0.08, 0.2)
"""Pauses between readings after a hint while they find nothing: a message is told of before it is stored.

Further hints wait until these are over, so that a stream which is busy with other consumers' messages costs ten
readings a second and not one for each message.
"""

FIRST_RETRY_S = 0.5
"""Longest pause before the first new attempt to listen; it doubles up to the interval of the readings."""

ALMOST = 0.9
"""Of an interval: timers are not exact."""


@dataclass(slots=True, kw_only=True)
class SourceWatch:
    """One source. While somebody sleeps who uses it, it is listened to, or read often where it gives no hints."""

    key: MetricKey
    source: SourceSpec
    queues: Queues
    clock: Clock
    metrics: WakingMetrics
    interval_s: float
    asleep_interval_s: float
    changed: Callable[[MetricKey], None]
    state: SourceState | None = None
    #: When the first sign of the work came that is there now: a hint, or the beginning of the reading that found it.
    signal_s: float | None = None
    _counted_s: float | None = None
    _must_poll: bool = False
    _sleepers: set[str] = field(default_factory=set)
    _hinted: asyncio.Event = field(default_factory=asyncio.Event)
    _slept: asyncio.Event = field(default_factory=asyncio.Event)

    def set_sleeper(self, name: str, *, is_asleep: bool) -> None:
        """Say whether an HPA that uses the source waits to be woken."""
        if is_asleep:
            if not self._sleepers:
                # What came before was for a target that ran.
                self.signal_s = None
            self._sleepers.add(name)
        else:
            self._sleepers.discard(name)
        self._slept.set()

    async def run(self) -> None:
        """Read and listen for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read_for_ever(), name=f"reading {self.key}")
            group.create_task(self._listen(), name=f"listening for {self.key}")

    async def _read_for_ever(self) -> None:
        pauses: Iterator[float] = iter(())
        while True:
            began_s = self.clock.monotonic()
            reading = await self._read()
            end_if_cancelled()
            has_work = isinstance(reading, Known) and reading.value > 0
            if has_work and self.signal_s is None:
                self.signal_s = began_s
            self.state = (self.state or NEVER_READ).after(reading, is_counted=self._is_counted(reading))
            self.metrics.readings.labels(result="known" if isinstance(reading, Known) else "unknown").inc()
            self.changed(self.key)
            pause_s = None if has_work else next(pauses, None)
            if pause_s is not None:
                await self.clock.sleep(pause_s)
                continue
            if not has_work:
                self.signal_s = None
            pauses = iter(AFTER_HINT_S) if await self._is_hinted() else iter(())

    def _is_counted(self, reading: Reading) -> bool:
        """Tell whether a failure is one of its own: on a busy stream, hints must not make one failure many."""
        if isinstance(reading, Known):
            self._counted_s = None
            return True
        now_s = self.clock.monotonic()
        if self._counted_s is not None and now_s - self._counted_s < self.interval_s * ALMOST:
            return False
        self._counted_s = now_s
        return True

    async def _is_hinted(self) -> bool:
        """Wait for a hint, or until it is time to read anyway."""
        try:
            async with asyncio.timeout(self.asleep_interval_s if self._must_poll else self.interval_s):
                await self._hinted.wait()
        except TimeoutError:
            return False
        self._hinted.clear()
        return True

    async def _read(self) -> Reading:
        try:
            return reading_of(await self.queues.read(self.source), now=self.clock.now())
        except SourceFailed as error:
            return Unknown(why=str(error))

    async def _listen(self) -> None:
        # Why it fails is said by the readings already; they go on without hints. After an outage hints come soon again.
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=FIRST_RETRY_S, max=self.interval_s),
            retry=retry_if_exception_type(SourceFailed),
            sleep=self.clock.sleep,
        )
        while True:
            await self._until(is_asleep=True)
            async for attempt in patient:
                with attempt:
                    end_if_cancelled()
                    async with self.queues.listening(self.source, hint=self._hint) as has_hints:
                        end_if_cancelled()
                        self._must_poll = not has_hints
                        # Something may have come before anybody listened.
                        self._hinted.set()
                        await self._until(is_asleep=False)
                        self._must_poll = False

    def _hint(self) -> None:
        if self.signal_s is None:
            self.signal_s = self.clock.monotonic()
        self._hinted.set()

    async def _until(self, *, is_asleep: bool) -> None:
        while bool(self._sleepers) is not is_asleep:
            self._slept.clear()
            await self._slept.wait()


class SourceBook:
    """All configured sources by metric."""

    def __init__(
        self,
        configured: Iterable[MetricSource],
        *,
        queues: Queues,
        clock: Clock,
        metrics: WakingMetrics,
        interval_s: float,
        asleep_interval_s: float,
        changed: Callable[[MetricKey], None],
    ) -> None:
        """Keep them; `run` reads. `changed` is called after each reading."""
        keys = {MetricKey(name=one.metric, selector=one.labels): one.spec for one in configured}
        self._watches = {
            key: SourceWatch(
                key=key,
                source=source,
                queues=queues,
                clock=clock,
                metrics=metrics,
                interval_s=interval_s,
                asleep_interval_s=min(asleep_interval_s, interval_s),
                changed=changed,
            )
            for key, source in keys.items()
        }

    @property
    def states(self) -> Mapping[MetricKey, SourceState | None]:
        """What is known of each now."""
        return {key: watch.state for key, watch in self._watches.items()}

    def states_of(self, keys: Iterable[MetricKey]) -> Mapping[MetricKey, SourceState | None]:
        """What is known now of those that are configured."""
        return {key: self._watches[key].state for key in keys if key in self._watches}

    def signal_s(self, keys: Iterable[MetricKey]) -> float | None:
        """When the first sign of work came that these have now, on the monotonic clock; None where there is none."""
        found = [self._watches[key].signal_s for key in keys if key in self._watches]
        return min((one for one in found if one is not None), default=None)

    def set_sleeper(self, name: str, *, keys: Iterable[MetricKey], is_asleep: bool) -> None:
        """Say whether an HPA waits to be woken by these."""
        for key in keys:
            if key in self._watches:
                self._watches[key].set_sleeper(name, is_asleep=is_asleep)

    async def run(self) -> None:
        """Read all for ever."""
        async with asyncio.TaskGroup() as group:
            for watch in self._watches.values():
                group.create_task(watch.run(), name=f"source {watch.key}")
