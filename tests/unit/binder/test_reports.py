"""What decisions show, and that showing them again writes nothing."""

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from services.core.decisions import (
    Assignment,
    Committed,
    Decision,
    DecisionEvent,
    Degraded,
    DegradedPolicy,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Waiting,
)
from services.core.objects import GangId, NodeName, Owner, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_reports import (
    MAX_MESSAGE_CHARACTERS,
    ConditionWrite,
    changed_conditions,
    controllers_of,
    event_name,
    report_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHORT = Reason(code=ReasonCode.INSUFFICIENT_RESOURCE, message="no GPU", count=3, subject="nvidia.com/gpu")
ONE = (Assignment(pod="a", uid=Uid("u"), node=NodeName("n")),)


def decided(event: DecisionEvent) -> Decision:
    """A decision about one gang."""
    return Decision(gang=GangId("podgroup/a/train"), event=event, decided_at=NOW, transaction=TransactionId("t"))


def waiting(*reasons: Reason) -> Waiting:
    """The gang waits for these reasons."""
    return Waiting(revision=5, min_count=4, existing=4, placeable=0, reasons=reasons)


def test_proposals_show_nothing() -> None:
    """Nothing has happened yet."""
    assert report_of(decided(Proposed(revision=1, deadline=NOW, min_count=1, assignments=ONE))) is None


def test_waiting_shows_the_same_words_everywhere() -> None:
    """Member, group and event agree; the group's True is never taken back."""
    report = report_of(decided(waiting(SHORT)))
    assert report is not None
    assert report.of_members == ConditionWrite(
        type="PodScheduled", is_true=False, reason="Unschedulable", message="no GPU"
    )
    assert [(one.type, one.is_true, one.never_from_true) for one in report.of_group] == [
        ("PodGroupInitiallyScheduled", False, True)
    ]
    assert (report.event.reason, report.event.is_warning) == ("InsufficientResource", True)
    assert report.revision == 5


def test_node_autoscalers_are_woken_only_where_nodes_would_help() -> None:
    """A gang that lacks members says so in another word than Unschedulable."""
    missing = Reason(code=ReasonCode.MEMBERS_MISSING, message="1 of the 4 needed pods exist", count=3)
    report = report_of(decided(waiting(missing)))
    assert report is not None
    assert report.of_members is not None
    assert report.of_members.reason == "MembersMissing"
    assert report.of_group[0].reason == "Unschedulable"


def test_equal_codes_are_the_same_event() -> None:
    """New numbers are no news; another resource is."""
    first = report_of(decided(waiting(SHORT)))
    again = report_of(decided(waiting(replace(SHORT, count=9, message="still no GPU"))))
    other = report_of(decided(waiting(replace(SHORT, subject="cpu"))))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.event.key == again.event.key != other.event.key


def test_each_ending_has_its_conditions() -> None:
    """Committed is True after a commit, else False; Repairing is withdrawn only where it was set."""
    committed = report_of(decided(Committed(members=ONE, repaired=1, accepted=1, open=2)))
    assert committed is not None
    assert [(one.type, one.is_true) for one in committed.of_group] == [
        ("PodGroupInitiallyScheduled", True),
        ("phalanx.dev/Committed", True),
        ("phalanx.dev/Repairing", False),
        ("phalanx.dev/Degraded", False),
    ]
    assert all(one.only_if_present for one in committed.of_group[2:])
    assert committed.event.message == "1 pods are bound (1 repaired, 1 bound by others, 2 still open)"
    for event in (Refused(reasons=(SHORT,)), RolledBack(reasons=(SHORT,))):
        failed = report_of(decided(event))
        assert failed is not None
        assert (failed.of_group[0].type, failed.of_group[0].is_true) == ("phalanx.dev/Committed", False)
        assert failed.event.is_warning


def test_repairing_says_how_many_of_how_many() -> None:
    """With the reason of the first open member."""
    open_member = OpenMember(pod="b", uid=Uid("v"), reason=SHORT)
    report = report_of(decided(Repairing(round=0, bound=ONE, open=(open_member,), until=NOW, min_count=2)))
    assert report is not None
    assert report.of_group[0].message == "Repairing, 1 of 2: no GPU"
    bare = report_of(decided(Repairing(round=1, bound=ONE, open=(), until=NOW, min_count=2)))
    assert bare is not None
    assert (bare.of_group[0].reason, bare.of_group[0].message) == ("Repairing", "Repairing, 1 of 2")


def test_long_messages_are_cut() -> None:
    """Events take no more."""
    report = report_of(decided(waiting(Reason(code=ReasonCode.NO_NODES, message="x" * 5000))))
    assert report is not None
    assert len(report.event.message) == MAX_MESSAGE_CHARACTERS


class TestChangedConditions:
    """Only differences are written."""

    WANTED = ConditionWrite(type="A", is_true=True, reason="R", message="m")

    def test_a_missing_one_is_added(self) -> None:
        """With the present moment as its transition."""
        assert changed_conditions([self.WANTED], present=[], now="now") == (
            {"type": "A", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "now"},
        )

    def test_an_equal_one_is_left(self) -> None:
        """Written twice is written once."""
        first = changed_conditions([self.WANTED], present=[], now="now")
        assert changed_conditions([self.WANTED], present=first, now="later") == ()

    def test_a_new_message_is_no_transition(self) -> None:
        """The moment stays that of the status."""
        present = [{"type": "A", "status": "True", "reason": "R", "message": "old", "lastTransitionTime": "then"}]
        (changed,) = changed_conditions([self.WANTED], present=present, now="now")
        assert changed["lastTransitionTime"] == "then"

    def test_true_stays_true_where_it_must(self) -> None:
        """PodGroupInitiallyScheduled never goes back."""
        wanted = ConditionWrite(type="A", is_true=False, reason="R", never_from_true=True)
        assert changed_conditions([wanted], present=[{"type": "A", "status": "True"}], now="now") == ()
        assert changed_conditions([wanted], present=[{"type": "A", "status": "False"}], now="now")

    def test_absent_is_left_absent(self) -> None:
        """A group that was never in repair says nothing about it."""
        wanted = ConditionWrite(type="A", is_true=False, reason="R", only_if_present=True)
        assert changed_conditions([wanted], present=[], now="now") == ()


@given(about=st.text(alphabet="abc.-0", min_size=1, max_size=253), uid=st.uuids())
def test_event_names_fit(about: str, uid: object) -> None:
    """A name of an object gives a name of an event, however long it is."""
    report = report_of(decided(waiting(SHORT)))
    assert report is not None
    name = event_name(report.event, about=f"a{about}", uid=str(uid))
    assert len(name) <= 253
    assert not name.endswith(("-", "."))


def test_controllers_are_told_once() -> None:
    """One Job with many pods; owners that control nothing are left out."""
    job = Owner(kind="Job", name="j", uid=Uid("j"), is_controller=True)
    other = Owner(kind="Workload", name="w", uid=Uid("w"))
    assert controllers_of([job, other, job]) == (job,)


def test_a_degraded_gang_says_until_when_it_goes_first() -> None:
    """What is left and what follows; the same fall is one event, and its end another."""
    lost = Reason(code=ReasonCode.QUORUM_LOST, message="5 of the 8 needed pods are left", count=3)
    event = Degraded(
        revision=9,
        min_count=8,
        placed=5,
        until=datetime(2026, 7, 1, 12, tzinfo=UTC),
        policy=DegradedPolicy.RELEASE,
        reasons=(lost,),
    )
    fallen, over = report_of(decided(event)), report_of(decided(replace(event, is_over=True, placed=8, reasons=())))
    late = Reason(code=ReasonCode.DEGRADED_TOO_LONG, message="it could not be repaired in time")
    kept = report_of(decided(replace(event, reasons=(lost, late))))
    assert fallen is not None
    assert over is not None
    assert kept is not None
    assert [(one.type, one.is_true, one.reason) for one in fallen.of_group] == [
        ("phalanx.dev/Degraded", True, "QuorumLost")
    ]
    assert fallen.event.message == (
        "5 of the 8 needed pods are left; repaired ahead of others until 12:00:00 UTC, then released"
    )
    assert kept.event.message == "5 of the 8 needed pods are left; it could not be repaired in time"
    assert [(one.type, one.is_true) for one in over.of_group] == [("phalanx.dev/Degraded", False)]
    assert over.event.message == "8 of the 8 needed pods are there"
    assert len({fallen.event.key, over.event.key, kept.event.key}) == 3
    assert fallen.event.is_warning
    assert not over.event.is_warning
