"""The rules of election, one at a time, in virtual time."""

from dataclasses import replace

from services.runtime.election import (
    Acquire,
    Candidacy,
    Holder,
    Look,
    Overtaken,
    Renew,
    Seen,
    Stored,
    Terms,
    Unanswered,
    Vacant,
    due,
    handle,
    step,
)

TERMS = Terms(ttl_s=5, renew_every_s=1.5, margin_s=1, look_every_s=0.5, retry_after_s=0.25)
FRESH = Candidacy(candidate="me", terms=TERMS)
OTHER = Holder(candidate="other", instance="placer-2", epoch=3, revision=9)


def leader(*, at_s: float = 0.0) -> Candidacy:
    """A candidate that acquired the key at a moment, with revision 7."""
    state = handle(FRESH, Seen(key=Vacant(revision=6)), now_s=at_s)
    return handle(state, Stored(revision=7, sent_at_s=at_s), now_s=at_s)


def test_it_looks_first() -> None:
    """What the key is has to be known before anything is written."""
    assert step(FRESH, now_s=0)[1] == Look()


def test_a_vacant_key_is_acquired_over_the_revision_that_was_seen() -> None:
    """Also over the marker that an expired key leaves."""
    state = handle(FRESH, Seen(key=Vacant(revision=6)), now_s=0)
    assert step(state, now_s=0)[1] == Acquire(expected=6)


def test_the_epoch_is_the_revision_that_acquired_it() -> None:
    """Renewals have revisions of their own, and keep it."""
    state = leader()
    assert (state.epoch_at(0), due(state)) == (7, 1.5)
    state, instruction = step(state, now_s=1.5)
    assert instruction == Renew(expected=7, epoch=7)
    state = handle(state, Stored(revision=12, sent_at_s=1.5), now_s=1.6)
    assert (state.epoch_at(2), state.revision) == (7, 12)


def test_it_stops_before_the_key_can_expire() -> None:
    """Time counts from when the last stored write was sent, less a margin."""
    state = leader()
    assert state.epoch_at(3.99) == 7
    assert state.epoch_at(4.0) is None


def test_an_answer_that_comes_too_late_acquires_nothing() -> None:
    """The key may be about to expire: it is looked at again."""
    state = handle(FRESH, Seen(key=Vacant(revision=6)), now_s=0)
    state = handle(state, Stored(revision=7, sent_at_s=0), now_s=4.5)
    assert state.epoch_at(4.5) is None
    assert step(state, now_s=4.5)[1] == Look()


def test_a_standby_looks_now_and_then() -> None:
    """While another holds the key, nothing is written."""
    state = handle(FRESH, Seen(key=OTHER), now_s=0)
    assert (state.leader, due(state)) == ("placer-2", 0.5)
    assert step(state, now_s=0.4)[1] is None
    assert step(state, now_s=0.5)[1] == Look()


def test_a_lost_answer_to_a_renewal_is_looked_up() -> None:
    """The write was stored: it goes on from there, and is not prolonged by a write whose time is unknown."""
    state = handle(leader(), Unanswered(), now_s=2.5)
    state, instruction = step(state, now_s=2.75)
    assert instruction == Look()
    mine = Holder(candidate="me", instance="placer-1", epoch=7, revision=8)
    state = handle(state, Seen(key=mine), now_s=2.8)
    assert (state.epoch_at(2.8), state.until_s) == (7, 4.0)
    assert step(state, now_s=2.8)[1] == Renew(expected=8, epoch=7)


def test_who_finds_the_key_in_other_hands_stands_down() -> None:
    """Somebody may have deleted the key by hand, and another took it."""
    state = handle(leader(), Overtaken(), now_s=1.6)
    assert step(state, now_s=1.6)[1] == Look()
    state = handle(state, Seen(key=OTHER), now_s=1.6)
    assert (state.epoch_at(1.6), state.leader) == (None, "placer-2")


def test_its_own_key_is_acquired_again_under_a_new_epoch() -> None:
    """What was begun under the former epoch has been given up."""
    mine = Holder(candidate="me", instance="placer-1", epoch=7, revision=8)
    state = handle(step(leader(), now_s=4.2)[0], Seen(key=mine), now_s=4.2)
    assert step(state, now_s=4.2)[1] == Acquire(expected=8)
    state = handle(state, Stored(revision=9, sent_at_s=4.2), now_s=4.3)
    assert state.epoch_at(4.3) == 9


def test_who_wakes_too_late_does_not_renew() -> None:
    """A process that was paused stands down first."""
    state, instruction = step(leader(), now_s=60)
    assert (state.epoch, instruction) == (None, Look())


def test_losing_the_race_for_a_vacant_key_is_looked_up_at_once() -> None:
    """The other's name is shown without delay."""
    state = handle(replace(FRESH, vacancy=6), Overtaken(), now_s=1)
    assert step(state, now_s=1)[1] == Look()
