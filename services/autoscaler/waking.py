"""Wakes targets: one task for each HPA whose metrics are configured, which looks whenever something changed.

Decided is on the scale as it is live in that moment, and written onto that version only: a target that somebody else
scaled meanwhile is looked at again. Replicas come before the condition, because a process that dies between them leaves
a target that runs; the relic of `ScaledToZero` is then cleared by whoever looks next.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from services.autoscaler.cold_starts import ColdStarts, Measurement
from services.autoscaler.fitting import FitQuestion
from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.ports import ApiFailed, HpaApi, Leading, Scale, WriteConflict
from services.autoscaler.sources import SourceBook
from services.autoscaler.telling import Teller
from services.core.metric_readings import Known, MetricKey
from services.core.reasons import Reason
from services.core.scaling import Autoscaler, Held, Refused, Sources, TargetRef, Verdict, Woken, decide, must_disarm
from services.runtime.clock import Clock
from services.runtime.log import get
from services.runtime.stopping import end_if_cancelled

_log = get("autoscaler.waking")

LOOK_AGAIN_S = 3.0
"""Between two questions whether there is room for a wake that is held for it."""

K = TypeVar("K")


@dataclass(slots=True, kw_only=True)
class _Entry:
    """One followed HPA. `looked_at` is the form that was last looked at, with `replicas` as they were then."""

    hpa: Autoscaler
    nudge: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    looked_at: Autoscaler | None = None
    replicas: int | None = None
    #: A wake that was asked for and whose answer has not come: where the target has replicas now, it was stored.
    attempt: Woken | None = None
    is_looked_at_again: bool = False
    #: When the target was first seen asleep after it had run: a number from before is about what it has worked off.
    slept_at: datetime | None = None


class Waker:
    """Decides and wakes. Everything is called on the event loop of `run`."""

    def __init__(
        self,
        api: HpaApi,
        *,
        sources: SourceBook,
        teller: Teller,
        metrics: WakingMetrics,
        clock: Clock,
        leadership: Leading,
        fitting: FitQuestion,
        starts: ColdStarts,
    ) -> None:
        """Keep the parts; `run` does the work."""
        self._starts = starts
        self._fitting = fitting
        self._leadership = leadership
        self._api = api
        self._sources = sources
        self._teller = teller
        self._metrics = metrics
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        self._by_metric: defaultdict[MetricKey, set[str]] = defaultdict(set)
        self._by_target: defaultdict[tuple[str, TargetRef], set[str]] = defaultdict(set)
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Run the tasks of all entries for ever."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for entry in self._entries.values():
                self._start(entry)
            epoch = self._leadership.epoch
            while True:
                epoch = await self._leadership.changed(since=epoch)
                self._take_over()

    def _take_over(self) -> None:
        """Look at everything anew: what is known is from before somebody else led."""
        self._teller.forget_all()
        for entry in self._entries.values():
            entry.looked_at = entry.attempt = None
        self._nudge(self._entries)

    def replaced(self, hpas: Iterable[Autoscaler]) -> None:
        """Take over what a list found; what it did not find is gone."""
        found = {hpa.key: hpa for hpa in hpas}
        for key in [key for key in self._entries if key not in found]:
            self.removed(key)
        for hpa in found.values():
            self.put(hpa)

    def put(self, hpa: Autoscaler) -> None:
        """Take over an HPA that is new or has changed."""
        known = self._entries.get(hpa.key)
        if known is not None and known.hpa == hpa:
            return
        if known is not None and known.hpa.uid == hpa.uid:
            self._unindex(known.hpa)
            known.hpa = hpa
        else:
            self.removed(hpa.key)
            known = self._entries[hpa.key] = _Entry(hpa=hpa)
            self._start(known)
        for metric in hpa.metrics:
            self._by_metric[metric.key].add(hpa.key)
        self._by_target[hpa.namespace, hpa.target].add(hpa.key)
        self._count()
        known.nudge.set()
        self._nudge(self._by_target[hpa.namespace, hpa.target])

    def removed(self, key: str) -> None:
        """Forget an HPA."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._unindex(entry.hpa)
        self._sleeps(entry, is_asleep=False)
        self._teller.forget(entry.hpa)
        self._count()
        if entry.task is not None:
            entry.task.cancel()
        self._nudge(self._by_target.get((entry.hpa.namespace, entry.hpa.target), ()))

    def users_of(self, metric: MetricKey, namespace: str) -> tuple[Autoscaler, ...]:
        """Return the HPAs of a namespace that have a metric."""
        keys = sorted(self._by_metric.get(metric, ()))
        return tuple(self._entries[key].hpa for key in keys if self._entries[key].hpa.namespace == namespace)

    def metric_changed(self, metric: MetricKey) -> None:
        """Look at every HPA with this metric: it was read."""
        self._nudge(self._by_metric.get(metric, ()))

    def _nudge(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._entries[key].nudge.set()

    def _unindex(self, hpa: Autoscaler) -> None:
        for metric in hpa.metrics:
            _discard(self._by_metric, metric.key, name=hpa.key)
            self._sources.set_sleeper(hpa.key, keys=[metric.key], is_asleep=False)
        _discard(self._by_target, (hpa.namespace, hpa.target), name=hpa.key)

    def _count(self) -> None:
        self._metrics.followed.set(sum(self._is_ours(entry.hpa) for entry in self._entries.values()))

    def _is_ours(self, hpa: Autoscaler) -> bool:
        return bool(self._sources.states_of(metric.key for metric in hpa.metrics))

    def _start(self, entry: _Entry) -> None:
        if self._tasks is not None:
            entry.task = self._tasks.create_task(self._serve(entry), name=f"waking {entry.hpa.key}")

    async def _serve(self, entry: _Entry) -> None:
        while True:
            end_if_cancelled()
            await entry.nudge.wait()
            patient = AsyncRetrying(
                wait=wait_random_exponential(multiplier=0.1, max=5),
                retry=retry_if_exception_type((ApiFailed, WriteConflict)),
                before_sleep=_tell_failure,
                sleep=self._clock.sleep,
            )
            async for attempt in patient:
                with attempt:
                    entry.nudge.clear()
                    await self._look(entry)

    async def _look(self, entry: _Entry) -> None:
        """Do what the moment asks for. Raises ApiFailed and WriteConflict, upon which it is looked again."""
        hpa = entry.hpa
        if self._leadership.epoch is None or not self._is_ours(hpa) or await self._is_settled(entry):
            return
        found = await self._api.scale_of(hpa.namespace, hpa.target)
        if isinstance(found, Reason):
            entry.looked_at, entry.replicas = hpa, None
            self._sleeps(entry, is_asleep=False)
            await self._teller.tell(hpa, verdict=Refused(wanted_replicas=0, reasons=(found,)))
            return
        await self._act(entry, hpa=hpa, scale=found)

    async def _is_settled(self, entry: _Entry) -> bool:
        """Tell whether nothing is to be asked of the API server: the HPA is as it was, and its metrics wake nobody.

        A target that may be woken by annotation is always asked for: nothing in its HPA need show that it is at zero.
        """
        hpa = entry.hpa
        if entry.looked_at != hpa or entry.replicas is None or entry.attempt is not None or hpa.may_wake:
            return False
        verdict = self._verdict(hpa, replicas=entry.replicas, since=entry.slept_at)
        if isinstance(verdict, Woken):
            return False
        await self._teller.tell(hpa, verdict=verdict)
        return True

    async def _act(self, entry: _Entry, *, hpa: Autoscaler, scale: Scale) -> None:
        if entry.replicas and not scale.replicas:
            entry.slept_at = self._clock.now()
        entry.looked_at, entry.replicas = hpa, scale.replicas
        self._sleeps(entry, is_asleep=scale.replicas == 0 and hpa.is_armed)
        if must_disarm(hpa, replicas=scale.replicas):
            await self._disarm(entry, hpa=hpa, is_fenced=True)
        if entry.attempt is not None and scale.replicas:
            woken, entry.attempt = entry.attempt, None
            await self._teller.woken(hpa, woken=woken)
        verdict = self._verdict(hpa, replicas=scale.replicas, since=entry.slept_at)
        if isinstance(verdict, Woken):
            await self._wake(entry, hpa=hpa, scale=scale, woken=verdict)
        else:
            await self._teller.tell(hpa, verdict=verdict)

    async def _wake(self, entry: _Entry, *, hpa: Autoscaler, scale: Scale, woken: Woken) -> None:
        live = await self._api.hpa(hpa)
        if live is None or not live.is_armed:
            # A watch may lag: where the condition is gone by now, the zero is a person's.
            _log.info("waking.outdated", namespace=hpa.namespace, hpa=hpa.name)
            return
        asked = await self._fitting.ask(hpa, scale=scale, woken=woken)
        if isinstance(asked, Held):
            self._look_again(entry)
            await self._teller.tell(hpa, verdict=asked)
            return
        woken = asked
        if self._leadership.epoch is None:
            # Lost in the meantime: whoever leads now looks for itself.
            return
        signal_s = self._sources.signal_s(metric.key for metric in hpa.metrics)
        measurement = self._starts.begin(hpa, replicas=woken.replicas, signal_s=signal_s)
        with self._starts.within(measurement):
            if await self._carry_out(entry, hpa=hpa, scale=scale, woken=woken, measurement=measurement):
                await self._settle(entry, hpa=hpa, live=live, woken=woken)

    async def _carry_out(
        self, entry: _Entry, *, hpa: Autoscaler, scale: Scale, woken: Woken, measurement: Measurement
    ) -> bool:
        """Ask for the replicas, and return whether they were set."""
        entry.attempt = woken
        try:
            refused = await self._api.set_replicas(scale, replicas=woken.replicas)
        except WriteConflict:
            entry.attempt = None
            raise
        if refused is not None:
            entry.attempt = None
            await self._teller.tell(hpa, verdict=Refused(wanted_replicas=woken.replicas, reasons=(refused,)))
            return False
        self._observe(hpa)
        self._starts.replicas_set(measurement, scale=scale)
        entry.replicas = woken.replicas
        return True

    async def _settle(self, entry: _Entry, *, hpa: Autoscaler, live: Autoscaler, woken: Woken) -> None:
        """Clear the condition and tell, once the replicas are set."""
        if live.is_scaled_to_zero:
            await self._disarm(entry, hpa=hpa, is_fenced=False)
        entry.attempt = None
        self._sleeps(entry, is_asleep=False)
        await self._teller.woken(hpa, woken=woken)

    def _look_again(self, entry: _Entry) -> None:
        """Look after a moment, for nothing tells that there is room now."""
        if self._tasks is None or entry.is_looked_at_again:
            return
        entry.is_looked_at_again = True

        async def later() -> None:
            await self._clock.sleep(LOOK_AGAIN_S)
            entry.is_looked_at_again = False
            entry.nudge.set()

        self._tasks.create_task(later(), name=f"looking again at {entry.hpa.key}")

    async def _disarm(self, entry: _Entry, *, hpa: Autoscaler, is_fenced: bool) -> None:
        await self._api.disarm(hpa, is_fenced=is_fenced)
        if entry.hpa == hpa:
            # Until the watch says so itself.
            entry.hpa = entry.looked_at = replace(hpa, is_scaled_to_zero=False)

    def _verdict(self, hpa: Autoscaler, *, replicas: int, since: datetime | None) -> Verdict:
        rivals = self._by_target.get((hpa.namespace, hpa.target), set()) - {hpa.key}
        return decide(
            hpa,
            replicas=replicas,
            sources=_read_since(self._sources.states_of(metric.key for metric in hpa.metrics), since=since),
            now=self._clock.now(),
            rivals=tuple(sorted(rivals)),
        )

    def _observe(self, hpa: Autoscaler) -> None:
        """Measure from the newest reading, which is what asked for the wake."""
        states = self._sources.states_of(metric.key for metric in hpa.metrics).values()
        read = [state.reading.taken_at for state in states if state and isinstance(state.reading, Known)]
        if read:
            self._metrics.waking.observe(max((self._clock.now() - max(read)).total_seconds(), 0.0))

    def _sleeps(self, entry: _Entry, *, is_asleep: bool) -> None:
        keys = [metric.key for metric in entry.hpa.metrics]
        self._sources.set_sleeper(entry.hpa.key, keys=keys, is_asleep=is_asleep)


def _read_since(sources: Sources, *, since: datetime | None) -> Sources:
    """Return the states of sources without numbers from before a moment: as if these had not been read yet."""
    if since is None:
        return sources
    return {
        key: None if state and isinstance(state.reading, Known) and state.reading.taken_at < since else state
        for key, state in sources.items()
    }


def _discard(index: dict[K, set[str]], key: K, *, name: str) -> None:
    """Remove a name, and the key with its last one: HPAs come and go."""
    names = index.get(key, set())
    names.discard(name)
    if not names:
        index.pop(key, None)


def _tell_failure(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome else None
    _log.warning("waking.again", detail=str(error))
