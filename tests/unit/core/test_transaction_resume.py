"""A successor goes on from a journal entry in the phase in which its predecessor died."""

from dataclasses import replace
from datetime import timedelta

from services.contracts.transaction_codec import decode_transaction, encode_transaction
from services.core.decisions import Committed, Refused, Repairing, RolledBack
from services.core.objects import NodeName, Uid
from services.core.transaction import handle
from services.core.transaction_resume import as_entry, is_behind, resume
from services.core.transaction_state import Step, TransactionState
from services.core.transaction_values import (
    Examine,
    Fence,
    Found,
    Instruction,
    Publish,
    Published,
    Reading,
    Removal,
    Removed,
    Stage,
    Undo,
)
from tests.unit.core.test_transaction import NOW, REFUSED, Play, proposal


def stored(play: Play) -> TransactionState:
    """The entry that is written before the play's outstanding instruction."""
    return decode_transaction(encode_transaction(as_entry(play.state)))


def successor(play: Play, *, after_s: float = 0.0) -> Play:
    """A new process with nothing but the entry."""
    taken = Play(play.state.proposal)
    taken.now = NOW + timedelta(seconds=after_s)
    taken._take(resume(stored(play), now=taken.now))
    return taken


def refused_one(window_s: float) -> Play:
    """Two of three are bound; the third was refused."""
    play = Play(proposal("a", "b", "c", window_s=window_s)).until_binding()
    play.written({"c": REFUSED})
    return play


def last(play: Play) -> Instruction:
    """The outstanding instruction."""
    assert play.last is not None
    return play.last


def test_before_the_burst_nothing_is_in_doubt() -> None:
    """The entry says that nothing was written, so a late placement may be refused without a fence."""
    play = Play(proposal("a", "b"))
    play.examined()
    taken = successor(play)
    assert isinstance(taken.last, Examine)
    assert not taken.state.may_have_written
    assert not taken.state.doubtful(Stage.PROMISED)


def test_in_the_burst_every_target_may_have_a_late_write() -> None:
    """The members are read first, and what is not bound is fenced before it is given up."""
    play = Play(proposal("a", "b", window_s=0)).until_binding()
    taken = successor(play)
    assert isinstance(taken.last, Examine)
    assert taken.state.may_have_written
    gated = Reading(found=Found.UNBINDABLE, version="2")
    taken.examined({"a": gated})
    assert isinstance(taken.last, Fence)
    assert {one.pod for one in taken.last.targets} == {"a", "b"}


def test_a_repair_keeps_its_window_its_excluded_nodes_and_its_caution() -> None:
    """Nothing begins anew, and the same Repairing is published again."""
    play = refused_one(30)
    event = last(play)
    assert isinstance(event, Publish)
    taken = successor(play, after_s=20)
    assert taken.last == event
    assert isinstance(event.event, Repairing)
    taken.send(Published())
    state = taken.state
    assert (state.step, state.until, state.is_cautious) == (Step.WAITING, NOW + timedelta(seconds=30), True)
    assert state.members[Uid("u-c")].excluded_nodes == {NodeName("n1")}
    assert isinstance(taken.later(30), Undo)


def test_an_undo_goes_on_and_is_not_repaired_again() -> None:
    """Also what the predecessor deleted counts as undone, and the reasons are the first ones."""
    play = refused_one(0)
    taken = successor(play, after_s=100)
    undo = last(taken)
    assert isinstance(undo, Undo)
    assert {one.pod for one in undo.targets} == {"a", "b"}
    taken.send(Removed(removals={Uid("u-a"): Removal.GONE, Uid("u-b"): Removal.DELETED}))
    publish = last(taken)
    assert isinstance(publish, Publish)
    assert isinstance(publish.event, RolledBack)
    assert {one.pod for one in publish.event.undone} == {"a", "b"}
    assert publish.event.reasons == play.state.end_reasons


def test_an_ending_is_published_as_it_was_decided() -> None:
    """Whatever was seen since."""
    play = Play(proposal("a", "b")).until_binding()
    play.written()
    taken = successor(play)
    assert taken.last == play.last
    assert isinstance(taken.state.ending, Committed)
    taken.send(Published())
    assert taken.state.step is Step.OVER


def test_fences_before_an_end_are_repeated() -> None:
    """It was being ended, and goes on being ended for the same reasons."""
    play = Play(proposal("a", "b", window_s=0))
    play.examined()
    play.probed()
    doubtful = replace(REFUSED, is_in_doubt=True)
    play.written({"a": doubtful, "b": doubtful})
    assert isinstance(play.last, Fence)
    taken = successor(play, after_s=5)
    assert taken.last == replace(play.last, targets=tuple(replace(one, version="") for one in play.last.targets))
    assert taken.state.end_reasons == play.state.end_reasons


def test_bound_members_are_looked_at_again() -> None:
    """One of them went while nobody was there."""
    play = Play(proposal("a", "b", window_s=0)).until_binding()
    play.written({"b": replace(REFUSED, is_in_doubt=True)})
    entry = replace(stored(play), is_ending=False)
    state, (examine,) = resume(entry, now=NOW)
    assert isinstance(examine, Examine)
    assert {one.pod for one in examine.members} == {"a"}
    taken = Play(state.proposal)
    taken.state, taken.last = state, examine
    taken.examined({"a": Reading(found=Found.GONE)})
    fence = last(taken)
    assert isinstance(fence, Fence)
    assert [one.pod for one in fence.targets] == ["b"]


def test_a_refusal_that_was_decided_stays_one() -> None:
    """Nothing is handled twice once it is over."""
    play = Play(proposal("a", deadline_s=1))
    play.later(2)
    taken = successor(play, after_s=3)
    publish = last(taken)
    assert isinstance(publish, Publish)
    assert isinstance(publish.event, Refused)
    over, _ = handle(taken.state, Published(), now=NOW)
    assert over.step is Step.OVER


def test_an_entry_that_the_stream_has_overtaken_is_not_trusted() -> None:
    """The journal lost its last writes."""
    play = refused_one(30)
    event = play.state.ending
    assert isinstance(event, Repairing)
    entry = stored(play)
    assert not is_behind(entry, event)
    assert not is_behind(entry, None)
    assert is_behind(entry, replace(event, round=event.round + 1))
