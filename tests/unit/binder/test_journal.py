"""The journal: stored once whatever happens to answers, and written by one process at a time."""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from services.binder.journal import BusJournal, Entries, Superseded
from services.binder.metrics import JournalMetrics
from services.binder.ports import Taken
from services.contracts.streams import MAX_MESSAGE_BYTES, STREAMS, TRANSACTIONS_STREAM
from services.contracts.subjects import transaction_subject
from services.contracts.transaction_codec import decode_transaction
from services.core.decisions import Assignment, Proposed
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.transaction import begin
from services.core.transaction_state import TransactionState
from services.runtime.clock import SystemClock
from tests.fakes.bus import FakeBus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
T1 = TransactionId("t1")


def state(transaction: str = "t1", *, pod: str = "a") -> TransactionState:
    """A transaction that was received."""
    given = Proposed(
        revision=1,
        deadline=NOW + timedelta(seconds=60),
        min_count=1,
        assignments=(Assignment(pod=pod, uid=Uid("u"), node=NodeName("n")),),
    )
    return begin(TransactionId(transaction), gang=GangId("podgroup/a/train"), proposal=given, at=NOW)[0]


class Process:
    """A binder's journal, with what it counts."""

    def __init__(self, bus: FakeBus) -> None:
        self.registry = CollectorRegistry()
        self.entries = Entries()
        self.journal = BusJournal(
            bus, instance="test", entries=self.entries, metrics=JournalMetrics(self.registry), clock=SystemClock()
        )

    def count(self, name: str, **labels: str) -> float:
        """Return a metric's value."""
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def bus() -> FakeBus:
    """A bus with the journal's bucket."""
    return FakeBus(streams=(*STREAMS, TRANSACTIONS_STREAM))


def entries(bus: FakeBus) -> list[TransactionState]:
    """The entries that the bucket has."""
    return [decode_transaction(one.data) for one in bus.stored(TRANSACTIONS_STREAM.name) if one.data]


async def test_an_entry_is_stored_shown_and_removed(bus: FakeBus) -> None:
    """One key for each transaction; a removed one leaves a mark that says so."""
    process = Process(bus)
    assert await process.journal.take(T1) == Taken(entry=None, was_known=False)
    await process.journal.write(state())
    await process.journal.write(state())
    assert [one.id for one in entries(bus)] == ["t1"]
    assert [one.id for one in process.entries.open()] == ["t1"]
    await process.journal.remove(T1)
    (mark,) = bus.stored(TRANSACTIONS_STREAM.name)
    assert (mark.data, mark.headers["KV-Operation"]) == (b"", "DEL")
    assert process.entries.open() == []
    assert process.count("phalanx_journal_writes_total", result="stored") == 2
    assert process.count("phalanx_journal_writes_total", result="removed") == 1


async def test_a_successor_finds_the_entry_and_the_predecessor_notices(bus: FakeBus) -> None:
    """From its first write on, the other one writes nothing more."""
    first, second = Process(bus), Process(bus)
    await first.journal.take(T1)
    await first.journal.write(state(pod="old"))
    taken = (await second.journal.take(T1)).entry
    assert taken is not None
    assert [one.assignment.pod for one in taken.members.values()] == ["old"]
    await second.journal.write(state(pod="new"))
    with pytest.raises(Superseded):
        await first.journal.write(state(pod="old"))
    await first.journal.remove(T1)
    assert [one.members[Uid("u")].assignment.pod for one in entries(bus)] == ["new"]


async def test_a_successor_that_read_too_early_notices(bus: FakeBus) -> None:
    """The predecessor wrote once more in between: what was read is old."""
    first, second = Process(bus), Process(bus)
    await first.journal.take(T1)
    await second.journal.take(T1)
    await first.journal.write(state())
    with pytest.raises(Superseded):
        await second.journal.write(state())
    assert (await second.journal.take(T1)).entry is not None
    await second.journal.write(state())


async def test_lost_answers_are_no_take_over(bus: FakeBus) -> None:
    """A write that was stored and one that was not are both repeated, also the first after a take-over."""
    first, second = Process(bus), Process(bus)
    await first.journal.take(T1)
    await first.journal.write(state(pod="old"))
    await second.journal.take(T1)
    bus.refuse_publishes(1)
    await second.journal.write(state(pod="new"))
    bus.lose_answers(1)
    await second.journal.write(state(pod="newer"))
    assert [one.members[Uid("u")].assignment.pod for one in entries(bus)] == ["newer"]
    assert second.count("phalanx_journal_writes_total", result="unanswered") == 2


@pytest.mark.parametrize("data", [b"\xff\xff", b"", b"\x0a\x02t1"])
async def test_an_entry_that_cannot_be_read_is_counted_and_replaced(bus: FakeBus, data: bytes) -> None:
    """Damaged, empty or unfinished: the transaction goes on without it."""
    bus.write(transaction_subject(T1), data=data)
    process = Process(bus)
    assert await process.journal.take(T1) == Taken(entry=None, was_known=True)
    assert process.count("phalanx_journal_unreadable_entries_total") == 1
    await process.journal.write(state())
    assert [one.id for one in entries(bus)] == ["t1"]


async def test_another_transactions_entry_is_not_taken(bus: FakeBus) -> None:
    """Two ids that are one key."""
    process = Process(bus)
    await process.journal.take(TransactionId("a.b"))
    await process.journal.write(state("a.b"))
    assert await process.journal.take(TransactionId("a_b")) == Taken(entry=None, was_known=True)
    assert process.count("phalanx_journal_unreadable_entries_total") == 1


async def test_what_is_left_of_ended_transactions_is_removed(bus: FakeBus) -> None:
    """What is open is shown, also before its turn has come."""
    first, second = Process(bus), Process(bus)
    for transaction in ("t1", "t2"):
        await first.journal.take(TransactionId(transaction))
        await first.journal.write(state(transaction))
    await second.journal.tidy(has_ended=lambda entry: entry.id == "t1")
    assert [one.id for one in entries(bus)] == ["t2"]
    assert [one.id for one in second.entries.open()] == ["t2"]


async def test_the_entry_of_a_transaction_that_was_given_up_is_tidied(bus: FakeBus) -> None:
    """While it is worked on it is left alone; once it is nobody's it goes, and is shown no longer."""
    binder = Process(bus)
    await binder.journal.take(T1)
    await binder.journal.write(state())
    await binder.journal.tidy(has_ended=lambda _entry: True)
    assert [one.id for one in entries(bus)] == [T1]
    binder.journal.forget(T1)
    assert not binder.entries.open()
    await binder.journal.tidy(has_ended=lambda _entry: True)
    assert entries(bus) == []


async def test_an_entry_that_is_too_large_leaves_the_one_before(bus: FakeBus) -> None:
    """It is counted, and nothing waits for it."""
    process = Process(bus)
    await process.journal.take(T1)
    await process.journal.write(state())
    await process.journal.write(state(pod="x" * MAX_MESSAGE_BYTES))
    assert [one.members[Uid("u")].assignment.pod for one in entries(bus)] == ["a"]
    assert process.count("phalanx_journal_writes_total", result="oversized") == 1
