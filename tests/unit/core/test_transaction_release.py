"""A release: what is left of a degraded gang is taken back, whoever bound it, and nothing is bound."""

from dataclasses import replace
from datetime import timedelta

from services.core.decisions import Refused, RolledBack
from services.core.objects import NodeName, Uid
from services.core.reasons import ReasonCode
from services.core.transaction_state import Step
from services.core.transaction_values import Examine, Found, Publish, Reading, Removal, Removed, Undo
from tests.unit.core.test_transaction import Play, event_of, proposal

LEFT = Reading(found=Found.ELSEWHERE, node=NodeName("n1"), version="7")
RELEASE = replace(proposal("a", "b", "c", min_count=4), is_release=True)


def test_what_is_left_is_taken_back_whoever_bound_it() -> None:
    """Read first; those that are gone or have finished need nothing; each is named in the end."""
    play = Play(RELEASE)
    assert isinstance(play.last, Examine)
    readings = {"a": LEFT, "b": replace(LEFT, is_finished=True), "c": Reading(found=Found.GONE)}
    undo = play.examined(readings)
    assert isinstance(undo, Undo)
    assert [one.uid for one in undo.targets] == ["u-a"]
    assert play.state.phase.value == "undoing"
    event = event_of(play.send(Removed(removals={Uid("u-a"): Removal.DELETED})))
    assert isinstance(event, RolledBack)
    assert [one.pod for one in event.undone] == ["a"]
    assert [reason.code for reason in event.reasons] == [ReasonCode.DEGRADED_TOO_LONG]


def test_a_gang_that_has_recovered_is_left_alone() -> None:
    """Others fill the quorum by now."""
    play = Play(RELEASE)
    event = event_of(play.examined(dict.fromkeys("abc", LEFT), beside=1))
    assert isinstance(event, Refused)
    assert event.reasons[0].message == "4 of the 4 needed pods are there again"


def test_pods_that_nobody_would_recreate_stay() -> None:
    """Also where the placer thought otherwise; nothing of the gang is taken back then, and nothing is waited for."""
    play = Play(RELEASE)
    event = event_of(play.examined({"a": LEFT, "b": replace(LEFT, has_controller=False), "c": LEFT}))
    assert isinstance(event, Refused)
    assert [reason.code for reason in event.reasons] == [ReasonCode.KEPT_WITHOUT_CONTROLLER]


def test_a_successor_goes_on_releasing() -> None:
    """It reads what is left, and takes that back."""
    play = Play(RELEASE, is_resumed=True)
    undo = play.examined({"a": Reading(found=Found.GONE), "b": LEFT, "c": LEFT})
    assert isinstance(undo, Undo)
    assert [one.uid for one in undo.targets] == ["u-b", "u-c"]


def test_one_that_could_not_begin_in_time_is_refused() -> None:
    """The API server does not answer until the deadline is over."""
    play = Play(RELEASE)
    assert isinstance(play.later(timedelta(minutes=2).total_seconds()), Publish)
    assert play.state.step is Step.PUBLISHING
    assert isinstance(play.state.ending, Refused)
