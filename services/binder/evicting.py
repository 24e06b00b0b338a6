"""Evicting the victims of a transaction, and waiting until they are gone.

Evictions go through the Eviction API, so that PodDisruptionBudgets are kept. All are tried as a dry run first: as long
as one victim would stay, none is evicted. A repeated eviction does no harm, for it names the pod by its uid.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from enum import StrEnum

from services.binder.binding import Tell, heard
from services.binder.bursting import WORKERS, each
from services.binder.following import Follower
from services.binder.metrics import BinderMetrics
from services.binder.ports import PodApi
from services.binder.world import World
from services.core.decisions import Victim
from services.core.objects import Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_answers import MAX_MESSAGE_CHARACTERS, ApiAnswer, Meaning, meaning_of
from services.core.transaction_values import Evict, Evicted
from services.runtime.clock import Clock

BUDGET_PATIENCE = timedelta(seconds=30)
"""How long it is waited for a disruption budget that another eviction, ours or somebody's, has used up."""

_GONE = frozenset({404, 409, 410})
"""No such pod, or another one of that name."""
_BUSY = 429


class _Fate(StrEnum):
    """What an eviction was answered."""

    EVICTED = "evicted"
    GONE = "gone"
    STAYS = "stays"


class Evictor:
    """Carries out the evictions of transactions."""

    def __init__(
        self,
        api: PodApi,
        *,
        world: World,
        follower: Follower,
        metrics: BinderMetrics,
        clock: Clock,
        workers: int = WORKERS,
    ) -> None:
        """Keep the parts."""
        self._api = api
        self._world = world
        self._follower = follower
        self._metrics = metrics
        self._clock = clock
        self._workers = workers

    async def evict(self, instruction: Evict, *, tell: Tell) -> Evicted:
        """Evict what is still there, and wait until it is gone or the time is over."""
        victims = tuple(one for one in instruction.victims if not self._is_gone(one))
        if not instruction.is_begun:
            refused = await self._ask(victims, tell=tell, until=instruction.until, is_dry_run=True)
            if refused:
                return Evicted(staying=refused, is_untouched=True)
        staying = await self._ask(victims, tell=tell, until=instruction.until, is_dry_run=False)
        going = tuple(one for one in victims if one.uid not in staying)

        def are_gone() -> bool:
            return all(self._is_gone(one) for one in going)

        if not await self._follower.wait_until(are_gone, until=instruction.until):
            staying |= {one.uid: _stays(one, "it did not end in time") for one in going if not self._is_gone(one)}
        return Evicted(staying=staying)

    def _is_gone(self, victim: Victim) -> bool:
        """Tell whether the followed state shows that a victim holds nothing any more."""
        pod = self._world.cluster.pod(victim.namespace, victim.pod)
        return pod is None or pod.metadata.uid != victim.uid or pod.is_finished

    async def _ask(
        self, victims: Iterable[Victim], *, tell: Tell, until: datetime, is_dry_run: bool
    ) -> dict[Uid, Reason]:
        """Return the victims that may not be evicted, with why; returns when every answer is definite."""
        reasons: dict[Uid, Reason] = {}
        patient_until = min(until, self._clock.now() + (timedelta() if is_dry_run else BUDGET_PATIENCE))

        def step(victim: Victim) -> Callable[[], Awaitable[_Fate | None]]:
            async def once() -> _Fate | None:
                answer = await heard(self._api.evict(victim, is_dry_run=is_dry_run), tell)
                if answer is None:
                    return None
                fate = self._fate(answer, victim, tell=tell, patient_until=patient_until, until=until)
                if fate is _Fate.STAYS:
                    reasons[victim.uid] = _stays(victim, answer.message[:MAX_MESSAGE_CHARACTERS])
                return fate

            return once

        fates = await each(tuple(victims), step, clock=self._clock, workers=self._workers)
        if not is_dry_run:
            for fate in fates.values():
                self._metrics.victims.labels(outcome=fate.value).inc()
        return reasons

    def _fate(
        self, answer: ApiAnswer, victim: Victim, *, tell: Tell, patient_until: datetime, until: datetime
    ) -> _Fate | None:
        """Return what an answer means for a victim; None where it has to be asked again."""
        if answer.status in _GONE:
            return _Fate.GONE
        if answer.status == _BUSY:
            # A budget that is used up, or a server that is busy: both say so by this status.
            tell(_stays(victim, answer.message[:MAX_MESSAGE_CHARACTERS]))
            return None if self._clock.now() < patient_until else _Fate.STAYS
        match meaning_of(answer):
            case Meaning.TAKEN:
                return _Fate.EVICTED
            case Meaning.FORBIDDEN:
                text = f"{answer.message[:MAX_MESSAGE_CHARACTERS]}; grant verb create on resource pods/eviction"
                tell(Reason(code=ReasonCode.FORBIDDEN, message=text, count=1, subject="pods/eviction"))
                return None if self._clock.now() < min(until, patient_until) else _Fate.STAYS
            case Meaning.REFUSED:
                return _Fate.STAYS
            case _:
                tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=f"{answer.status}: {answer.message}", count=1))
                return None if self._clock.now() < until else _Fate.STAYS


def _stays(victim: Victim, why: str) -> Reason:
    text = f"pod {victim.namespace}/{victim.pod} of lower priority stays on node {victim.node}: {why}"
    return Reason(code=ReasonCode.VICTIM_STAYS, message=text, count=1, subject=f"{victim.namespace}/{victim.pod}")
