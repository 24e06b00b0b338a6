"""What speaks against a placement at its place in the stream, and what does not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from services.core.decisions import Assignment, Decision, Proposed, Refused
from services.core.objections import EPOCH, LONGEST_DEADLINE, Circumstances, objection_to, refused
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction import handle
from services.core.transaction_resume import as_entry, resume
from services.core.transaction_state import Phase, Step
from services.core.transaction_values import Publish, Published
from tests.builders import START

GANG = GangId("podgroup/a/train")
SOUND = Proposed(
    revision=1,
    deadline=START + timedelta(minutes=1),
    min_count=2,
    assignments=tuple(Assignment(pod=f"p-{number}", uid=Uid(f"u-{number}"), node=NodeName("n")) for number in range(2)),
)
GIVEN = Circumstances(now=START, size_bytes=100, most_bytes=1000, newest_epoch=7, open_transaction=None)


def objection(proposal: Proposed = SOUND, *, epoch: int = 7, given: Circumstances = GIVEN) -> Reason | None:
    """What speaks against a placement of transaction t."""
    decision = Decision(gang=GANG, event=proposal, decided_at=START, transaction=TransactionId("t"), epoch=epoch)
    return objection_to(decision, proposal, given=given)


def test_nothing_speaks_against_a_sound_one() -> None:
    """Of the epoch that leads, or of a placer without election."""
    assert objection() is None
    assert objection(epoch=0) is None
    assert objection(epoch=8) is None
    assert objection(given=replace(GIVEN, open_transaction=TransactionId("t"))) is None


@pytest.mark.parametrize("epoch", [1, 6])
def test_an_old_epoch(epoch: int) -> None:
    """Somebody else leads since."""
    found = objection(epoch=epoch)
    assert found is not None
    assert (found.code, found.subject) == (ReasonCode.PLACEMENT_SUPERSEDED, EPOCH)


def test_another_open_transaction() -> None:
    """The reason names it."""
    found = objection(given=replace(GIVEN, open_transaction=TransactionId("other")))
    assert found is not None
    assert (found.code, found.subject) == (ReasonCode.PLACEMENT_SUPERSEDED, "other")


def test_the_longest_deadline() -> None:
    """Just as far is taken."""
    far = START + LONGEST_DEADLINE
    assert objection(replace(SOUND, deadline=far)) is None
    found = objection(replace(SOUND, deadline=far + timedelta(seconds=1)))
    assert found is not None
    assert found.code is ReasonCode.PLACEMENT_MALFORMED


def test_the_largest_size() -> None:
    """As many bytes as allowed are taken, and one more is not."""
    assert objection(given=replace(GIVEN, size_bytes=1000)) is None
    found = objection(given=replace(GIVEN, size_bytes=1001))
    assert found is not None
    assert found.code is ReasonCode.GANG_TOO_LARGE


def test_a_later_round_is_never_objected_to() -> None:
    """The binder asked for it, and members may be bound: it can only be repaired or undone."""
    later = replace(SOUND, round=1, assignments=())
    assert objection(later, epoch=1, given=replace(GIVEN, size_bytes=10**9)) is None


def test_a_refusal_is_one_message_also_after_a_restart() -> None:
    """It is published, its journal entry says the same to a successor, and then it is over."""
    because = Reason(code=ReasonCode.PLACEMENT_MALFORMED, message="no")
    state, instructions = refused(TransactionId("t"), gang=GANG, proposal=SOUND, because=because, at=START)
    assert instructions == (Publish(event=Refused(reasons=(because,))),)
    assert resume(as_entry(state), now=START)[1] == instructions
    over, more = handle(state, Published(), now=START)
    assert (over.step, over.phase, more) == (Step.OVER, Phase.REFUSED, ())
