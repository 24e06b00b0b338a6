"""Stored messages are still understood, and what is published now is the same to the byte."""

import pytest

from services.contracts.cloudevents import attributes_of, headers
from services.contracts.cluster_codec import (
    change_id,
    change_subject,
    change_type,
    decode_change,
    encode_change,
)
from services.contracts.decision_codec import (
    EVENTS,
    decision_id,
    decision_subject,
    decision_type,
    decode_decision,
    encode_decision,
)
from services.contracts.scaling_codec import (
    SCALING_EVENTS,
    decode_scaling,
    encode_scaling,
    scaling_decision_id,
    scaling_decision_subject,
    scaling_decision_type,
)
from services.contracts.subjects import CLUSTER, PLACEMENT, SCALING
from services.core.objects import Kind
from tests.contract.messages.examples import CHANGES, DECISIONS
from tests.contract.messages.record import HOW, StoredMessage, examples, stored
from tests.contract.messages.scaling_examples import SCALINGS


@pytest.mark.parametrize("message", [pytest.param(one, id=one.name) for one in stored()])
def test_a_stored_message_is_understood(message: StoredMessage) -> None:
    """Its body decodes, the same value encodes to the same bytes, and subject, type and id follow from it."""
    attributes = attributes_of(message.headers)
    if message.subject.startswith(CLUSTER):
        change = decode_change(Kind(message.subject.split(".")[3]), message.body)
        assert encode_change(change) == message.body
        derived = (change_subject(change), change_type(change), change_id(change))
    elif message.subject.startswith(SCALING):
        scaling = decode_scaling(message.body)
        assert encode_scaling(scaling) == message.body
        derived = (scaling_decision_subject(scaling), scaling_decision_type(scaling), scaling_decision_id(scaling))
    else:
        assert message.subject.startswith(PLACEMENT)
        decision = decode_decision(message.body)
        assert encode_decision(decision) == message.body
        derived = (decision_subject(decision), decision_type(decision), decision_id(decision))
    assert derived == (message.subject, attributes.type, attributes.id)
    assert headers(attributes) == message.headers


@pytest.mark.parametrize("example", [pytest.param(one, id=one.name) for one in examples()])
def test_an_example_is_stored_as_it_is_published(example: StoredMessage) -> None:
    """Subject, headers and bytes are those that were stored when the message first existed."""
    if not example.path.exists():
        pytest.fail(f"{example.name} is not stored yet: {HOW}")
    (kept,) = (one for one in stored() if one.name == example.name)
    assert kept == example


@pytest.mark.parametrize("message", [pytest.param(one, id=one.name) for one in stored()])
def test_a_stored_message_means_what_its_example_says(message: StoredMessage) -> None:
    """Every field keeps its value; a message without an example is from before and only has to decode."""
    if message.name in CHANGES:
        change = CHANGES[message.name]
        assert decode_change(change.kind, message.body) == change
    elif message.name in DECISIONS:
        assert decode_decision(message.body) == DECISIONS[message.name]
    elif message.name in SCALINGS:
        assert decode_scaling(message.body) == SCALINGS[message.name]


def test_every_message_type_has_an_example() -> None:
    """All kinds of the cluster stream, a tombstone, and all events of the streams of decisions."""
    applied = {message.headers["ce-type"] for message in examples()}
    assert applied == (
        {f"{CLUSTER}.{kind.value}.applied" for kind in Kind}
        | {f"{CLUSTER}.pod.deleted"}
        | {f"{PLACEMENT}.{event}" for event in EVENTS.values()}
        | {f"{SCALING}.{event}" for event in SCALING_EVENTS.values()}
    )
