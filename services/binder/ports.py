"""What the binder needs of the world, as its own interfaces."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from services.core.decisions import Victim
from services.core.objects import TransactionId
from services.core.transaction_answers import ApiAnswer
from services.core.transaction_state import TransactionState
from services.core.transaction_values import Target
from services.runtime.bus import Batch, Message

Manifest = Mapping[str, Any]
"""An object as the API server sent it."""


class NoAnswer(Exception):
    """The API server gave no usable answer: a write may have happened, a read has to be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The answer to a write, with the object after it where there is one."""

    answer: ApiAnswer
    manifest: Manifest | None = None


class PodApi(Protocol):
    """Pods, as transactions read and write them. Every method raises NoAnswer."""

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the pods that exist, by name."""

    async def bind(self, namespace: str, *, target: Target, transaction: TransactionId, is_dry_run: bool) -> ApiAnswer:
        """Assign a pod to a node, on the condition that it is the same pod in the same version."""

    async def touch(self, namespace: str, *, target: Target, mark: str) -> Changed:
        """Change an annotation, so that every write which rests on an older version fails."""

    async def announce_end(self, namespace: str, *, target: Target, message: str) -> Changed:
        """Set the condition DisruptionTarget, so that a Job's failure policy can tell an undo from a failure."""

    async def delete(self, namespace: str, *, target: Target) -> ApiAnswer:
        """Delete the pod in this version, with its own grace period."""

    async def evict(self, victim: Victim, *, is_dry_run: bool) -> ApiAnswer:
        """Evict a pod, on the condition that it is the same pod and that its disruption budgets allow it."""


class ClaimApi(Protocol):
    """ResourceClaims, as transactions read and write them. Bodies carry what they are fenced by. All raise NoAnswer."""

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the claims that exist, by name."""

    async def device_classes(self, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the DeviceClasses that exist, by name."""

    async def everyone(self) -> Sequence[Manifest]:
        """Return the allocated claims of all namespaces, whoever allocated them."""

    async def mark(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch a claim's metadata."""

    async def write_status(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch a claim's status."""

    async def create(self, namespace: str, *, body: Mapping[str, Any]) -> Changed:
        """Create the claim of a pod's extended resources."""

    async def delete(self, namespace: str, *, name: str, uid: str, version: str) -> Changed:
        """Delete a claim that was created so, in this version."""

    async def record_extended(self, namespace: str, *, pod: str, uid: str, status: Mapping[str, Any]) -> Changed:
        """Write `status.extendedResourceClaimStatus` of a pod, on the condition that it is the same pod."""


class StatusApi(Protocol):
    """Conditions and events, as reports read and write them. Every method raises NoAnswer."""

    async def group(self, namespace: str, *, name: str) -> Manifest | None:
        """Return a PodGroup, or None where it or its API does not exist."""

    async def pods(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the pods that exist, by name."""

    async def set_group_conditions(
        self, namespace: str, *, name: str, uid: str, conditions: Sequence[Mapping[str, Any]]
    ) -> ApiAnswer:
        """Write conditions of a PodGroup, on the condition that it is the same group."""

    async def set_pod_condition(
        self, namespace: str, *, name: str, uid: str, condition: Mapping[str, Any]
    ) -> ApiAnswer:
        """Write a condition of a pod, on the condition that it is the same pod."""

    async def create_event(self, namespace: str, *, body: Mapping[str, Any]) -> ApiAnswer:
        """Create an event; 409 where it was told before."""

    async def event(self, namespace: str, *, name: str) -> Manifest | None:
        """Return an event, or None."""

    async def repeat_event(self, namespace: str, *, name: str, count: int, at: str) -> ApiAnswer:
        """Say that a known event happened again."""


class DecisionBus(Protocol):
    """The bus, as the binder uses it; `services.runtime.bus.Bus` is the real one."""

    def follow(
        self, stream: str, *, subjects: str | Sequence[str], last_per_subject: bool = True
    ) -> AsyncIterator[Batch]:
        """Yield stored messages, then new ones."""

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
        """Store a message if the subject's last sequence is the expected one."""

    async def last(self, stream: str, *, subject: str) -> Message | None:
        """Return the last message of a subject."""


class OpenTransactions(Protocol):
    """The open transactions, for whoever asks."""

    def open(self) -> Sequence[TransactionState]:
        """Return the open transactions, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What the journal had of a transaction. `was_known` also where its entry cannot be read, or was removed."""

    entry: TransactionState | None
    was_known: bool


class Journal(Protocol):
    """Where the state of open transactions is kept, for a successor."""

    async def take(self, transaction: TransactionId) -> Taken:
        """Take a transaction over, and return what is known of it."""

    async def write(self, transaction: TransactionState) -> None:
        """Keep what the transaction is about to do. Raises Superseded where somebody else took it over."""

    async def remove(self, transaction: TransactionId) -> None:
        """Remove the entry of a transaction that has ended in the stream."""

    def forget(self, transaction: TransactionId) -> None:
        """Give up a transaction, however it ended here; an entry that is left stays, for the sweep to judge."""
