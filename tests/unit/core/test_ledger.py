"""The ledger: which transactions are open, which gangs wait, and that late messages change nothing."""

from datetime import timedelta

import pytest

from services.core.decisions import (
    Assignment,
    Committed,
    Decision,
    DecisionEvent,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Waiting,
)
from services.core.ledger import MAX_ENDED, Ledger
from services.core.objects import GangId, NodeName, TransactionId, Uid
from tests.builders import START

GANG = GangId("podgroup/team-a/g")
T1, T2 = TransactionId("t1"), TransactionId("t2")
MEMBER = Assignment(pod="g-0", uid=Uid("u0"), node=NodeName("n1"))
ENDS = (Committed(members=(MEMBER,)), Refused(reasons=()), RolledBack(reasons=(), undone=(MEMBER,)))


def decision(event: DecisionEvent, *, at_s: float, transaction: TransactionId = T1, gang: GangId = GANG) -> Decision:
    """A decision that many seconds after the start."""
    return Decision(gang=gang, event=event, decided_at=START + timedelta(seconds=at_s), transaction=transaction)


def proposed(*, at_s: float = 1, round_number: int = 0, transaction: TransactionId = T1) -> Decision:
    """A proposal of one member."""
    event = Proposed(revision=1, deadline=START, min_count=1, assignments=(MEMBER,), round=round_number)
    return decision(event, at_s=at_s, transaction=transaction)


def repairing(*, at_s: float = 2, round_number: int = 0) -> Decision:
    """A repair after that round."""
    member = OpenMember(pod="g-0", uid=Uid("u0"))
    event = Repairing(round=round_number, bound=(), open=(member,), until=START, min_count=1)
    return decision(event, at_s=at_s)


def waiting(*, at_s: float) -> Decision:
    """The gang waits."""
    event = Waiting(revision=1, min_count=1, existing=1, placeable=0, reasons=())
    return decision(event, at_s=at_s, transaction=TransactionId(""))


def folded(*decisions: Decision) -> Ledger:
    """The ledger after these decisions."""
    ledger = Ledger()
    for one in decisions:
        ledger.apply(one)
    return ledger


def test_a_proposal_opens_a_transaction() -> None:
    """It is found by its id and by its gang, with what it promised."""
    ledger = folded(proposed())
    (found,) = ledger.open()
    assert found.assignments == (MEMBER,)
    assert ledger.transaction(T1) == ledger.of_gang(GANG) == found
    assert not ledger.has_ended(T1)


@pytest.mark.parametrize("end", ENDS)
def test_one_event_ends_it(end: DecisionEvent) -> None:
    """Committed, refused or rolled back; a late proposal does not open it again."""
    ledger = folded(proposed(), decision(end, at_s=2), proposed(round_number=1, at_s=3))
    assert list(ledger.open()) == []
    assert ledger.of_gang(GANG) is None
    assert ledger.has_ended(T1)


def test_an_end_without_its_beginning_is_remembered() -> None:
    """A reader may see the last message of each subject alone, in any order of the subjects."""
    ledger = folded(decision(ENDS[0], at_s=2), proposed())
    assert list(ledger.open()) == []


class TestRounds:
    """A repair is answered by the next round."""

    def test_a_repair_is_owed_an_answer(self) -> None:
        """Until the placer has proposed again."""
        ledger = folded(proposed(), repairing())
        found = ledger.transaction(T1)
        assert found is not None
        assert found.repairing == repairing().event
        ledger.apply(proposed(round_number=1, at_s=3))
        found = ledger.transaction(T1)
        assert found is not None
        assert (found.repairing, found.proposal.round) == (None, 1)

    def test_a_repair_of_an_earlier_round_is_late(self) -> None:
        """It has been answered already."""
        ledger = folded(proposed(), proposed(round_number=1, at_s=3), repairing(round_number=0))
        found = ledger.transaction(T1)
        assert found is not None
        assert found.repairing is None

    def test_an_earlier_round_is_late(self) -> None:
        """What was promised last counts."""
        ledger = folded(proposed(round_number=2), proposed(round_number=1, at_s=3))
        found = ledger.transaction(T1)
        assert found is not None
        assert found.proposal.round == 2

    def test_a_repair_of_an_unknown_transaction(self) -> None:
        """Its proposal follows, or it has ended."""
        assert list(folded(repairing()).open()) == []


class TestWaiting:
    """What was last said about a gang that waits."""

    def test_a_wait_lasts_until_something_happens(self) -> None:
        """A proposal or an end takes its place."""
        ledger = folded(waiting(at_s=1))
        assert ledger.waiting(GANG) == waiting(at_s=1)
        ledger.apply(proposed(at_s=2))
        assert ledger.waiting(GANG) is None
        ledger.apply(decision(ENDS[1], at_s=3))
        ledger.apply(waiting(at_s=4))
        assert ledger.waiting(GANG) == waiting(at_s=4)

    def test_a_wait_that_could_not_be_published_is_dropped(self) -> None:
        """Only that one: what somebody else published stays."""
        ledger = folded(waiting(at_s=1))
        ledger.unpublish(waiting(at_s=9))
        assert ledger.waiting(GANG) is not None
        ledger.unpublish(waiting(at_s=1))
        assert ledger.waiting(GANG) is None


def test_a_later_transaction_takes_the_gang_over() -> None:
    """The end of the first does not touch the second."""
    ledger = folded(proposed(), proposed(transaction=T2, at_s=2), decision(ENDS[1], at_s=3))
    found = ledger.of_gang(GANG)
    assert found is not None
    assert found.id == T2
    assert [one.id for one in ledger.open()] == [T2]


def test_a_transaction_that_could_not_be_published_is_dropped() -> None:
    """Once, and its successor stays."""
    ledger = folded(proposed(), proposed(transaction=T2, at_s=2))
    ledger.discard(T1)
    ledger.discard(T1)
    found = ledger.of_gang(GANG)
    assert found is not None
    assert found.id == T2
    ledger.discard(T2)
    assert ledger.of_gang(GANG) is None


def test_the_last_decision_is_the_latest() -> None:
    """A late message does not become it."""
    ledger = folded(proposed(at_s=5), waiting(at_s=1))
    assert ledger.last(GANG) == proposed(at_s=5)


def test_gangs_that_are_gone_are_forgotten() -> None:
    """Unless a transaction of theirs is still open."""
    ledger = folded(proposed())
    ledger.forget(GANG)
    assert ledger.last(GANG) is not None
    ledger.apply(decision(ENDS[0], at_s=2))
    ledger.forget(GANG)
    assert ledger.last(GANG) is None


def test_memory_of_ended_transactions_is_bounded() -> None:
    """The oldest go first."""
    ledger = Ledger()
    for index in range(MAX_ENDED + 1):
        ledger.apply(decision(ENDS[1], at_s=index, transaction=TransactionId(f"t{index}")))
    assert not ledger.has_ended(TransactionId("t0"))
    assert ledger.has_ended(TransactionId(f"t{MAX_ENDED}"))


def test_a_second_transaction_of_a_gang_does_not_displace_the_first() -> None:
    """The first stays the gang's until it has ended, whichever of the two ends first."""
    ledger = folded(proposed(), proposed(at_s=2, transaction=T2))
    found = ledger.of_gang(GANG)
    assert found is not None
    assert found.id == T1
    ledger.apply(decision(Refused(reasons=()), at_s=3, transaction=T2))
    found = ledger.of_gang(GANG)
    assert found is not None
    assert found.id == T1


def test_a_second_transaction_takes_the_place_of_the_first_when_that_ends() -> None:
    """Otherwise the gang would look free while it is not; the same where the first was never published."""
    for ends_first in (True, False):
        ledger = folded(proposed(), proposed(at_s=2, transaction=T2))
        if ends_first:
            ledger.apply(decision(Refused(reasons=()), at_s=3))
        else:
            ledger.discard(T1)
        found = ledger.of_gang(GANG)
        assert found is not None
        assert found.id == T2
        ledger.apply(decision(Refused(reasons=()), at_s=4, transaction=T2))
        assert ledger.of_gang(GANG) is None
