"""Decisions are stored once, whatever happens to answers."""

import asyncio
import contextlib
from datetime import UTC, datetime

from services.binder.publishing import Publisher
from services.contracts.decision_codec import decode_decision
from services.core.decisions import Committed, Decision, Refused, Repairing, RolledBack
from services.core.objects import GangId, TransactionId
from tests.unit.binder.fakes import LOST_AFTER, LOST_BEFORE, FakeBus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def decision(event: Committed | Refused | Repairing | RolledBack, *, transaction: str = "t1") -> Decision:
    """A decision about one gang."""
    return Decision(
        gang=GangId("podgroup/a/train"), event=event, decided_at=NOW, transaction=TransactionId(transaction)
    )


def publisher(bus: FakeBus, *ended: str) -> Publisher:
    """A publisher that knows of ended transactions."""
    return Publisher(
        bus,
        instance="test",
        has_ended=lambda transaction: transaction in ended,
        folded_up_to=lambda: len(bus.stored),
        may_write=lambda: True,
    )


async def test_a_decision_is_stored_with_its_identity() -> None:
    """CloudEvents headers, and the gang's subject."""
    bus = FakeBus()
    await publisher(bus).publish(decision(Committed(members=())))
    (message,) = bus.stored
    assert message.subject == "phalanx.placement.v1.podgroup.a.train.committed"
    assert message.headers["ce-id"] == "t1/committed/0"
    assert message.headers["ce-source"] == "/phalanx/binder/test"
    assert decode_decision(message.data) == decision(Committed(members=()))


async def test_lost_answers_store_it_once() -> None:
    """The second try finds its own message."""
    bus = FakeBus()
    bus.script.extend([LOST_BEFORE, LOST_AFTER])
    await publisher(bus).publish(decision(Committed(members=())))
    assert len(bus.stored) == 1


async def test_earlier_decisions_of_the_gang_do_not_stand_in_the_way() -> None:
    """The condition is the subject's last sequence, read just before."""
    bus = FakeBus()
    await publisher(bus).publish(decision(Committed(members=())))
    await publisher(bus).publish(decision(Committed(members=()), transaction="t2"))
    assert [one.headers["ce-id"] for one in bus.stored] == ["t1/committed/0", "t2/committed/0"]


async def test_an_ended_transaction_is_not_ended_again() -> None:
    """The followed stream says that it has ended."""
    bus = FakeBus()
    await publisher(bus, "t1").publish(decision(Refused(reasons=())))
    assert bus.stored == []


async def test_rounds_of_repair_are_different_messages() -> None:
    """Each has its own id, so the server drops none."""
    bus = FakeBus()
    for number in range(2):
        event = Repairing(round=number, bound=(), open=(), until=NOW, min_count=1)
        await publisher(bus).publish(decision(event))
    assert [one.headers["ce-id"] for one in bus.stored] == ["t1/repairing/0", "t1/repairing/1"]


async def test_of_two_ends_one_is_stored() -> None:
    """Another binder has ended the transaction, and this one has not read that yet: it waits until it has."""
    bus = FakeBus()
    await publisher(bus).publish(decision(Committed(members=())))
    looks = 0

    def has_ended(_transaction: TransactionId) -> bool:
        nonlocal looks
        looks += 1
        return looks > 1

    late = Publisher(bus, instance="late", has_ended=has_ended, folded_up_to=lambda: 0, may_write=lambda: True)
    await late.publish(decision(RolledBack(reasons=())))
    assert (len(bus.stored), looks) == (1, 2)


async def test_a_standby_stores_nothing() -> None:
    """It is asked before each try; the work is cancelled from outside."""
    bus = FakeBus()
    asked = asyncio.Event()

    def may_write() -> bool:
        asked.set()
        return False

    standby = Publisher(bus, instance="standby", has_ended=lambda _: False, folded_up_to=lambda: 0, may_write=may_write)
    publishing = asyncio.create_task(standby.publish(decision(Committed(members=()))))
    await asked.wait()
    publishing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await publishing
    assert bus.stored == []
