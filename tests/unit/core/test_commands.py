"""Commands take effect once, however often and in whatever order they are delivered."""

import pytest

from services.core.commands import (
    MAX_REPLICAS,
    AddReplicas,
    ConflictingCommands,
    Evict,
    EvictionTarget,
    EvictionWrite,
    MalformedRecord,
    Record,
    ScaleTarget,
    ScaleWrite,
    SetReplicas,
    Skip,
    SkipReason,
    decide_eviction,
    decide_scale,
    parse_record,
)
from services.core.objects import Uid

WORKER = Uid("worker-1")


def target(*, replicas: int = 1, record: str = "", uid: Uid = WORKER) -> ScaleTarget:
    """A scalable object as it was read."""
    return ScaleTarget(uid=uid, replicas=replicas, record=record)


def add(count: int, *, sequence: int = 70, command_id: str = "m-7") -> AddReplicas:
    """A relative step."""
    return AddReplicas(id=command_id, sequence=sequence, uid=WORKER, count=count)


def set_to(replicas: int, *, sequence: int = 70, command_id: str = "m-7") -> SetReplicas:
    """An absolute one."""
    return SetReplicas(id=command_id, sequence=sequence, uid=WORKER, replicas=replicas)


def test_a_step_and_its_record_are_one_write() -> None:
    """The first delivery changes the number and says who did."""
    write = decide_scale(add(1), target=target())
    assert write == ScaleWrite(replicas=2, record=Record(sequence=70, id="m-7"))


def test_a_redelivered_step_is_skipped() -> None:
    """The record on the object stops the second delivery, whoever handles it."""
    assert decide_scale(add(1), target=target(replicas=2, record="70/m-7")) == Skip(reason=SkipReason.ALREADY_APPLIED)


def test_an_overtaken_command_is_skipped() -> None:
    """A late command with a smaller sequence does not undo a newer one."""
    late = set_to(5, sequence=60, command_id="m-6")
    assert decide_scale(late, target=target(replicas=2, record="70/m-7")) == Skip(reason=SkipReason.SUPERSEDED)


def test_two_commands_with_one_sequence_are_a_fault() -> None:
    """Neither may win silently; the error names both."""
    with pytest.raises(ConflictingCommands, match="m-7 and m-8 both have sequence 70"):
        decide_scale(add(1, command_id="m-8"), target=target(record="70/m-7"))


def test_a_command_never_reaches_the_successor() -> None:
    """An object that was recreated under the name is another one."""
    found = decide_scale(add(1), target=target(uid=Uid("worker-2")))
    assert found == Skip(reason=SkipReason.TARGET_REPLACED)


def test_a_command_for_a_deleted_object_ends() -> None:
    """Without a target there is nothing to wait for."""
    assert decide_scale(add(1), target=None) == Skip(reason=SkipReason.TARGET_GONE)


@pytest.mark.parametrize(
    ("command", "replicas"),
    [(add(-5), 0), (add(MAX_REPLICAS), MAX_REPLICAS), (set_to(-1), 0), (set_to(MAX_REPLICAS + 1), MAX_REPLICAS)],
)
def test_replicas_stay_in_the_range_of_the_api(command: AddReplicas | SetReplicas, replicas: int) -> None:
    """A step below zero or beyond 32 bits stops at the bound."""
    write = decide_scale(command, target=target())
    assert isinstance(write, ScaleWrite)
    assert write.replicas == replicas


@pytest.mark.parametrize("text", ["70", "m-7", "70/", "/m-7", "-1/m-7", "70/m 7", "70/" + "x" * 254])
def test_a_strange_record_stops_everything(text: str) -> None:
    """An annotation that cannot be read is not the same as none."""
    with pytest.raises(MalformedRecord, match="expected <sequence>/<id>"):
        decide_scale(add(1), target=target(record=text))


def test_a_record_reads_back() -> None:
    """What is written is what is read."""
    assert parse_record(Record(sequence=70, id="m-7").text()) == Record(sequence=70, id="m-7")
    assert parse_record("") is None


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (EvictionTarget(uid=Uid("v-1")), EvictionWrite(uid=Uid("v-1"))),
        (EvictionTarget(uid=Uid("v-1"), is_terminating=True), Skip(reason=SkipReason.ALREADY_APPLIED)),
        (EvictionTarget(uid=Uid("v-2")), Skip(reason=SkipReason.TARGET_REPLACED)),
        (None, Skip(reason=SkipReason.TARGET_GONE)),
    ],
)
def test_an_eviction_names_the_pod_by_uid(found: EvictionTarget | None, answer: EvictionWrite | Skip) -> None:
    """Only the pod that was meant is evicted, and only once."""
    assert decide_eviction(Evict(id="m-8", uid=Uid("v-1")), target=found) == answer
