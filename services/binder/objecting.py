"""Refusing proposals that are unusable or superseded, before their transaction begins.

An epoch is a revision of the bucket of leaders. Where that bucket was deleted, or lost, epochs begin anew, and a placer
that leads would look like one that led long ago. So before its epoch counts against a placement, the key is read.
"""

from tenacity import AsyncRetrying, RetryError, retry_if_exception_type, stop_after_delay, wait_random_exponential

from services.binder.ports import DecisionBus
from services.binder.world import World
from services.core.ledger import OpenTransaction
from services.core.objections import EPOCH
from services.core.reasons import Reason, ReasonCode
from services.runtime.bus import BusUnavailable
from services.runtime.clock import Clock
from services.runtime.election import Holder
from services.runtime.leader_key import LEADERS_STREAM, key_of, leader_subject
from services.runtime.log import get

PLACER = "placer"
PATIENCE_S = 10.0
"""How long the key is asked for; where it cannot be read, the objection stands, and the placer decides again."""

_log = get("binder.objecting")


class Objector:
    """Says what speaks against open transactions."""

    def __init__(self, bus: DecisionBus, *, world: World, clock: Clock) -> None:
        """Keep the parts."""
        self._bus = bus
        self._world = world
        self._clock = clock

    async def objection(self, transaction: OpenTransaction) -> Reason | None:
        """Return what speaks against a transaction that was not begun, or None."""
        found = self._world.objections.get(transaction.id)
        if found is None or found.code is not ReasonCode.PLACEMENT_SUPERSEDED or found.subject != EPOCH:
            return found
        epoch = transaction.proposed.epoch
        if await self._leading_epoch() != epoch:
            return found
        _log.warning("epochs.restarted", epoch=epoch, newest=self._world.newest_epoch)
        self._world.restart_epochs(epoch)
        return None

    async def _leading_epoch(self) -> int | None:
        """Return the epoch of the placer that leads by its key now; None where nobody does, or nobody knows."""
        patient = AsyncRetrying(
            retry=retry_if_exception_type(BusUnavailable),
            wait=wait_random_exponential(multiplier=0.05, max=1),
            stop=stop_after_delay(PATIENCE_S),
            sleep=self._clock.sleep,
        )
        try:
            async for attempt in patient:
                with attempt:
                    found = await self._bus.last(LEADERS_STREAM, subject=leader_subject(PLACER))
        except RetryError:
            return None
        if found is None:
            return None
        key = key_of(found.data, found.headers, revision=found.sequence)
        return key.epoch if isinstance(key, Holder) else None
