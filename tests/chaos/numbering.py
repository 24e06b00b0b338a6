"""Ports of the binder that number their calls, and strike at the one that was ordered.

They stand around the real ports (`services.binder.app.Effects`). A call is named by its kind and its number within the
namespace, as `bind 3`: that name is the same in each run, also where kinds are mixed in another order.
"""

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from services.binder.ports import Changed, ClaimApi, DecisionBus, Manifest, NoAnswer, PodApi, StatusApi
from services.contracts.pb.binding.v1 import transaction_pb2 as pb
from services.contracts.subjects import PLACEMENT
from services.core.decisions import Victim
from services.core.objects import TransactionId
from services.core.transaction_answers import ApiAnswer
from services.core.transaction_values import Target
from services.runtime.bus import Batch, BusUnavailable, Message
from tests.chaos.orders import Fault, Orders

T = TypeVar("T")

NAMESPACE_TOKEN = 1
"""Place of the namespace in a decision's subject, after the prefix and the gang's kind."""


class Steps:
    """Numbers the calls of one process."""

    def __init__(self, orders: Orders) -> None:
        """Start counting."""
        self._orders = orders
        self._counts: Counter[tuple[str, str]] = Counter()

    async def call(self, namespace: str, kind: str, request: Callable[[], Awaitable[T]], *, lost: Exception) -> T:
        """Make a call, unless the process dies at it."""
        self._counts[namespace, kind] += 1
        name = f"{kind} {self._counts[namespace, kind]}"
        self._orders.note(namespace, name)
        order = self._orders.look(namespace)
        if order is None or order.call != name or not self._orders.take(namespace):
            return await request()
        if order.fault is Fault.DIE_BEFORE:
            _die()
        try:
            answer = await request()
        finally:
            if order.fault is Fault.DIE_AFTER:
                _die()
        if order.fault is Fault.ANSWER_LOST:
            raise lost
        return answer


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class NumberedPods:
    """Satisfies `services.binder.ports.PodApi`; only writes are numbered."""

    def __init__(self, pods: PodApi, *, steps: Steps) -> None:
        """Pass calls on to the real ones."""
        self._pods = pods
        self._steps = steps

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those that exist."""
        return await self._pods.read(namespace, names=names)

    async def bind(self, namespace: str, *, target: Target, transaction: TransactionId, is_dry_run: bool) -> ApiAnswer:
        """Bind, or try to."""
        return await self._write(
            namespace,
            "dry run" if is_dry_run else "bind",
            lambda: self._pods.bind(namespace, target=target, transaction=transaction, is_dry_run=is_dry_run),
        )

    async def touch(self, namespace: str, *, target: Target, mark: str) -> Changed:
        """Fence."""
        return await self._write(namespace, "touch", lambda: self._pods.touch(namespace, target=target, mark=mark))

    async def announce_end(self, namespace: str, *, target: Target, message: str) -> Changed:
        """Announce an undo."""
        return await self._write(
            namespace, "announce", lambda: self._pods.announce_end(namespace, target=target, message=message)
        )

    async def delete(self, namespace: str, *, target: Target) -> ApiAnswer:
        """Delete."""
        return await self._write(namespace, "delete", lambda: self._pods.delete(namespace, target=target))

    async def evict(self, victim: Victim, *, is_dry_run: bool) -> ApiAnswer:
        """Evict, or try to."""
        kind = "dry eviction" if is_dry_run else "evict"
        return await self._write(victim.namespace, kind, lambda: self._pods.evict(victim, is_dry_run=is_dry_run))

    async def _write(self, namespace: str, kind: str, request: Callable[[], Awaitable[T]]) -> T:
        return await self._steps.call(namespace, kind, request, lost=NoAnswer("the answer was lost"))


class NumberedClaims:
    """Satisfies `services.binder.ports.ClaimApi`; only writes are numbered."""

    def __init__(self, claims: ClaimApi, *, steps: Steps) -> None:
        """Pass calls on to the real ones."""
        self._claims = claims
        self._steps = steps

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those that exist."""
        return await self._claims.read(namespace, names=names)

    async def device_classes(self, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those that exist."""
        return await self._claims.device_classes(names=names)

    async def everyone(self) -> Sequence[Manifest]:
        """Return all allocated claims."""
        return await self._claims.everyone()

    async def mark(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch the metadata."""
        return await self._write(namespace, "mark claim", lambda: self._claims.mark(namespace, name=name, body=body))

    async def write_status(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch the status."""
        kind = "allocate" if body["status"].get("allocation") else "clear claim"
        return await self._write(namespace, kind, lambda: self._claims.write_status(namespace, name=name, body=body))

    async def create(self, namespace: str, *, body: Mapping[str, Any]) -> Changed:
        """Create a claim."""
        return await self._write(namespace, "create claim", lambda: self._claims.create(namespace, body=body))

    async def delete(self, namespace: str, *, name: str, uid: str, version: str) -> Changed:
        """Delete a claim."""
        return await self._write(
            namespace,
            "delete claim",
            lambda: self._claims.delete(namespace, name=name, uid=uid, version=version),
        )

    async def record_extended(self, namespace: str, *, pod: str, uid: str, status: Mapping[str, Any]) -> Changed:
        """Record a claim in its pod's status."""
        return await self._write(
            namespace,
            "record claim",
            lambda: self._claims.record_extended(namespace, pod=pod, uid=uid, status=status),
        )

    async def _write(self, namespace: str, kind: str, request: Callable[[], Awaitable[T]]) -> T:
        return await self._steps.call(namespace, kind, request, lost=NoAnswer("the answer was lost"))


class NumberedStatus:
    """Satisfies `services.binder.ports.StatusApi`; only writes are numbered."""

    def __init__(self, status: StatusApi, *, steps: Steps) -> None:
        """Pass calls on to the real ones."""
        self._status = status
        self._steps = steps

    async def group(self, namespace: str, *, name: str) -> Manifest | None:
        """Return a PodGroup."""
        return await self._status.group(namespace, name=name)

    async def pods(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those that exist."""
        return await self._status.pods(namespace, names=names)

    async def set_group_conditions(
        self, namespace: str, *, name: str, uid: str, conditions: Sequence[Mapping[str, Any]]
    ) -> ApiAnswer:
        """Write conditions of a PodGroup."""
        return await self._write(
            namespace,
            "group status",
            lambda: self._status.set_group_conditions(namespace, name=name, uid=uid, conditions=conditions),
        )

    async def set_pod_condition(
        self, namespace: str, *, name: str, uid: str, condition: Mapping[str, Any]
    ) -> ApiAnswer:
        """Write a condition of a pod."""
        return await self._write(
            namespace,
            "pod status",
            lambda: self._status.set_pod_condition(namespace, name=name, uid=uid, condition=condition),
        )

    async def create_event(self, namespace: str, *, body: Mapping[str, Any]) -> ApiAnswer:
        """Create an event."""
        return await self._write(namespace, "event", lambda: self._status.create_event(namespace, body=body))

    async def event(self, namespace: str, *, name: str) -> Manifest | None:
        """Return an event."""
        return await self._status.event(namespace, name=name)

    async def repeat_event(self, namespace: str, *, name: str, count: int, at: str) -> ApiAnswer:
        """Say that a known event happened again."""
        return await self._write(
            namespace, "event again", lambda: self._status.repeat_event(namespace, name=name, count=count, at=at)
        )

    async def _write(self, namespace: str, kind: str, request: Callable[[], Awaitable[T]]) -> T:
        return await self._steps.call(namespace, kind, request, lost=NoAnswer("the answer was lost"))


class NumberedBus:
    """Satisfies `services.binder.ports.DecisionBus`; journal entries and decisions are numbered."""

    def __init__(self, bus: DecisionBus, *, steps: Steps) -> None:
        """Pass calls on to the real one."""
        self._bus = bus
        self._steps = steps
        #: By subject of the journal: a removal says nothing of the namespace.
        self._namespaces: dict[str, str] = {}

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""
        return self._bus.follow(stream, subjects=subjects, last_per_subject=last_per_subject)

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject."""
        found = await self._bus.last(stream, subject=subject)
        if found is not None and subject.startswith("$KV."):
            self._note_entry(found.subject, found.data)
        return found

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
        namespace, kind = self._named(subject, data)
        return await self._steps.call(
            namespace,
            kind,
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

    def _named(self, subject: str, data: bytes) -> tuple[str, str]:
        """Return the namespace that a message is about, and what kind of call it is."""
        if subject.startswith(f"{PLACEMENT}."):
            parts = subject.removeprefix(f"{PLACEMENT}.").split(".")
            return parts[NAMESPACE_TOKEN], f"publish {parts[-1]}"
        if not data:
            return self._namespaces.get(subject, "_"), "journal removal"
        return self._note_entry(subject, data), f"journal {_phase(data)}"

    def _note_entry(self, subject: str, data: bytes) -> str:
        gang = _entry(data).gang
        if gang:
            self._namespaces[subject] = gang.split("/")[1]
        return self._namespaces.get(subject, "_")


def _entry(data: bytes) -> pb.Transaction:
    try:
        return pb.Transaction.FromString(data)
    except DecodeError:
        return pb.Transaction()


def _phase(data: bytes) -> str:
    return pb.Phase.Name(_entry(data).phase).removeprefix("PHASE_").lower().replace("_", " ")
