"""Dead letters: what they keep, that one message has one letter of each service, and that putting in never waits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from services.contracts.dead_letter_box import MAX_WAITING, PATIENCE_S
from services.contracts.dead_letters import (
    MAX_BODY_BYTES,
    DeadLetter,
    UnreadableLetter,
    decode_letter,
    encode_letter,
    letter_headers,
    letter_of,
    retry_headers,
)
from services.contracts.streams import DEAD_LETTERS_STREAM
from services.runtime.bus import Message
from tests.builders import START
from tests.fakes.bus import FakeBus
from tests.fakes.clock import FakeClock
from tests.fakes.letters import letter_box

HEADERS = {"ce-id": "1", "Nats-Msg-Id": "1", "Nats-Expected-Last-Subject-Sequence": "3", "traceparent": "00-a-b-01"}
BAD = Message(subject="phalanx.placement.v1.pod.a.b.proposed", data=b"\xff\x00", headers=HEADERS, sequence=7)


def a_letter(message: Message = BAD) -> DeadLetter:
    """A letter of the binder."""
    return letter_of(message, service="binder", instance="b-1", stream="PHALANX_PLACEMENT", problem="no", at=START)


def stored(bus: FakeBus) -> list[DeadLetter]:
    """The letters on the bus."""
    return [decode_letter(message.data) for message in bus.stored(DEAD_LETTERS_STREAM.name)]


class Boxes:
    """Boxes over one bus."""

    def __init__(self) -> None:
        self.bus = FakeBus()
        self.clock = FakeClock(start=START)
        self.registry = CollectorRegistry()
        self.box = letter_box(self.bus, service="binder", clock=self.clock, registry=self.registry)

    def put(self, message: Message = BAD, *, problem: str = "no") -> None:
        """Put a message in."""
        self.box.put(message, stream="PHALANX_PLACEMENT", problem=problem)

    def count(self, name: str, **labels: str) -> float:
        """A metric's value."""
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def boxes() -> AsyncIterator[Boxes]:
    """A box that is being emptied."""
    found = Boxes()
    running = asyncio.create_task(found.box.run())
    yield found
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def test_a_letter_keeps_everything() -> None:
    """The same after a way over the bus."""
    letter = a_letter()
    assert decode_letter(encode_letter(letter)) == letter
    assert (letter.id, letter.body, dict(letter.headers)) == ("binder/PHALANX_PLACEMENT/7", b"\xff\x00", HEADERS)
    assert letter_headers(letter)["ce-id"] == "binder/PHALANX_PLACEMENT/7/1"


def test_what_is_too_large_is_told_without_its_body() -> None:
    """A letter always fits: the server takes twice as much as we publish."""
    letter = a_letter(Message(subject="s", data=b"x" * (MAX_BODY_BYTES + 1), headers={}, sequence=1))
    assert letter.is_body_omitted
    assert letter.body == b""
    full = a_letter(Message(subject="s", data=b"x" * (MAX_BODY_BYTES - 9), headers={"a": ""}, sequence=1))
    assert not full.is_body_omitted
    assert len(encode_letter(full)) < 8 * 2**20


def test_what_is_no_text_is_told_all_the_same() -> None:
    """Headers and errors of others may hold what UTF-8 has no form for."""
    message = Message(subject="s", data=b"", headers={"a": "\udcff"}, sequence=1)
    letter = letter_of(message, service="x", instance="y", stream="z", problem="\udcff" * 2000, at=START)
    assert decode_letter(encode_letter(letter)) == letter
    assert len(letter.problem) == 1000


def test_orders_to_the_server_are_not_repeated() -> None:
    """They were about the first delivery; a new message id keeps a second retry from being stored twice."""
    assert retry_headers(a_letter()) == {
        "ce-id": "1", "traceparent": "00-a-b-01", "Nats-Msg-Id": "PHALANX_PLACEMENT/7/again",
    }  # fmt: skip


def test_bytes_that_are_no_letter() -> None:
    """Are told as such."""
    with pytest.raises(UnreadableLetter, match="expected a phalanx"):
        decode_letter(b"\xff")


async def test_a_message_has_one_letter_however_often_it_is_met(boxes: Boxes) -> None:
    """It is counted up, and says when it was met first and last, and what is wrong now."""
    boxes.put()
    await boxes.box.emptied()
    boxes.clock.advance(60)
    boxes.put(problem="still no")
    await boxes.box.emptied()
    (letter,) = stored(boxes.bus)
    assert (letter.count, letter.problem) == (2, "still no")
    assert (letter.last_at - letter.first_at).total_seconds() == 60
    assert boxes.count("phalanx_dead_letters_total", stream="PHALANX_PLACEMENT") == 2


async def test_two_processes_count_one_letter_up(boxes: Boxes) -> None:
    """Whoever loses the race reads again."""
    other = letter_box(boxes.bus, service="binder", clock=boxes.clock)
    running = asyncio.create_task(other.run())
    for _ in range(5):
        boxes.put()
        other.put(BAD, stream="PHALANX_PLACEMENT", problem="no")
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        emptying = [group.create_task(box.emptied()) for box in (boxes.box, other)]
        while not all(task.done() for task in emptying):
            await boxes.clock.run_for(1)
    running.cancel()
    (letter,) = stored(boxes.bus)
    assert letter.count == 10


async def test_what_somebody_else_wrote_there_is_replaced(boxes: Boxes) -> None:
    """A letter that cannot be read stops nobody."""
    boxes.bus.write("phalanx.deadletter.v1.binder.PHALANX_PLACEMENT.7", data=b"\xff")
    boxes.put()
    await boxes.box.emptied()
    assert [letter.count for letter in stored(boxes.bus)] == [1]


async def test_an_outage_is_waited_for(boxes: Boxes) -> None:
    """The letter is stored when the bus is back."""
    boxes.bus.stop()
    boxes.put()
    await boxes.clock.run_for(10)
    assert stored(boxes.bus) == []
    boxes.bus.restart()
    await boxes.clock.run_for(10)
    await boxes.box.emptied()
    assert len(stored(boxes.bus)) == 1


async def test_the_box_is_bounded() -> None:
    """What does not fit is dropped and counted, and putting in never waits."""
    full = Boxes()
    for number in range(MAX_WAITING + 3):
        full.put(Message(subject="s", data=b"", headers={}, sequence=number + 1))
    assert full.count("phalanx_dead_letters_dropped_total") == 3


async def test_one_that_is_never_taken_holds_up_no_others(boxes: Boxes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is dropped and counted after a while, and the next one is stored."""
    assert PATIENCE_S > 60
    monkeypatch.setattr("services.contracts.dead_letter_box.PATIENCE_S", 0.0)
    boxes.bus.stop()
    boxes.put()
    await boxes.box.emptied()
    boxes.bus.restart()
    boxes.put(Message(subject="s", data=b"", headers={}, sequence=8))
    await boxes.box.emptied()
    assert [letter.sequence for letter in stored(boxes.bus)] == [8]
    assert boxes.count("phalanx_dead_letters_dropped_total") == 1
