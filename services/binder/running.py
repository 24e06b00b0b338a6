"""One transaction in its own task: carries out what the state machine asks, and feeds it what comes back.

The loop waits for exactly four things: the answer to the outstanding instruction, a later round, a change of the gang
in the followed cluster, and time.
"""

import asyncio
from dataclasses import replace

from services.binder.instructions import Hand, Tools
from services.binder.journal import Superseded
from services.binder.phases import PhaseTimes, cause_of
from services.binder.places import Place
from services.core.decisions import Proposed
from services.core.ledger import OpenTransaction
from services.core.objections import refused
from services.core.objects import namespace_of
from services.core.reasons import Reason
from services.core.transaction import Result, begin, due, handle
from services.core.transaction_check import allows_delete, lost_members, placed_beside
from services.core.transaction_resume import is_behind, resume
from services.core.transaction_state import LONG_WAITS, Step, TransactionState
from services.core.transaction_values import (
    Allocate,
    Bind,
    Event,
    Evict,
    Examine,
    Fence,
    Followed,
    Free,
    Instruction,
    Prepare,
    Probe,
    Reproposed,
    Ticked,
    Undo,
)
from services.runtime import telemetry
from services.runtime.log import get

_log = get("binder.transactions")

_SPANS: dict[type, str] = {
    Examine: telemetry.SPAN_TRANSACTION_CHECK,
    Probe: telemetry.SPAN_TRANSACTION_DRY_RUN,
    Allocate: telemetry.SPAN_TRANSACTION_CLAIMS,
    Evict: telemetry.SPAN_TRANSACTION_EVICT,
    Prepare: telemetry.SPAN_TRANSACTION_PREPARE,
    Bind: telemetry.SPAN_TRANSACTION_BIND,
    Fence: telemetry.SPAN_TRANSACTION_REPAIR,
    Free: telemetry.SPAN_TRANSACTION_FREE,
    Undo: telemetry.SPAN_TRANSACTION_UNDO,
}


_INTERRUPTIBLE = frozenset({Step.EXAMINING, Step.PROBING, Step.EVICTING, Step.PREPARING, Step.WAITING})
"""Steps that write nothing, or nothing that could not be written again: a successor does them again."""


class Run:
    """One transaction from its proposal to its end."""

    def __init__(self, tools: Tools, transaction: OpenTransaction, *, place: Place, is_resumed: bool) -> None:
        """Take the transaction up as the stream shows it."""
        self._tools = tools
        self._hand = Hand(tools, tell=self._tell)
        self._transaction = transaction
        self._place = place
        self._is_resumed = is_resumed
        self._wakened = asyncio.Event()
        self._proposal: Proposed | None = None
        self._is_gang_changed = False
        self._effect: asyncio.Task[Event | Superseded] | None = None
        self._problem: Reason | None = None
        self._is_stopping = False
        #: The instruction that waits for its journal entry, and has not begun.
        self._journaling: Instruction | None = None
        #: This process has written to the journal: from then on, whoever else writes has taken over from it.
        self.has_journaled = False
        #: Set while nothing is being written: also before the transaction's turn has come.
        self._rested = asyncio.Event()
        self._rested.set()

    def propose(self, proposal: Proposed) -> None:
        """Take note of a later round."""
        self._proposal = proposal
        self._wakened.set()

    def notice(self) -> None:
        """Take note that the gang changed in the followed cluster."""
        self._is_gang_changed = True
        self._wakened.set()

    @property
    def effect(self) -> asyncio.Task[Event | Superseded] | None:
        """What is being carried out, for whoever has to see its end."""
        return self._effect

    async def rest(self) -> None:
        """Wait until nothing is being written for this transaction, and let it go no further."""
        self._is_stopping = True
        self._wakened.set()
        await self._rested.wait()

    async def run(self) -> None:
        """Bring the transaction to its end."""
        tools, transaction = self._tools, self._transaction
        started_s = tools.clock.monotonic()
        attributes = {telemetry.ATTR_GANG: transaction.gang, telemetry.ATTR_TRANSACTION: transaction.id}
        context = telemetry.extract({"traceparent": tools.world.traceparent(transaction.id)})
        with tools.tracer.start_as_current_span(
            telemetry.SPAN_TRANSACTION, context=context, attributes=attributes
        ) as span:
            _log.info(
                "transaction.received",
                gang=transaction.gang,
                transaction=transaction.id,
                members=len(transaction.assignments),
                round=transaction.proposal.round,
                is_resumed=self._is_resumed,
            )
            state = await self._run()
            outcome = state.phase.value
            span.set_attribute(telemetry.ATTR_OUTCOME, outcome)
            tools.metrics.transactions.labels(outcome=outcome, cause=cause_of(state)).inc()
            tools.metrics.duration.labels(outcome=outcome).observe(tools.clock.monotonic() - started_s)

    async def _run(self) -> TransactionState:
        tools = self._tools
        state, instructions = await self._begun()
        state = replace(state, condition_patience=tools.condition_patience)
        self._rested.clear()
        times = PhaseTimes(tools.metrics, clock=tools.clock)
        try:
            while state.step is not Step.OVER:
                times.observe(state)
                if instructions and isinstance(instructions[0], Prepare | Evict):
                    # It may take minutes, and hardly writes anything.
                    self._place.leave()
                elif instructions:
                    await self._take_place()
                if instructions:
                    if self._is_stopping:
                        await self._rest_for_ever()
                    self._start(instructions[0], state)
                elif state.step is Step.WAITING:
                    self._place.leave()
                event = await self._next_event(state)
                state, instructions = handle(state, event, now=tools.clock.now())
            return state
        finally:
            times.end()
            self._stop()
            self._rested.set()

    async def _begun(self) -> Result:
        """Go on from the journal's entry; without one, or where the stream knows more, from the stream."""
        tools, transaction = self._tools, self._transaction
        repairing = tools.world.repairing(transaction)
        taken = await tools.journal.take(transaction.id)
        entry = taken.entry
        if entry is not None and not is_behind(entry, repairing):
            tools.metrics.journal.taken_up.labels(source="journal").inc()
            # What the stream and the cluster have shown since is news to the entry.
            self._is_gang_changed = True
            if self._proposal is None:
                self._proposal = transaction.proposal
            return resume(entry, now=tools.clock.now())
        is_resumed = self._is_resumed or taken.was_known
        objection = None if taken.was_known else await tools.objector.objection(transaction)
        if objection is not None:
            return refused(
                transaction.id,
                gang=transaction.gang,
                proposal=transaction.proposal,
                because=objection,
                at=tools.clock.now(),
            )
        tools.metrics.journal.taken_up.labels(source="stream" if is_resumed else "proposal").inc()
        return begin(
            transaction.id,
            gang=transaction.gang,
            proposal=transaction.proposal,
            at=tools.clock.now(),
            is_resumed=is_resumed,
            is_cautious=tools.world.had_setback(transaction.gang),
            repairing=repairing,
        )

    async def _take_place(self) -> None:
        if not self._place.is_taken:
            # Nothing is being written while others have their turn.
            self._rested.set()
            await self._place.take()
            self._rested.clear()

    async def _rest_for_ever(self) -> None:
        """Stay before the next instruction, until the task is cancelled."""
        self._stop()
        self._rested.set()
        await asyncio.Event().wait()

    async def _next_event(self, state: TransactionState) -> Event:
        """Return what happened next."""
        while True:
            self._wakened.clear()
            if self._is_stopping and (self._journaling is not None or state.step in _INTERRUPTIBLE):
                await self._rest_for_ever()
            event = self._ready_event(state)
            if event is not None:
                return event
            moment = due(state)
            limit_s = None if moment is None else max((moment - self._tools.clock.now()).total_seconds(), 0.0)
            try:
                async with asyncio.timeout(limit_s):
                    await self._wakened.wait()
            except TimeoutError:
                return Ticked(problems=() if self._problem is None else (self._problem,))

    def _ready_event(self, state: TransactionState) -> Event | None:
        """Return what waits to be handled.

        Our own bindings change the gang a thousandfold, so the cluster is looked at only where it matters: while
        nothing is outstanding, and once before the answer to an instruction is taken.
        """
        effect = self._effect
        is_idle = effect is None or effect.done() or state.step in LONG_WAITS
        if self._is_gang_changed and is_idle:
            self._is_gang_changed = False
            followed = self._followed(state)
            if followed is not None:
                return followed
        if effect is not None and effect.done():
            self._effect = None
            result = effect.result()
            if isinstance(result, Superseded):
                raise result
            return result
        if self._proposal is not None:
            proposal, self._proposal = self._proposal, None
            return Reproposed(proposal=proposal)
        return None

    def _followed(self, state: TransactionState) -> Event | None:
        """Return what the followed cluster says of the gang, unless it is older than what the members rest on."""
        cluster = self._tools.world.cluster
        if not self._tools.follower.is_cluster_ready or cluster.revision < state.proposal.revision:
            return None
        names = {uid: one.assignment.pod for uid, one in state.members.items()}
        return Followed(
            lost=lost_members(cluster, namespace=_namespace(state), names=names),
            beside=placed_beside(cluster, gang=state.gang, members=names),
            allows_delete=allows_delete(cluster, gang=state.gang),
        )

    def _start(self, instruction: Instruction, state: TransactionState) -> None:
        """Carry an instruction out beside the loop; one that is outstanding is dropped, as the state machine says."""
        self._stop()
        self._problem = None
        self._effect = self._tools.tasks.create_task(
            self._carry_out(instruction, state), name=f"{type(instruction).__name__} {state.id}"
        )
        self._effect.add_done_callback(lambda _task: self._wakened.set())

    def _stop(self) -> None:
        if self._effect is not None:
            self._effect.cancel()
            self._effect = None

    async def _carry_out(self, instruction: Instruction, state: TransactionState) -> Event | Superseded:
        """Do what the journal then says is being done. Being superseded is returned: raised here, it would end all."""
        self._journaling = instruction
        try:
            await self._tools.journal.write(state)
        except Superseded as error:
            return error
        finally:
            if self._journaling is instruction:
                self._journaling = None
        self.has_journaled = True
        name = _SPANS.get(type(instruction))
        if name is None:
            return await self._hand.carry_out(instruction, state=state, until=due(state))
        with self._tools.tracer.start_as_current_span(name, attributes={telemetry.ATTR_TRANSACTION: state.id}):
            return await self._hand.carry_out(instruction, state=state, until=due(state))

    def _tell(self, problem: Reason) -> None:
        """Remember what a write waits for, so that a deadline can name it."""
        self._problem = problem


def _namespace(state: TransactionState) -> str:
    return namespace_of(state.gang)
