"""CloudEvents in binary mode: what the headers say, and what is refused."""

from datetime import timedelta, timezone

import pytest

from services.contracts.cloudevents import (
    MAX_SUBJECT_LENGTH,
    EventAttributes,
    NotACloudEvent,
    attributes_of,
    headers,
)
from tests.builders import START

ATTRIBUTES = EventAttributes(
    id="u1/7", source="/phalanx/watcher/w1", type="phalanx.cluster.v1.pod.applied", subject="s", time=START
)


def test_the_headers_of_the_specification() -> None:
    """Attributes are prefixed, the time is UTC, and the server is given the id too."""
    assert headers(ATTRIBUTES) == {
        "ce-specversion": "1.0",
        "ce-id": "u1/7",
        "ce-source": "/phalanx/watcher/w1",
        "ce-type": "phalanx.cluster.v1.pod.applied",
        "ce-subject": "s",
        "ce-time": "2026-07-01T12:00:00.000000Z",
        "content-type": "application/protobuf",
        "Nats-Msg-Id": "u1/7",
    }


def test_attributes_survive() -> None:
    """Names of headers compare without case, as intermediaries may change it."""
    shouted = {name.upper(): value for name, value in headers(ATTRIBUTES).items()}
    assert attributes_of(headers(ATTRIBUTES)) == attributes_of(shouted) == ATTRIBUTES


def test_times_are_told_in_utc() -> None:
    """The same moment from another zone gives the same header."""
    elsewhere = EventAttributes(
        id="i", source="s", type="t", subject="", time=START.astimezone(timezone(timedelta(hours=5)))
    )
    assert headers(elsewhere)["ce-time"] == "2026-07-01T12:00:00.000000Z"


def test_long_subjects_are_cut() -> None:
    """A header has a limit on the server; the subject is for people."""
    long = EventAttributes(id="i", source="s", type="t", subject="x" * 5000, time=START)
    assert len(headers(long)["ce-subject"]) == MAX_SUBJECT_LENGTH


@pytest.mark.parametrize("name", ["ce-specversion", "ce-id", "ce-source", "ce-type"])
def test_a_missing_attribute_is_named(name: str) -> None:
    """Without it the message is not one of ours."""
    given = headers(ATTRIBUTES)
    del given[name]
    with pytest.raises(NotACloudEvent, match=f"expected the headers {name} "):
        attributes_of(given)


def test_no_headers_at_all() -> None:
    """Somebody published by hand."""
    with pytest.raises(NotACloudEvent, match="ce-specversion, ce-id, ce-source, ce-type"):
        attributes_of(None)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param("ce-specversion", "0.3", r"expected ce-specversion 1\.0, got '0\.3'", id="version"),
        pytest.param("ce-time", "yesterday", "expected an RFC 3339 time in ce-time, got 'yesterday'", id="time"),
    ],
)
def test_a_bad_attribute_is_named(*, name: str, value: str, message: str) -> None:
    """What was given and what is expected."""
    with pytest.raises(NotACloudEvent, match=message):
        attributes_of(headers(ATTRIBUTES) | {name: value})
