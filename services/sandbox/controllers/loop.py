"""Runs controllers: changes become work at once, timers become work when the clock says so, nothing polls.

All controllers share one queue and one task. `reconcile` is synchronous, because everything that it touches is in
this process; so a controller never acts on a state that has moved on.
"""

import asyncio
import heapq
import itertools
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

from services.runtime import log
from services.runtime.clock import Clock
from services.sandbox.failures import ApiError
from services.sandbox.watching import Change

_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 30.0
_TURN = 64
"""Objects looked at before requests get their turn on the event loop."""


class Controller(Protocol):
    """One control loop, without the loop."""

    name: str

    def observe(self, change: Change) -> Iterable[str]:
        """Keep indexes up to date and name the objects that this change makes worth a look."""
        ...

    def reconcile(self, key: str) -> float | None:
        """Look at one object and act; returns the seconds after which to look again, None for not on its own.

        ApiError means that the API refused (a quota, say): the object is looked at again a little later.
        """
        ...


class ControllerLoop:
    """The shared queue of all controllers."""

    def __init__(self, controllers: Sequence[Controller], *, clock: Clock) -> None:
        self._controllers = tuple(controllers)
        self._clock = clock
        self._log = log.get("sandbox")
        # A dictionary keeps the order of arrival and holds each object once.
        self._pending: dict[tuple[int, str], None] = {}
        self._timers: list[tuple[float, int, int, str]] = []
        self._order = itertools.count()
        #: Refusals in a row, so that what cannot succeed is tried less and less often.
        self._refusals: Counter[tuple[str, str]] = Counter()
        self._wake = asyncio.Event()

    def on_change(self, change: Change) -> None:
        """Take note of a committed write; the store calls this."""
        for number, controller in enumerate(self._controllers):
            try:
                for key in controller.observe(change):
                    self._pending[number, key] = None
            except Exception:  # noqa: BLE001 - the write is committed; its author must not see our mistakes
                self._report(controller, change.stored.key)
        if self._pending:
            self._wake.set()

    @property
    def is_idle(self) -> bool:
        """Whether everything that is due has been looked at."""
        return not self._pending

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            self._take_due()
            if self._pending:
                self._turn()
                await asyncio.sleep(0)
            else:
                await self._rest()

    def _take_due(self) -> None:
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            _, _, number, key = heapq.heappop(self._timers)
            self._pending[number, key] = None

    def _turn(self) -> None:
        for number, key in tuple(itertools.islice(self._pending, _TURN)):
            del self._pending[number, key]
            delay_s = self._reconciled(self._controllers[number], key)
            if delay_s is not None:
                due = self._clock.monotonic() + delay_s
                heapq.heappush(self._timers, (due, next(self._order), number, key))

    def _reconciled(self, controller: Controller, key: str) -> float | None:
        try:
            delay_s = controller.reconcile(key)
        except ApiError as error:
            self._log.info("controller.refused", controller=controller.name, object=key, error=str(error))
        except Exception:  # noqa: BLE001 - one strange object must not stop the cluster
            # Nothing would be different in a second; the next change of the object is another chance.
            self._report(controller, key)
            return None
        else:
            self._refusals.pop((controller.name, key), None)
            return delay_s
        self._refusals[controller.name, key] += 1
        doublings = self._refusals[controller.name, key] - 1
        return min(_FIRST_RETRY_S * 2.0 ** min(doublings, 10), _LONGEST_RETRY_S)

    def _report(self, controller: Controller, key: str) -> None:
        # As text: a renderer that shows local variables would print half the cluster.
        trace = traceback.format_exc()
        self._log.error("controller.failed", controller=controller.name, object=key, traceback=trace)

    async def _rest(self) -> None:
        self._wake.clear()
        if self._pending:
            return
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._wake.wait())]
        if self._timers:
            delay_s = max(0.0, self._timers[0][0] - self._clock.monotonic())
            waits.append(asyncio.ensure_future(self._clock.sleep(delay_s)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
