"""All transactions in hand: one task each, a bounded number at once, in the order of their proposals."""

import asyncio

from services.binder.instructions import Tools
from services.binder.journal import Superseded
from services.binder.places import Place
from services.binder.running import Run
from services.core.decisions import Decision, Proposed
from services.core.ledger import MAX_ENDED, OpenTransaction
from services.core.objects import GangId, TransactionId
from services.runtime.log import get
from services.runtime.stopping import cancelled

_log = get("binder.transactions")


class Transactions:
    """Starts a task for each open transaction, and passes on what concerns it."""

    def __init__(self, tools: Tools, *, most: int) -> None:
        """Start with none."""
        self._tools = tools
        self._places = asyncio.Semaphore(most)
        self._runs: dict[TransactionId, Run] = {}
        self._by_gang: dict[GangId, TransactionId] = {}
        self._tasks: dict[TransactionId, asyncio.Task[None]] = {}
        #: Insertion-ordered, for bounded memory.
        self._ended: dict[TransactionId, None] = {}
        self._is_stopping = False
        self._is_leading = False

    def take_over(self) -> None:
        """Take up what is open, as an earlier leader may have left it, and from now on what comes."""
        self._is_leading = True
        for transaction in self._tools.world.ledger.open():
            self._take_up(transaction, is_resumed=True)

    def on_decision(self, decision: Decision) -> None:
        """Take up a new transaction, or pass a later round to its task."""
        if not isinstance(decision.event, Proposed):
            return
        transaction = self._tools.world.ledger.transaction(decision.transaction)
        if transaction is None:
            return
        run = self._runs.get(decision.transaction)
        if run is not None:
            run.propose(decision.event)
        else:
            self._take_up(transaction, is_resumed=decision.event.round > 0 or decision.event.is_reopened)

    def on_gangs(self, gangs: frozenset[GangId]) -> None:
        """Tell the tasks of these gangs that the followed cluster changed."""
        for gang in gangs & self._by_gang.keys():
            self._runs[self._by_gang[gang]].notice()

    def reread(self) -> None:
        """Go on from what the stream says now: give up what it knows no longer, and take up what is news.

        What was given up in the middle of its writes is found by the sweep.
        """
        ledger = self._tools.world.ledger
        for transaction, task in list(self._tasks.items()):
            if ledger.transaction(transaction) is None and not ledger.has_ended(transaction):
                _log.warning("transaction.lost", transaction=transaction, detail="the stream knows it no longer")
                task.cancel()
        for open_one in ledger.open():
            run = self._runs.get(open_one.id)
            if run is None:
                self._take_up(open_one, is_resumed=True)
            else:
                run.propose(open_one.proposal)

    async def stand_down(self) -> None:
        """Give everything up, in the middle of whatever it is, and take nothing new until it is taken over again."""
        self._is_leading = False
        effects = [effect for run in self._runs.values() if (effect := run.effect) is not None]
        await cancelled([*self._tasks.values(), *effects])

    async def stop(self) -> None:
        """Take nothing new, let what is being written come to a definite answer, and leave the rest to a successor."""
        self._is_stopping = True
        # All at once: else those that wait for their turn would get it while the first is coming to its answer.
        await asyncio.gather(*(run.rest() for run in self._runs.values()))
        for task in list(self._tasks.values()):
            task.cancel()

    def _take_up(self, transaction: OpenTransaction, *, is_resumed: bool) -> None:
        if self._is_stopping or not self._is_leading or transaction.id in self._ended:
            return
        place = Place(self._places)
        run = Run(self._tools, transaction, place=place, is_resumed=is_resumed)
        self._runs[transaction.id] = run
        self._by_gang[transaction.gang] = transaction.id
        self._tools.metrics.open.inc()
        self._tasks[transaction.id] = self._tools.tasks.create_task(
            self._in_turn(run, transaction, place=place), name=f"transaction {transaction.id}"
        )

    async def _in_turn(self, run: Run, transaction: OpenTransaction, *, place: Place) -> None:
        try:
            await place.take()
            await self._finish(run, transaction, place=place)
            # The stream may still bring a round that was proposed before it brings the end.
            self._ended[transaction.id] = None
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]
            await self._tools.journal.remove(transaction.id)
        except Superseded as error:
            self._tools.metrics.journal.superseded.inc()
            _log.warning("transaction.superseded", gang=transaction.gang, transaction=transaction.id, detail=str(error))
        finally:
            place.leave()
            # However it came to this: an entry that is left is nobody's here, and the sweep may judge it.
            self._tools.journal.forget(transaction.id)
            self._tools.metrics.open.dec()
            self._runs.pop(transaction.id, None)
            self._tasks.pop(transaction.id, None)
            if self._by_gang.get(transaction.gang) == transaction.id:
                del self._by_gang[transaction.gang]

    async def _finish(self, run: Run, transaction: OpenTransaction, *, place: Place) -> None:
        """Bring a transaction to its end. Raises Superseded."""
        while True:
            try:
                await run.run()
            except Superseded:
                if run.has_journaled:
                    raise
                # Its owner wrote once more while it was being taken over: it is taken over from there.
                latest = self._tools.world.ledger.transaction(transaction.id) or transaction
                run = self._runs[transaction.id] = Run(self._tools, latest, place=place, is_resumed=True)
            else:
                return
