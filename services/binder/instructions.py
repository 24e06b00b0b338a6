"""Carrying out what a transaction asks for: one instruction in, one event out."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from opentelemetry.trace import Tracer

from services.binder.binding import PodWriter, Tell
from services.binder.claiming import ClaimWriter
from services.binder.evicting import Evictor
from services.binder.examining import Examiner
from services.binder.following import Follower
from services.binder.metrics import BinderMetrics
from services.binder.objecting import Objector
from services.binder.ports import Journal
from services.binder.publishing import Publisher, summary_of
from services.binder.world import World
from services.core.decisions import Decision, DecisionEvent, Repairing
from services.core.objects import Uid, namespace_of
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_check import bound_to_nowhere
from services.core.transaction_claims import CONDITION_PATIENCE
from services.core.transaction_state import TransactionState
from services.core.transaction_values import (
    Allocate,
    Answer,
    Bind,
    Event,
    Evict,
    Examine,
    Fence,
    Fenced,
    Free,
    Instruction,
    Prepare,
    Probe,
    Probed,
    Publish,
    Published,
    Recheck,
    Removal,
    Removed,
    Undo,
    Verdict,
    Withdraw,
    Withdrawn,
    Written,
)
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get

_log = get("binder.transactions")

PERMISSIONS = "permissions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What every transaction of this process shares."""

    world: World
    follower: Follower
    examiner: Examiner
    writer: PodWriter
    claims: ClaimWriter
    evictor: Evictor
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
    condition_patience: timedelta = CONDITION_PATIENCE
    """How long devices may take to become ready."""


class Hand:
    """Carries out the instructions of one transaction."""

    def __init__(self, tools: Tools, *, tell: Tell) -> None:
        """Keep the parts; `tell` takes what a write waits for."""
        self._tools = tools
        self._tell_run = tell

    async def carry_out(self, instruction: Instruction, *, state: TransactionState, until: datetime | None) -> Event:
        """Do what the state asks for, and return what came of it; reads end at `until`, where that is set."""
        writer, namespace = self._tools.writer, namespace_of(state.gang)
        match instruction:
            case Examine():
                return await self._tools.examiner.examine(instruction, state=state, until=until, tell=self._tell)
            case Probe(targets=targets, until=limit) | Bind(targets=targets, until=limit):
                answers = await writer.bind(
                    namespace,
                    transaction=state.id,
                    targets=targets,
                    until=limit,
                    tell=self._tell,
                    is_dry_run=isinstance(instruction, Probe),
                )
                self._note_permission(answers)
                answers = {uid: self._judged(answer, state, uid=uid) for uid, answer in answers.items()}
                return Probed(answers=answers) if isinstance(instruction, Probe) else Written(answers=answers)
            case Evict() | Allocate() | Prepare() | Free():
                return await self._make_ready(instruction, state=state)
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

    async def _make_ready(self, instruction: Evict | Allocate | Prepare | Free, *, state: TransactionState) -> Event:
        """Make, or give up, what the members need beside their nodes: places of others, and devices."""
        claims = self._tools.claims
        match instruction:
            case Evict():
                return await self._tools.evictor.evict(instruction, tell=self._tell)
            case Allocate():
                return await claims.allocate(instruction, gang=state.gang, transaction=state.id, tell=self._tell)
            case Prepare():
                return await claims.prepare(instruction, gang=state.gang, tell=self._tell)
            case Free():
                return await claims.free(instruction, gang=state.gang, transaction=state.id, tell=self._tell)

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
        """Pass on what a write waits for, and show it where somebody has to grant a permission."""
        self._tell_run(problem)
        if problem.code is ReasonCode.FORBIDDEN:
            self._tools.readiness.set(PERMISSIONS, ready=False, detail=problem.message)

    def _note_permission(self, answers: Mapping[Uid, Answer]) -> None:
        if any(one.verdict in {Verdict.BOUND, Verdict.PASSED} for one in answers.values()):
            self._tools.readiness.set(PERMISSIONS, ready=True, detail="bindings may be created")
