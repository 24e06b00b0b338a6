"""Codecs: what they refuse, how events are identified, and that reasons are one list."""

from dataclasses import replace
from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from services.contracts.cluster_codec import (
    UndecodableMessage,
    change_id,
    change_type,
    decode_change,
    encode_change,
)
from services.contracts.decision_codec import decision_id, decode_decision, decode_reasons
from services.contracts.pb.cluster.v1 import cluster_pb2
from services.contracts.pb.placement.v1 import decision_pb2, reason_pb2
from services.contracts.timestamps import (
    TimeOutOfRange,
    from_duration,
    from_timestamp,
    to_duration,
    to_timestamp,
)
from services.core.decisions import Committed, Decision, DecisionEvent, Proposed, Refused, Repairing, Waiting
from services.core.objects import EPOCH_START, Applied, GangId, Kind, TransactionId, WatchPhase
from services.core.reasons import ReasonCode
from tests.builders import START, applied, deleted, node, pod, watch


def decision(event: DecisionEvent, *, decided_after_s: float = 0) -> Decision:
    """A decision of transaction t1 about one gang."""
    return Decision(
        gang=GangId("podgroup/team-a/train"),
        event=event,
        decided_at=START + timedelta(seconds=decided_after_s),
        transaction=TransactionId("t1"),
    )


def waiting(*, revision: int = 7) -> Waiting:
    """A waiting gang."""
    return Waiting(revision=revision, min_count=2, existing=2, placeable=1, reasons=())


def proposed(*, round_number: int) -> Proposed:
    """A proposal in that round."""
    return Proposed(revision=7, deadline=START, min_count=2, assignments=(), round=round_number)


def repairing(*, round_number: int) -> Repairing:
    """A repair in that round."""
    return Repairing(round=round_number, bound=(), open=(), until=START, min_count=2)


class TestIdentity:
    """The id tells a repetition from news."""

    def test_a_version_of_an_object_is_one_event(self) -> None:
        """The uid and the version name it, whoever publishes it."""
        assert change_id(applied(pod("a", version="7"))) == "uid-team-a-a/7"
        assert change_id(applied(pod("a", version="8"))) == "uid-team-a-a/8"

    def test_a_deletion_happens_once(self) -> None:
        """A tombstone's id names no version: two watchers may see different last ones."""
        assert change_id(deleted(pod("a", version="7"))) == change_id(deleted(pod("a", version="9")))

    def test_a_watch_state_is_named_by_what_it_says(self) -> None:
        """It has neither uid nor version."""
        listing, synced = watch(Kind.POD, phase=WatchPhase.LISTING), watch(Kind.POD, resource_version="9")
        ids = {change_id(Applied(object=state)) for state in (listing, synced, replace(synced, resource_version="10"))}
        assert len(ids) == 3

    def test_the_type_names_kind_and_fate(self) -> None:
        """Consumers route by it."""
        assert change_type(applied(node())) == "phalanx.cluster.v1.node.applied"
        assert change_type(deleted(node())) == "phalanx.cluster.v1.node.deleted"

    @pytest.mark.parametrize(
        ("left", "right", "are_same"),
        [
            pytest.param(proposed(round_number=0), proposed(round_number=0), True, id="repeated"),
            pytest.param(proposed(round_number=0), proposed(round_number=1), False, id="next round"),
            pytest.param(repairing(round_number=0), repairing(round_number=1), False, id="next repair"),
            pytest.param(Committed(members=()), Refused(reasons=()), False, id="other event"),
            pytest.param(waiting(), waiting(revision=8), False, id="waits for something else"),
        ],
    )
    def test_a_decision_is_one_event(self, *, left: DecisionEvent, right: DecisionEvent, are_same: bool) -> None:
        """Repeated it has the same id, and each round has its own."""
        assert (decision_id(decision(left)) == decision_id(decision(right))) is are_same

    def test_two_waits_at_different_times_are_two_events(self) -> None:
        """A gang may wait again for the same reason at the same revision, after something else happened."""
        first, second = decision(waiting()), decision(waiting(), decided_after_s=1)
        assert decision_id(first) != decision_id(second)


class TestRefusal:
    """Messages that are damaged, or newer than this release."""

    def test_bytes_that_are_no_message(self) -> None:
        """The error names the expected type and kind."""
        with pytest.raises(UndecodableMessage, match=r"phalanx\.cluster\.v1\.ClusterEvent of kind pod"):
            decode_change(Kind.POD, b"\xff\xff")
        with pytest.raises(UndecodableMessage, match=r"phalanx\.placement\.v1\.Decision"):
            decode_decision(b"\xff\xff")

    def test_an_event_without_object(self) -> None:
        """Neither an object nor a deletion: a newer release may know what it is, we do not."""
        with pytest.raises(UndecodableMessage, match="neither an object nor a deletion"):
            decode_change(Kind.POD, b"")
        with pytest.raises(UndecodableMessage, match="no event that this release knows"):
            decode_decision(decision_pb2.Decision(gang="podgroup/a/b").SerializeToString())

    def test_unknown_values_of_enums(self) -> None:
        """A code, phase or kind that this release does not know is never taken for another."""
        with pytest.raises(UndecodableMessage, match="unknown reason code 0"):
            decode_reasons([reason_pb2.Reason(message="?")])
        state = cluster_pb2.ClusterEvent(watch_state=cluster_pb2.WatchState(kind="pod"))
        with pytest.raises(UndecodableMessage, match="unknown watch phase 0"):
            decode_change(Kind.WATCH, state.SerializeToString())
        device = cluster_pb2.ClusterEvent(device_object=cluster_pb2.DeviceObject(kind="Toaster"))
        with pytest.raises(UndecodableMessage, match="unknown device object kind 'Toaster'"):
            decode_change(Kind.DEVICE_CLASS, device.SerializeToString())

    def test_fields_of_a_newer_release_are_passed_over(self) -> None:
        """Schemas only grow: what is known is read, what is new is ignored."""
        change = applied(pod("a"))
        # Field 2000, a varint: no release has used it.
        assert decode_change(Kind.POD, encode_change(change) + b"\x80\x7d\x01") == change

    def test_times_that_no_calendar_holds(self) -> None:
        """They are refused as such, in both directions of time."""
        for seconds in (2**60, -(2**60)):
            with pytest.raises(TimeOutOfRange, match="between the years 1 and 9999"):
                from_timestamp(Timestamp(seconds=seconds))
            with pytest.raises(TimeOutOfRange, match="at most 999999999 days"):
                from_duration(Duration(seconds=seconds))


@pytest.mark.parametrize("moment", [EPOCH_START, START, EPOCH_START - timedelta(microseconds=1)])
def test_times_survive_to_the_microsecond(*, moment: object) -> None:
    """Also before 1970."""
    assert isinstance(moment, type(START))
    assert from_timestamp(to_timestamp(moment)) == moment


def test_durations_survive_to_the_microsecond() -> None:
    """Long and short ones."""
    for span in (timedelta(0), timedelta(microseconds=1), timedelta(days=14, microseconds=999_999)):
        assert from_duration(to_duration(span)) == span


def test_reasons_are_one_list() -> None:
    """The core's codes are those of the .proto file, without its prefix and in CamelCase."""
    prefix = "REASON_CODE_"
    written = {name.removeprefix(prefix) for name in reason_pb2.ReasonCode.keys() if name != f"{prefix}UNSPECIFIED"}  # noqa: SIM118 - no dict
    assert {code.name for code in ReasonCode} == written
    assert all(code.value == code.name.title().replace("_", "") for code in ReasonCode)
