"""What the bucket of open transactions said, as any subscriber sees it. Knows nothing of the binder but its schema."""

import time
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from services.contracts.pb.binding.v1 import transaction_pb2 as pb
from services.runtime.bus import Batch, Bus, BusUnavailable, Message
from tests.e2e.waiting import eventually

STREAM = "KV_phalanx_transactions"
SUBJECTS = "$KV.phalanx_transactions.>"


@dataclass(slots=True, kw_only=True)
class Entry:
    """One transaction, as its key told of it. Times are wall-clock seconds."""

    transaction: str
    gang: str = ""
    #: When it must have ended or be repairing, and the end of the repair window where one was opened.
    must_end_by: float = 0.0
    ended_at: float | None = None
    #: Every phase that was seen, with the time at which it was.
    phases: list[tuple[float, str]] = field(default_factory=list)


class Bucket:
    """Follows the bucket until it is cancelled."""

    def __init__(self, bus: Bus) -> None:
        """Nothing is read yet."""
        self._bus = bus
        self._sequence = 0
        self.entries: dict[str, Entry] = {}
        #: Entries that were open before the stream had to be read again, and have not been seen since.
        self._unconfirmed: set[str] = set()

    async def run(self) -> None:
        """Follow."""
        async for batch in self._bus.follow(STREAM, subjects=SUBJECTS):
            self._take(batch)

    async def caught_up(self) -> None:
        """Wait until everything is read that is stored now. Raises AssertionError where the bus does not answer."""

        async def is_read() -> bool:
            try:
                last = await self._bus.last(STREAM, subject=SUBJECTS)
            except BusUnavailable:
                return False
            return last is None or last.sequence <= self._sequence

        await eventually(is_read, what="the bucket was read")

    def open(self) -> list[Entry]:
        """Return the entries that are there."""
        return [one for one in self.entries.values() if one.ended_at is None]

    def of(self, namespace: str) -> list[Entry]:
        """Return every entry that there has been for the gangs of a namespace."""
        return [one for one in self.entries.values() if one.gang.split("/")[1:2] == [namespace]]

    def _take(self, batch: Batch) -> None:
        if batch.restarted:
            self._sequence = 0
            self._unconfirmed = {one.transaction for one in self.open()}
        for message in batch.messages:
            self._note(message)
        if not batch.pending:
            for key in self._unconfirmed:
                self.entries[key].ended_at = time.time()
            self._unconfirmed = set()

    def _note(self, message: Message) -> None:
        self._sequence = message.sequence
        key = message.subject.rpartition(".")[2]
        self._unconfirmed.discard(key)
        entry = self.entries.setdefault(key, Entry(transaction=key))
        now = time.time()
        if not message.data:
            entry.ended_at = now
            return
        try:
            stored = pb.Transaction.FromString(message.data)
        except DecodeError:
            entry.phases.append((now, "unreadable"))
            return
        entry.ended_at = None
        entry.gang = stored.gang
        entry.must_end_by = max(entry.must_end_by, float(stored.deadline.seconds), float(stored.until.seconds))
        entry.phases.append((now, pb.Phase.Name(stored.phase).removeprefix("PHASE_").lower()))
