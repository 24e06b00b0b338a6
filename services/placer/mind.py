"""The decider on a thread of its own, so that a long solve never holds up health checks, gRPC or the bus.

One thread owns the state: folding, deciding and answering questions happen there one after the other, and nothing else
touches it. Messages are decoded on that thread too.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

from services.contracts.cluster_codec import UndecodableMessage, UnknownKind, read_change
from services.contracts.decision_codec import read_decision
from services.contracts.streams import CLUSTER_STREAM, PLACEMENT_STREAM
from services.core.attention import DecisionPolicy, Outcome
from services.core.decider import Decider
from services.core.decisions import Decision
from services.core.policy import TopologyPolicy
from services.runtime.bus import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A message that was skipped, its stream, and why."""

    message: Message
    stream: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """What came of folding some messages.

    `due` is when time alone will make a difference. `unreadable` are the messages that were skipped.
    """

    outcomes: tuple[Outcome, ...]
    due: datetime | None
    unsynced: tuple[str, ...]
    unreadable: tuple[Unreadable, ...] = ()


class Mind:
    """A decider, and the thread that owns it."""

    def __init__(self, *, policy: DecisionPolicy) -> None:
        """Start with an empty cluster."""
        self._policy = policy
        self._decider = Decider(policy=policy)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="mind")

    async def __aenter__(self) -> Self:
        """Nothing to open: the thread starts with its first work."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the thread."""
        await asyncio.to_thread(self._thread.shutdown)

    async def ask(self, question: Callable[[Decider], T]) -> T:
        """Answer a question on the thread that owns the state. The question must not change it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: question(self._decider))

    async def forget(self) -> None:
        """Start again with an empty cluster, because what was read before is void."""
        await self._run(self._forget)

    async def think(
        self, *, changes: Sequence[Message], decisions: Sequence[Message], now: datetime, epoch: int | None
    ) -> Thought:
        """Fold messages, and decide under this epoch what they make possible. Without one they are only folded."""
        return await self._run(lambda: self._think(changes, decisions, now=now, epoch=epoch))

    async def reject(self, decision: Decision) -> None:
        """Take back a decision that could not be published."""
        await self._run(lambda: self._decider.reject(decision))

    async def take_topology(self, topology: TopologyPolicy) -> None:
        """Let gangs be together by these levels from now on."""
        await self._run(lambda: self._take_topology(topology))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _take_topology(self, topology: TopologyPolicy) -> None:
        self._policy = replace(self._policy, topology=topology)
        self._decider.adopt(replace(self._decider.policy, topology=topology))

    def _forget(self) -> None:
        self._decider = Decider(policy=self._policy)

    def _think(
        self, changes: Sequence[Message], decisions: Sequence[Message], *, now: datetime, epoch: int | None
    ) -> Thought:
        unreadable = []
        for message in changes:
            try:
                change = read_change(message.subject, message.data)
            except UnknownKind:
                continue
            except UndecodableMessage as error:
                unreadable.append(Unreadable(message=message, stream=CLUSTER_STREAM.name, problem=str(error)))
                continue
            self._decider.observe_change(
                change, revision=message.sequence, at=now, cause=message.headers.get("traceparent", "")
            )
        for message in decisions:
            try:
                decision = read_decision(message.subject, message.data)
            except UndecodableMessage as error:
                unreadable.append(Unreadable(message=message, stream=PLACEMENT_STREAM.name, problem=str(error)))
                continue
            self._decider.observe_decision(decision, at=now)
        if epoch is not None and epoch != self._decider.policy.epoch:
            self._decider.adopt(replace(self._policy, epoch=epoch))
        outcomes = self._decider.decide(now) if epoch is not None else ()
        return Thought(
            outcomes=outcomes,
            due=self._decider.next_due(now) if epoch is not None else None,
            unsynced=self._decider.cluster.unsynced(),
            unreadable=tuple(unreadable),
        )
