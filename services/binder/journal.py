"""The journal: what each open transaction is about to do, stored before it does it.

A key for each transaction in the bucket `phalanx_transactions`, written by compare-and-set on the version that this
process wrote or took over. So a successor goes on in the right phase, and whoever was taken over from finds out at its
next write, before it does anything more. A transaction without a readable entry is taken up from the placement stream.
"""

import contextlib
from collections.abc import Callable, Sequence
from uuid import uuid4

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.binder.metrics import JournalMetrics
from services.binder.ports import DecisionBus, Taken
from services.contracts.cluster_codec import UndecodableMessage
from services.contracts.streams import MAX_MESSAGE_BYTES, TRANSACTIONS_STREAM
from services.contracts.subjects import transaction_subject
from services.contracts.transaction_codec import decode_transaction, encode_transaction
from services.core.objects import TransactionId
from services.core.transaction_resume import as_entry
from services.core.transaction_state import TransactionState
from services.runtime.bus import BusUnavailable, Message, StaleWrite
from services.runtime.clock import Clock
from services.runtime.log import get

WRITER = "Phalanx-Writer"
"""Header with the process that wrote an entry, by which it knows its own after a lost answer."""
OPERATION = "KV-Operation"
DELETED = "DEL"

MARKER_TTL_S = 60.0
"""How long the mark of a removed key stays: longer than a write may be on its way."""

_log = get("binder.journal")


class Superseded(Exception):
    """Another process has taken the transaction over: this one writes nothing more for it."""


class Entries:
    """The open transactions as the journal has them, for whoever asks."""

    def __init__(self) -> None:
        """Start without any."""
        self._states: dict[TransactionId, TransactionState] = {}

    def show(self, transaction: TransactionState) -> None:
        """Show a transaction as it is now."""
        self._states[transaction.id] = transaction

    def hide(self, transaction: TransactionId) -> None:
        """Show a transaction no longer."""
        self._states.pop(transaction, None)

    def open(self) -> Sequence[TransactionState]:
        """Return the open transactions, oldest first."""
        return sorted(self._states.values(), key=lambda one: (one.started_at, one.id))


class BusJournal:
    """Satisfies `services.binder.ports.Journal`."""

    def __init__(
        self, bus: DecisionBus, *, instance: str, entries: Entries, metrics: JournalMetrics, clock: Clock
    ) -> None:
        """Nothing is read yet. Two processes of the same `instance` are still two writers."""
        self._bus = bus
        self._writer = f"{instance}/{uuid4().hex}"
        self._entries = entries
        self._metrics = metrics
        self._clock = clock
        #: Version of each key that we took over or wrote last, and the keys with a later write of unknown outcome.
        self._versions: dict[TransactionId, int] = {}
        self._unsure: set[TransactionId] = set()

    async def take(self, transaction: TransactionId) -> Taken:
        """Return what there is of the transaction, which is ours from now on."""
        subject = transaction_subject(transaction)
        async for attempt in _patient():
            with attempt:
                last = await self._bus.last(TRANSACTIONS_STREAM.name, subject=subject)
        self._versions[transaction] = 0 if last is None else last.sequence
        self._unsure.discard(transaction)
        entry = None if last is None else self._read(last)
        if entry is not None and entry.id != transaction:
            self._skip(subject, f"it belongs to transaction {entry.id!r}")
            entry = None
        return Taken(entry=entry, was_known=last is not None)

    async def write(self, transaction: TransactionState) -> None:
        """Store what the transaction is about to do, waiting for the bus as long as it takes. Raises Superseded."""
        started_s = self._clock.monotonic()
        entry = as_entry(transaction)
        data = encode_transaction(entry)
        if len(data) > MAX_MESSAGE_BYTES:
            # The older entry is true as well: members are looked at before anything rests on it.
            self._metrics.writes.labels(result="oversized").inc()
            _log.error("journal.oversized", gang=entry.gang, transaction=entry.id, size_bytes=len(data))
            return
        await self._store(entry.id, data=data)
        self._metrics.duration.observe(self._clock.monotonic() - started_s)
        self._entries.show(entry)

    async def remove(self, transaction: TransactionId) -> None:
        """Remove the entry of a transaction that has ended in the stream; another's entry is left to its owner."""
        self._entries.hide(transaction)
        with contextlib.suppress(Superseded):
            await self._store(transaction, data=b"", is_removal=True)
        self.forget(transaction)

    def forget(self, transaction: TransactionId) -> None:
        """Give a transaction up: what is left of its entry is not ours, and may be tidied as such."""
        self._entries.hide(transaction)
        self._versions.pop(transaction, None)
        self._unsure.discard(transaction)

    async def tidy(self, *, has_ended: Callable[[TransactionState], bool]) -> None:
        """Remove what a predecessor left of ended transactions, and show what is open."""
        stream = self._bus.follow(TRANSACTIONS_STREAM.name, subjects=TRANSACTIONS_STREAM.subjects)
        found: list[Message] = []
        async with contextlib.aclosing(stream) as batches:  # type: ignore[type-var]  # a generator, typed as an iterator
            async for batch in batches:
                found = [*(() if batch.restarted else found), *batch.messages]
                if not batch.pending:
                    break
            # Before anything is waited for: what is read here is true now, and may soon be over.
            entries = [(one, entry) for one in found if (entry := self._read(one)) and entry.id not in self._versions]
            for _, entry in entries:
                if not has_ended(entry):
                    self._entries.show(entry)
        for message, entry in entries:
            if has_ended(entry) and entry.id not in self._versions:
                self._versions[entry.id] = message.sequence
                await self.remove(entry.id)

    async def _store(self, transaction: TransactionId, *, data: bytes, is_removal: bool = False) -> None:
        headers = {WRITER: self._writer} | ({OPERATION: DELETED} if is_removal else {})
        subject = transaction_subject(transaction)
        async for attempt in _patient():
            with attempt:
                if transaction in self._unsure:
                    self._versions[transaction] = await self._own_version(subject, known=self._versions[transaction])
                # Noted first: a cancelled write leaves its outcome unknown too.
                self._unsure.add(transaction)
                try:
                    self._versions[transaction] = await self._bus.publish(
                        subject,
                        data=data,
                        headers=headers,
                        expected_sequence=self._versions[transaction],
                        ttl_s=MARKER_TTL_S if is_removal else None,
                    )
                    self._unsure.discard(transaction)
                except (BusUnavailable, StaleWrite) as error:
                    result = "refused" if isinstance(error, StaleWrite) else "unanswered"
                    self._metrics.writes.labels(result=result).inc()
                    raise
        self._metrics.writes.labels(result="removed" if is_removal else "stored").inc()

    async def _own_version(self, subject: str, *, known: int) -> int:
        """Return the key's version where it is ours. Raises Superseded where somebody else has written since."""
        last = await self._bus.last(TRANSACTIONS_STREAM.name, subject=subject)
        if last is None:
            return 0
        if last.headers.get(WRITER) != self._writer and last.sequence != known:
            raise Superseded(f"{subject} was written by {last.headers.get(WRITER, 'nobody known')}")
        return last.sequence

    def _read(self, message: Message) -> TransactionState | None:
        if message.headers.get(OPERATION):
            return None
        try:
            return decode_transaction(message.data)
        except UndecodableMessage as error:
            self._skip(message.subject, str(error))
            return None

    def _skip(self, subject: str, problem: str) -> None:
        self._metrics.unreadable.inc()
        _log.error("journal.unreadable", subject=subject, problem=problem)


def _patient() -> AsyncRetrying:
    return AsyncRetrying(
        wait=wait_random_exponential(multiplier=0.05, max=2),
        retry=retry_if_exception_type((BusUnavailable, StaleWrite)),
    )
