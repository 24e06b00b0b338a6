"""The part of the sweep that ends maintenance windows: taint rules whose end is over are removed.

It has a pace of its own, for it knows when the next one ends. A rule is removed in the version that was read, so one
that somebody prolongs at the last moment stays.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from services.binder.metrics import MaintenanceMetrics
from services.binder.ports import Manifest, NoAnswer
from services.core.maintenance import UnreadableEnd, Window, windows_of
from services.core.transaction_answers import ApiAnswer
from services.runtime.clock import Clock
from services.runtime.log import get

_log = get("binder.maintenance")
_ERROR = 400
_NOT_FOUND, _CONFLICT = 404, 409
SHORTEST_WAIT_S = 0.05


class TaintRules(Protocol):
    """DeviceTaintRules on the Kubernetes API. Every method raises NoAnswer."""

    async def rules(self) -> Sequence[Manifest]:
        """Return all rules; none where the API server has no such kind."""

    async def remove(self, window: Window) -> ApiAnswer:
        """Delete a rule in the version that was read."""


class MaintenanceEnder:
    """Removes rules whose end is over, for ever."""

    def __init__(self, api: TaintRules, *, metrics: MaintenanceMetrics, clock: Clock, interval_s: float) -> None:
        """Keep the parts; `interval_s` is how long a new rule may go unseen."""
        self._api = api
        self._metrics = metrics
        self._clock = clock
        self._interval_s = interval_s
        #: Uid and problem of what was told already.
        self._told: frozenset[tuple[str, str]] = frozenset()
        self._has_answer = True

    async def run(self) -> None:
        """Look at once, and again every while and whenever a window ends."""
        while True:
            await self._clock.sleep(await self.look())

    async def look(self) -> float:
        """Remove what has ended, and return the seconds until the next look."""
        try:
            windows, unreadable = windows_of(await self._api.rules())
            for one in windows:
                if one.ends_at <= self._clock.now():
                    await self._end(one)
        except NoAnswer as error:
            if self._has_answer:
                _log.warning("maintenance.unanswered", problem=str(error))
            self._has_answer = False
            return self._interval_s
        self._has_answer = True
        self._tell(unreadable)
        ahead = [one.ends_at - self._clock.now() for one in windows if one.ends_at > self._clock.now()]
        next_s = min(ahead, default=timedelta(days=1)).total_seconds()
        return min(self._interval_s, max(next_s, SHORTEST_WAIT_S))

    async def _end(self, window: Window) -> None:
        answer = await self._api.remove(window)
        if answer.status in {_NOT_FOUND, _CONFLICT}:
            # Somebody removed or changed it meanwhile; the next look sees what it says now.
            return
        is_removed = answer.status < _ERROR
        self._metrics.ended.labels(result="removed" if is_removed else "refused").inc()
        if is_removed:
            _log.info("maintenance.ended", rule=window.name, ended_at=window.ends_at.isoformat())
        else:
            _log.warning("maintenance.refused", rule=window.name, problem=answer.message)

    def _tell(self, unreadable: Sequence[UnreadableEnd]) -> None:
        """Say each problem once, not with every look."""
        found = frozenset((one.uid, one.problem) for one in unreadable)
        for _, problem in sorted(found - self._told):
            _log.warning("maintenance.unreadable_end", problem=problem)
        self._told = found
