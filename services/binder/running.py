"""One transaction in its own task: carries out what the state machine asks, and feeds it what comes back.

The loop waits for exactly four things: the answer to the outstanding instruction, a later round, a change of the gang
in the followed cluster, and time.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from opentelemetry.trace import Tracer

from services.binder.binding import PodWriter
from services.binder.examining import Examiner
from services.binder.following import Follower
from services.binder.journal import Superseded
from services.binder.metrics import BinderMetrics
from services.binder.objecting import Objector
from services.binder.phases import PhaseTimes, cause_of
from services.binder.places import Place
from services.binder.ports import Journal
from services.binder.publishing import Publisher, summary_of
from services.binder.world import World
from services.core.decisions import Decision, DecisionEvent, Proposed, Repairing
from services.core.ledger import OpenTransaction
from services.core.objections import refused
from services.core.objects import Uid, namespace_of
from services.core.reasons import Reason, ReasonCode
from services.core.transaction import Result, begin, due, handle
from services.core.transaction_check import allows_delete, bound_to_nowhere, lost_members, placed_beside
from services.core.transaction_resume import is_behind, resume
from services.core.transaction_state import Step, TransactionState
from services.core.transaction_values import (
    Answer,
    Bind,
    Event,
    Examine,
    Fence,
    Fenced,
    Followed,
    Instruction,
    Probe,
    Probed,
    Publish,
    Published,
    Recheck,
    Removal,
    Removed,
    Reproposed,
    Ticked,
    Undo,
    Verdict,
    Withdraw,
    Withdrawn,
    Written,
)
from services.runtime import telemetry
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get

_log = get("binder.transactions")

PERMISSIONS = "permissions"

_SPANS: dict[type, str] = {
    Examine: telemetry.SPAN_TRANSACTION_CHECK,
    Probe: telemetry.SPAN_TRANSACTION_DRY_RUN,
    Bind: telemetry.SPAN_TRANSACTION_BIND,
    Fence: telemetry.SPAN_TRANSACTION_REPAIR,
    Undo: telemetry.SPAN_TRANSACTION_UNDO,
}


_INTERRUPTIBLE = frozenset({Step.EXAMINING, Step.PROBING, Step.WAITING})
"""Steps that write nothing: a successor does them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every transaction of this process shares."""

    world: World
    follower: Follower
    examiner: Examiner
    writer: PodWriter
    publisher: Publisher
    journal: Journal
    objector: Objector
    metrics: BinderMetrics
    readiness: Readiness
    tracer: Tracer
    clock: Clock
    tasks: asyncio.TaskGroup
    epoch: Callable[[], int]
    """Epoch under which this process leads, for its decisions."""


class Run:
    """One transaction from its proposal to its end."""

    def __init__(self, tools: Tools, transaction: OpenTransaction, *, place: Place, is_resumed: bool) -> None:
        """Take the transaction up as the stream shows it."""
        self._tools = tools
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
        self._rested.clear()
        times = PhaseTimes(tools.metrics, clock=tools.clock)
        try:
            while state.step is not Step.OVER:
                times.observe(state)
                if instructions:
                    await self._take_place()
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
        if self._is_gang_changed and (effect is None or effect.done()):
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
            return await self._do(instruction, state)
        with self._tools.tracer.start_as_current_span(name, attributes={telemetry.ATTR_TRANSACTION: state.id}):
            return await self._do(instruction, state)

    async def _do(self, instruction: Instruction, state: TransactionState) -> Event:
        writer, namespace = self._tools.writer, _namespace(state)
        match instruction:
            case Examine():
                return await self._tools.examiner.examine(instruction, state=state, until=due(state), tell=self._tell)
            case Probe(targets=targets, until=until) | Bind(targets=targets, until=until):
                answers = await writer.bind(
                    namespace,
                    transaction=state.id,
                    targets=targets,
                    until=until,
                    tell=self._tell,
                    is_dry_run=isinstance(instruction, Probe),
                )
                self._note_permission(answers)
                answers = {uid: self._judged(answer, state, uid=uid) for uid, answer in answers.items()}
                return Probed(answers=answers) if isinstance(instruction, Probe) else Written(answers=answers)
            case Fence(targets=targets):
                return Fenced(
                    readings=await writer.fence(namespace, transaction=state.id, targets=targets, tell=self._tell)
                )
            case Undo(targets=targets):
                return Removed(
                    removals=await writer.undo(namespace, transaction=state.id, targets=targets, tell=self._tell)
                )
            case Recheck():
                return await self._tools.examiner.recheck(instruction, state=state)
            case Withdraw(targets=targets):
                taken = await writer.undo(namespace, transaction=state.id, targets=targets, tell=self._tell)
                self._tools.metrics.sharing.withdrawn.inc(sum(one is Removal.DELETED for one in taken.values()))
                return Withdrawn(removals=taken)
            case Publish(event=event):
                await self._publish(event, state)
                return Published()
            case _:
                assert_never(instruction)

    async def _publish(self, event: DecisionEvent, state: TransactionState) -> None:
        decision = Decision(
            gang=state.gang,
            event=event,
            decided_at=self._tools.clock.now(),
            transaction=state.id,
            epoch=self._tools.epoch(),
        )
        await self._tools.publisher.publish(decision)
        if isinstance(event, Repairing):
            self._tools.metrics.repairs.inc()
        _log.info(
            f"transaction.{type(event).__name__.lower()}", gang=state.gang, transaction=state.id, **summary_of(event)
        )

    def _judged(self, answer: Answer, state: TransactionState, *, uid: Uid) -> Answer:
        """Return the answer; a member that somebody bound to a node that does not exist will not run there."""
        if answer.verdict is not Verdict.ELSEWHERE or self._tools.world.cluster.inventory.node(answer.node):
            return answer
        pod = state.members[uid].assignment.pod
        return replace(answer, verdict=Verdict.GONE, reason=bound_to_nowhere(pod, node=answer.node))

    def _tell(self, problem: Reason) -> None:
        """Remember what a write waits for, and show it where somebody has to grant a permission."""
        self._problem = problem
        if problem.code is ReasonCode.FORBIDDEN:
            self._tools.readiness.set(PERMISSIONS, ready=False, detail=problem.message)

    def _note_permission(self, answers: Mapping[Uid, Answer]) -> None:
        if any(one.verdict in {Verdict.BOUND, Verdict.PASSED} for one in answers.values()):
            self._tools.readiness.set(PERMISSIONS, ready=True, detail="bindings may be created")


def _namespace(state: TransactionState) -> str:
    return namespace_of(state.gang)
