"""Codecs: whatever the core can say arrives as it was said, and damaged bytes are refused as such."""

from hypothesis import given
from hypothesis import strategies as st

from services.contracts.cluster_codec import UndecodableMessage, decode_change, encode_change
from services.contracts.decision_codec import decode_decision, encode_decision
from services.core.decisions import Decision
from services.core.objects import ClusterChange, Kind
from tests.property.strategies import CHANGES, DECISIONS


@given(change=CHANGES)
def test_a_change_arrives_as_it_was_sent(change: ClusterChange) -> None:
    """Every field of every kind survives, and equal changes are equal bytes."""
    data = encode_change(change)
    decoded = decode_change(change.kind, data)
    assert decoded == change
    assert encode_change(decoded) == data


@given(decision=DECISIONS)
def test_a_decision_arrives_as_it_was_sent(decision: Decision) -> None:
    """Every field of every event survives, and equal decisions are equal bytes."""
    data = encode_decision(decision)
    decoded = decode_decision(data)
    assert decoded == decision
    assert encode_decision(decoded) == data


@given(kind=st.sampled_from(Kind), data=st.binary(max_size=200))
def test_arbitrary_bytes_are_a_change_or_refused(kind: Kind, data: bytes) -> None:
    """A reader meets one exception for what it cannot read, whatever the bytes."""
    try:
        decode_change(kind, data)
    except UndecodableMessage:
        return


@given(change=CHANGES, position=st.integers(0, 400), value=st.integers(0, 255))
def test_a_damaged_change_is_a_change_or_refused(change: ClusterChange, position: int, value: int) -> None:
    """One byte that was altered on the way never reaches the caller as another kind of exception."""
    data = bytearray(encode_change(change))
    data[position % len(data)] = value
    try:
        decode_change(change.kind, bytes(data))
    except UndecodableMessage:
        return


@given(decision=DECISIONS, position=st.integers(0, 400), value=st.integers(0, 255))
def test_a_damaged_decision_is_a_decision_or_refused(decision: Decision, position: int, value: int) -> None:
    """As above, for decisions."""
    data = bytearray(encode_decision(decision))
    data[position % len(data)] = value
    try:
        decode_decision(bytes(data))
    except UndecodableMessage:
        return
