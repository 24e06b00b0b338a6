"""A binder that can be killed between any two effects: its two ports count their calls, and strike at one of them.

The ports are writes to the Kubernetes API, and writes to the bus: journal entries and decisions.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry

from services.binder.adapters.kube_calls import KubeCalls
from services.binder.adapters.kube_claims import KubeClaims
from services.binder.adapters.kube_pods import KubePods
from services.binder.binding import PodWriter
from services.binder.claiming import ClaimWriter
from services.binder.evicting import Evictor
from services.binder.examining import Examiner
from services.binder.following import Follower
from services.binder.instructions import Tools
from services.binder.journal import BusJournal, Entries
from services.binder.metrics import BinderMetrics
from services.binder.objecting import Objector
from services.binder.pacing import Pace
from services.binder.ports import Changed, ClaimApi, DecisionBus, Journal, Manifest, NoAnswer, PodApi, Taken
from services.binder.publishing import Publisher
from services.binder.transactions import Transactions
from services.binder.world import World
from services.contracts.policy_file import FixedPolicy
from services.core.decisions import Victim
from services.core.objects import TransactionId
from services.core.transaction_answers import ApiAnswer
from services.core.transaction_state import Step, TransactionState
from services.core.transaction_values import Target
from services.runtime.bus import Batch, BusUnavailable, Message
from services.runtime.clock import SystemClock
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from tests.fakes.letters import letter_box

T = TypeVar("T")


class Fault(StrEnum):
    """What happens at the chosen call."""

    DIE_BEFORE = "die before"
    DIE_AFTER = "die after"
    ANSWER_LOST = "answer lost"
    LANDS_LATE = "lands late"
    """The process dies with the request on its way; it arrives when the successor has ended the transaction."""


@dataclass(slots=True, kw_only=True)
class Steps:
    """Numbers the calls, and strikes at number `at`; 0 is never."""

    at: int = 0
    fault: Fault = Fault.DIE_BEFORE
    names: list[str] = field(default_factory=list)
    died: asyncio.Event = field(default_factory=asyncio.Event)
    late: list[Callable[[], Awaitable[object]]] = field(default_factory=list)
    caught_up: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, name: str, request: Callable[[], Awaitable[T]], *, lost: Exception) -> T:
        """Make a call, unless the process dies at it; a dead process hears nothing."""
        await self.alive()
        self.names.append(name)
        is_struck = len(self.names) == self.at
        if is_struck and self.fault is Fault.LANDS_LATE:
            self.late.append(request)
        if is_struck and self.fault in {Fault.LANDS_LATE, Fault.DIE_BEFORE}:
            self.died.set()
        await self.alive()
        answer = await request()
        if is_struck and self.fault is Fault.ANSWER_LOST:
            raise lost
        if is_struck:
            self.died.set()
        await self.alive()
        return answer

    async def alive(self) -> None:
        """Go on only in a living process."""
        if self.died.is_set():
            await asyncio.Event().wait()


class NumberedPods:
    """Satisfies `services.binder.ports.PodApi`; only writes are numbered."""

    def __init__(self, pods: PodApi, *, steps: Steps) -> None:
        """Pass calls on to the real ones."""
        self._pods = pods
        self._steps = steps

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those that exist."""
        await self._steps.alive()
        return await self._pods.read(namespace, names=names)

    async def bind(self, namespace: str, *, target: Target, transaction: TransactionId, is_dry_run: bool) -> ApiAnswer:
        """Bind, or try to."""
        return await self._write(
            "dry run" if is_dry_run else "bind",
            lambda: self._pods.bind(namespace, target=target, transaction=transaction, is_dry_run=is_dry_run),
        )

    async def touch(self, namespace: str, *, target: Target, mark: str) -> Changed:
        """Fence."""
        return await self._write("touch", lambda: self._pods.touch(namespace, target=target, mark=mark))

    async def announce_end(self, namespace: str, *, target: Target, message: str) -> Changed:
        """Announce an undo."""
        return await self._write("announce", lambda: self._pods.announce_end(namespace, target=target, message=message))

    async def delete(self, namespace: str, *, target: Target) -> ApiAnswer:
        """Delete."""
        return await self._write("delete", lambda: self._pods.delete(namespace, target=target))

    async def evict(self, victim: Victim, *, is_dry_run: bool) -> ApiAnswer:
        """Evict, or try to."""
        kind = "dry eviction" if is_dry_run else "evict"
        return await self._write(kind, lambda: self._pods.evict(victim, is_dry_run=is_dry_run))

    async def _write(self, name: str, request: Callable[[], Awaitable[T]]) -> T:
        return await self._steps.call(name, request, lost=NoAnswer("the answer was lost"))


class NumberedClaims:
    """Satisfies `services.binder.ports.ClaimApi`; only writes are numbered."""

    def __init__(self, claims: ClaimApi, *, steps: Steps) -> None:
        """Pass calls on to the real ones."""
        self._claims = claims
        self._steps = steps

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those that exist."""
        await self._steps.alive()
        return await self._claims.read(namespace, names=names)

    async def device_classes(self, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those that exist."""
        return await self._claims.device_classes(names=names)

    async def everyone(self) -> Sequence[Manifest]:
        """Return all allocated claims."""
        return await self._claims.everyone()

    async def mark(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch the metadata."""
        return await self._write("mark claim", lambda: self._claims.mark(namespace, name=name, body=body))

    async def write_status(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch the status."""
        kind = (
            "allocate" if body["status"].get("allocation") else "clear" if "allocation" in body["status"] else "reserve"
        )
        return await self._write(kind, lambda: self._claims.write_status(namespace, name=name, body=body))

    async def create(self, namespace: str, *, body: Mapping[str, Any]) -> Changed:
        """Create a claim."""
        return await self._write("create claim", lambda: self._claims.create(namespace, body=body))

    async def delete(self, namespace: str, *, name: str, uid: str, version: str) -> Changed:
        """Delete a claim."""
        return await self._write(
            "delete claim", lambda: self._claims.delete(namespace, name=name, uid=uid, version=version)
        )

    async def record_extended(self, namespace: str, *, pod: str, uid: str, status: Mapping[str, Any]) -> Changed:
        """Record a claim in its pod's status."""
        return await self._write(
            "record claim", lambda: self._claims.record_extended(namespace, pod=pod, uid=uid, status=status)
        )

    async def _write(self, name: str, request: Callable[[], Awaitable[T]]) -> T:
        return await self._steps.call(name, request, lost=NoAnswer("the answer was lost"))


class NumberedBus:
    """Satisfies `services.binder.ports.DecisionBus`; journal entries and decisions are numbered."""

    def __init__(self, bus: DecisionBus, *, steps: Steps) -> None:
        """Pass calls on to the real one."""
        self._bus = bus
        self._steps = steps

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""
        return self._bus.follow(stream, subjects=subjects, last_per_subject=last_per_subject)

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject."""
        await self._steps.alive()
        return await self._bus.last(stream, subject=subject)

    async def publish(
        self,
        subject: str,
        *,
        data: bytes,
        headers: Mapping[str, str],
        expected_sequence: int | None = None,
        expected_subject: str = "",
        ttl_s: float | None = None,
    ) -> int:
        """Store a message."""
        kind = headers.get("ce-type", "journal").rpartition(".")[2]
        return await self._steps.call(
            f"publish {kind}" if "ce-type" in headers else "journal" if data else "journal removal",
            lambda: self._bus.publish(
                subject,
                data=data,
                headers=headers,
                expected_sequence=expected_sequence,
                expected_subject=expected_subject,
                ttl_s=ttl_s,
            ),
            lost=BusUnavailable("the answer was lost"),
        )


class LateJournal:
    """A journal that breaks the rule: that bindings are being written is stored only after them."""

    def __init__(self, journal: Journal) -> None:
        """Pass entries on, one of them too late."""
        self._journal = journal
        self._held: TransactionState | None = None

    async def take(self, transaction: TransactionId) -> Taken:
        """Take over."""
        return await self._journal.take(transaction)

    async def write(self, transaction: TransactionState) -> None:
        """Store what was held back, and hold back what is to be bound."""
        held, self._held = self._held, None
        if held is not None:
            await self._journal.write(held)
        if transaction.step is Step.BINDING:
            self._held = transaction
        else:
            await self._journal.write(transaction)

    async def remove(self, transaction: TransactionId) -> None:
        """Remove."""
        await self._journal.remove(transaction)

    def forget(self, transaction: TransactionId) -> None:
        """Give up."""
        self._journal.forget(transaction)


async def binder(bus: DecisionBus, client: KubeClient, *, steps: Steps, is_journal_late: bool = False) -> None:
    """Run a binder with nothing but what streams and journal say; ends when it is cancelled."""
    clock, readiness, metrics, tracer = SystemClock(), Readiness(), BinderMetrics(CollectorRegistry()), NoOpTracer()
    numbered, world = NumberedBus(bus, steps=steps), World()
    pace = Pace(most=16, clock=clock)
    calls = KubeCalls(client, pace=pace, readiness=readiness, metrics=metrics, clock=clock, may_write=lambda: True)
    pods = NumberedPods(KubePods(calls, clock=clock), steps=steps)
    letters = letter_box(bus, clock=clock)
    follower = Follower(numbered, world=world, readiness=readiness, metrics=metrics, letters=letters, clock=clock)
    journal = BusJournal(numbered, instance="test", entries=Entries(), metrics=metrics.journal, clock=clock)
    async with asyncio.TaskGroup() as tasks:
        tools = Tools(
            world=world,
            follower=follower,
            examiner=Examiner(pods, world=world, follower=follower, policy=FixedPolicy(), metrics=metrics, clock=clock),
            writer=PodWriter(pods, tracer=tracer, metrics=metrics, clock=clock, has_node=world.has_node),
            claims=ClaimWriter(
                NumberedClaims(KubeClaims(calls), steps=steps),
                pods=pods,
                policy=FixedPolicy(),
                metrics=metrics,
                clock=clock,
            ),
            evictor=Evictor(pods, world=world, follower=follower, metrics=metrics, clock=clock),
            publisher=Publisher(
                numbered,
                instance="test",
                has_ended=world.ledger.has_ended,
                folded_up_to=lambda: world.placed_up_to,
                may_write=lambda: True,
            ),
            journal=LateJournal(journal) if is_journal_late else journal,
            objector=Objector(bus, world=world, clock=clock),
            metrics=metrics,
            readiness=readiness,
            tracer=tracer,
            clock=clock,
            tasks=tasks,
            epoch=lambda: 0,
        )
        transactions = Transactions(tools, most=64)

        def caught_up() -> None:
            transactions.take_over()
            tasks.create_task(journal.tidy(has_ended=world.has_passed))
            steps.caught_up.set()

        tasks.create_task(follower.follow_cluster(transactions.on_gangs))
        tasks.create_task(
            follower.follow_placement(transactions.on_decision, on_caught_up=caught_up, on_reread=transactions.reread)
        )
