"""Faults of the network and of the API server, at random, by a seed: the plan of a proxy."""

import random
from collections import Counter
from collections.abc import Callable

from tests.chaos.proxy import Ask, CutBefore, Delay, Fate, LoseAnswer, Refuse
from tests.chaos.timeline import Timeline

MOST_DELAY_S = 1.5
LONGEST_WATCH_S = 8.0

_Maker = Callable[[random.Random], Fate]

_REQUESTS: tuple[tuple[float, str, _Maker], ...] = (
    (0.060, "delay", lambda rng: Delay(s=rng.uniform(0.0, MOST_DELAY_S))),
    (0.025, "429", lambda rng: Refuse(status=429, reason="TooManyRequests", retry_after_s=rng.randint(0, 1))),
    (0.025, "500", lambda _rng: Refuse(status=500, reason="InternalError")),
    (0.025, "503", lambda _rng: Refuse(status=503, reason="ServiceUnavailable")),
    (0.030, "cut", lambda _rng: CutBefore()),
)
"""How likely each fault is for any request that is no watch."""

_WRITES: tuple[tuple[float, str, _Maker], ...] = (
    (0.040, "answer lost", lambda _rng: LoseAnswer()),
    (0.020, "409", lambda _rng: Refuse(status=409, reason="Conflict")),
)
"""The same, for requests that may change something, beside those above."""

_BINDINGS: tuple[tuple[float, str, _Maker], ...] = (
    (0.040, "422", lambda _rng: Refuse(status=422, reason="Invalid")),
    (0.020, "404", lambda _rng: Refuse(status=404, reason="NotFound")),
)
"""The same, for bindings alone: definite refusals, upon which a gang is repaired or taken back."""

_CUT_WATCHES = 0.4
"""Share of watches that are cut after a while."""


class Weather:
    """A plan. `counts` says how often each fault happened."""

    def __init__(self, rng: random.Random, *, timeline: Timeline) -> None:
        """Fair until it is switched on."""
        self.is_bad = False
        self.counts: Counter[str] = Counter()
        self._rng = rng
        self._timeline = timeline

    def plan(self, ask: Ask) -> Fate | None:
        """Decide what becomes of a request."""
        if not self.is_bad:
            return None
        if ask.is_watch:
            if self._rng.random() >= _CUT_WATCHES:
                return None
            self.counts["watch cut"] += 1
            return CutBefore(s=self._rng.uniform(0.5, LONGEST_WATCH_S))
        drawn = self._rng.random()
        for share, name, fate in _possible(ask):
            if drawn < share:
                self.counts[name] += 1
                if ask.is_write:
                    self._timeline.note(f"fault: {name} at {ask.method} {ask.path}{' dry' * ('dryRun' in ask.query)}")
                return fate(self._rng)
            drawn -= share
        return None


def _possible(ask: Ask) -> tuple[tuple[float, str, _Maker], ...]:
    return (*_REQUESTS, *(_WRITES if ask.is_write else ()), *(_BINDINGS if ask.is_binding else ()))
