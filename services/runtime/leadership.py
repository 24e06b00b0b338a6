"""Which of several processes of one service does the work: the shell around `services.runtime.election`.

The campaign runs on a thread with its own event loop and NATS connection, so that a busy service never loses its key.
Whether this process leads is always judged by the clock at the moment of asking: a process that was paused for longer
than its key lives finds out before its next write, and not when somebody tells it.
"""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from prometheus_client import CollectorRegistry, Gauge

from services.runtime.clock import Clock
from services.runtime.election import Candidacy, Terms, due, handle, step
from services.runtime.health import Readiness
from services.runtime.leader_key import LeaderKey
from services.runtime.lifecycle import Runtime
from services.runtime.log import get
from services.runtime.settings import ElectedSettings
from services.runtime.stopping import unless_stopped

_log = get("runtime.leadership")

CONDITION = "leadership"
REQUEST_TIMEOUT_S = 1.0
RELEASE_TIMEOUT_S = 0.5
JOIN_TIMEOUT_S = 1.5


class Leadership:
    """Whether this process leads, and under which epoch. Owned by the event loop of the service."""

    def __init__(self, *, clock: Clock, readiness: Readiness, candidacy: Candidacy) -> None:
        """Start as the candidacy says."""
        self._clock = clock
        self._readiness = readiness
        self._candidacy = candidacy
        self._changed = asyncio.Event()
        self._told: tuple[int | None, str | None] = (None, None)

    @classmethod
    def unopposed(cls, *, clock: Clock, readiness: Readiness) -> "Leadership":
        """Return the leadership of a service that runs without election: it leads for ever, with epoch 0."""
        candidacy = Candidacy(candidate="", terms=Terms(), epoch=0, until_s=float("inf"))
        return cls(clock=clock, readiness=readiness, candidacy=candidacy)

    @property
    def epoch(self) -> int | None:
        """The epoch that is led now; None for a standby. Asked before every write, from any thread."""
        return self._candidacy.epoch_at(self._clock.monotonic())

    @property
    def is_leading(self) -> bool:
        """Whether this process may write now."""
        return self.epoch is not None

    async def changed(self, *, since: int | None) -> int | None:
        """Wait until the epoch is another than `since`, and return it; None is that of a standby."""
        while (epoch := self.epoch) == since:
            await self._changed.wait()
        return epoch

    def adopt(self, candidacy: Candidacy) -> None:
        """Take over what the campaign found out; called from its thread, and effective at once."""
        self._candidacy = candidacy

    def tell(self) -> None:
        """Show what has changed, and wake who waits for it; called on the service's loop."""
        epoch, leader = self.epoch, self._candidacy.leader
        if (epoch, leader) == self._told:
            return
        if epoch != self._told[0]:
            _log.info("leadership.changed", epoch=epoch, leader=leader or "", is_leading=epoch is not None)
            self._changed.set()
            self._changed = asyncio.Event()
        self._told = (epoch, leader)
        if epoch is not None:
            self._readiness.set(CONDITION, ready=True, detail=f"leader, epoch {epoch}")
        elif leader is None:
            self._readiness.set(CONDITION, ready=False, detail="waiting for the key of the leader")
        else:
            detail = f"leader is {leader}" if leader else "nobody leads"
            self._readiness.set(CONDITION, ready=True, detail=f"standby; {detail}")


class LeadershipMetrics:
    """What is shown of the election."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register it."""
        self.leader = Gauge(
            "phalanx_leader", "1 where this process leads its service, 0 for a standby.", ["service"], registry=registry
        )


class _Campaign:
    """The thread that keeps the key."""

    def __init__(self, leadership: Leadership, *, key: LeaderKey, state: Candidacy, runtime: Runtime) -> None:
        self._leadership = leadership
        self._key = key
        self._state = state
        self._runtime = runtime
        self._clock = runtime.clock
        self._service_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leadership", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._has_begun.wait()

    def stop(self) -> None:
        """Release the key. Blocks for a moment, so that no cancellation cuts it short: nothing else is left to do."""
        self._adopt(replace(self._state, epoch=None, until_s=0.0))
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(JOIN_TIMEOUT_S)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:  # noqa: BLE001 - whatever it is, the process must not go on without its campaign
            _log.exception("leadership.crashed")
            # Nobody would notice that this process never leads again: end, to be started anew.
            self._service_loop.call_soon_threadsafe(self._runtime.stopping.set)
        finally:
            self._has_begun.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_begun.set()
        await unless_stopped(self._campaign(), stopping=self._stopping)
        await self._key.release(timeout_s=RELEASE_TIMEOUT_S)
        await self._key.close()

    async def _campaign(self) -> None:
        await self._key.open()
        while True:
            self._state, instruction = step(self._state, now_s=self._clock.monotonic())
            self._tell()
            if instruction is None:
                # Longer than until it is due nobody sleeps, and a little less long where the clock is coarse.
                await asyncio.sleep(max(due(self._state) - self._clock.monotonic(), 0.001))
                continue
            event = await self._key.carry_out(instruction, timeout_s=self._patience_s())
            self._state = handle(self._state, event, now_s=self._clock.monotonic())

    def _patience_s(self) -> float:
        if self._state.epoch is None:
            return REQUEST_TIMEOUT_S
        return max(min(REQUEST_TIMEOUT_S, self._state.until_s - self._clock.monotonic()), 0.01)

    def _tell(self) -> None:
        if not self._stopping.is_set():
            self._adopt(self._state)
            self._service_loop.call_soon_threadsafe(self._leadership.tell)

    def _adopt(self, state: Candidacy) -> None:
        self._leadership.adopt(state)


@asynccontextmanager
async def campaigning(
    settings: ElectedSettings, runtime: Runtime, *, terms: Terms | None = None
) -> AsyncIterator[Leadership]:
    """Stand for election while the block runs; whatever writes has to have ended when it does.

    Where the settings switch election off, this process leads from the start.
    """
    gauge = LeadershipMetrics(runtime.registry).leader
    if not settings.leader_election:
        leadership = Leadership.unopposed(clock=runtime.clock, readiness=runtime.readiness)
        gauge.labels(service=runtime.service).set(1)
        yield leadership
        return
    state = Candidacy(candidate=uuid.uuid4().hex, terms=terms or Terms())
    leadership = Leadership(clock=runtime.clock, readiness=runtime.readiness, candidacy=state)
    gauge.labels(service=runtime.service).set_function(lambda: float(leadership.is_leading))
    runtime.readiness.set(CONDITION, ready=False, detail="waiting for the key of the leader")
    key = LeaderKey(
        url=settings.nats_url,
        service=runtime.service,
        instance=settings.instance,
        candidate=state.candidate,
        terms=state.terms,
        monotonic=runtime.clock.monotonic,
        access=runtime.nats_access,
    )
    campaign = _Campaign(leadership, key=key, state=state, runtime=runtime)
    campaign.start()
    try:
        yield leadership
    finally:
        campaign.stop()
