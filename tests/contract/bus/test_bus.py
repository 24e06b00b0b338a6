"""What services rely on in the bus, judged on the real one and on its fake."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager

import pytest

from services.contracts.streams import CLUSTER_STREAM, MAX_MESSAGE_BYTES, PLACEMENT_STREAM, SCALING_STREAM
from services.runtime.bus import BusUnavailable, StaleWrite
from tests.contract.bus.sides import AnyBus, Side, fake_side, nats_side, reading

SIDES: Mapping[str, Callable[[], AbstractAsyncContextManager[Side]]] = {"fake": fake_side, "nats": nats_side}
SUBJECT = "phalanx.placement.v1.pod.team-a.w-0.proposed"
OTHER = "phalanx.placement.v1.pod.team-a.w-1.waiting"
NODE = "phalanx.cluster.v1.node._.n1"


@pytest.fixture(params=sorted(SIDES))
async def side(request: pytest.FixtureRequest) -> AsyncIterator[Side]:
    """One of the two sides."""
    async with SIDES[request.param]() as opened:
        yield opened


@pytest.fixture
def bus(side: Side) -> AnyBus:
    """The bus of the side."""
    return side.bus


async def write(bus: AnyBus, subject: str = SUBJECT, text: str = "", *, expected: int | None = None) -> int:
    """Publish a text without headers."""
    return await bus.publish(subject, data=text.encode(), headers={}, expected_sequence=expected)


async def test_sequences_grow(bus: AnyBus) -> None:
    """Each stored message has the next place in its stream, whatever its subject."""
    assert [await write(bus), await write(bus, OTHER), await write(bus)] == [1, 2, 3]


async def test_streams_count_apart(bus: AnyBus) -> None:
    """Another stream has sequences of its own."""
    await write(bus)
    assert await write(bus, NODE) == 1


async def test_first_write_expects_zero(bus: AnyBus) -> None:
    """Zero stands for a subject without a message, also where the stream has others."""
    await write(bus, OTHER)
    assert await write(bus, expected=0) == 2


async def test_write_on_the_known_sequence_succeeds(bus: AnyBus) -> None:
    """The expectation is about the subject, not about the stream."""
    first = await write(bus)
    await write(bus, OTHER)
    assert await write(bus, expected=first) == 3


@pytest.mark.parametrize("expected", [0, 7])
async def test_stale_write_stores_nothing(bus: AnyBus, expected: int) -> None:
    """Who knows another last message than the stream holds is told so."""
    await write(bus, text="theirs")
    with pytest.raises(StaleWrite, match="w-0"):
        await write(bus, text="ours", expected=expected)
    last = await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    assert last is not None
    assert last.data == b"theirs"


async def test_a_pattern_may_be_what_is_expected(bus: AnyBus) -> None:
    """What somebody wrote to a sibling subject refuses the write, until the writer knows of it."""
    pattern, sibling = SUBJECT.replace("proposed", ">"), SUBJECT.replace("proposed", "committed")
    first = await write(bus)
    second = await write(bus, sibling)
    await write(bus, OTHER)
    with pytest.raises(StaleWrite):
        await bus.publish(SUBJECT, data=b"", headers={}, expected_sequence=first, expected_subject=pattern)
    last = await bus.last(PLACEMENT_STREAM.name, subject=pattern)
    assert last is not None
    assert last.sequence == second
    assert await bus.publish(SUBJECT, data=b"", headers={}, expected_sequence=second, expected_subject=pattern) == 4


async def test_of_two_racing_writers_one_wins(bus: AnyBus) -> None:
    """Both expect the same, so exactly one of them writes."""
    answers = await asyncio.gather(
        *(write(bus, text=str(number), expected=0) for number in range(8)), return_exceptions=True
    )
    assert [answer for answer in answers if not isinstance(answer, StaleWrite)] == [1]


async def test_repeated_id_is_stored_once(bus: AnyBus) -> None:
    """The answer to the repetition is the sequence of the first."""
    headers = {"Nats-Msg-Id": "one"}
    first = await bus.publish(SUBJECT, data=b"a", headers=headers)
    assert await bus.publish(SUBJECT, data=b"a", headers=headers) == first
    assert await write(bus) == first + 1


async def test_repetition_after_a_lost_answer_is_a_conflict(bus: AnyBus) -> None:
    """The expectation is looked at before the id, so the writer has to look whose message stands there."""
    headers = {"Nats-Msg-Id": "one"}
    first = await bus.publish(SUBJECT, data=b"a", headers=headers, expected_sequence=0)
    with pytest.raises(StaleWrite):
        await bus.publish(SUBJECT, data=b"a", headers=headers, expected_sequence=0)
    last = await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    assert last is not None
    assert (last.sequence, last.headers["Nats-Msg-Id"]) == (first, "one")


async def test_last_of_a_subject(bus: AnyBus) -> None:
    """The newest message of just this subject, or nothing."""
    assert await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT) is None
    await write(bus, text="old")
    sequence = await write(bus, text="new")
    await write(bus, OTHER)
    last = await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    assert last is not None
    assert (last.subject, last.data, last.sequence) == (SUBJECT, b"new", sequence)


async def test_headers_come_back(bus: AnyBus) -> None:
    """By `last` and by `follow`, with their spelling, and without what the bus added for itself being lost."""
    headers = {
        "ce-id": "20260701T120000-ab/proposed/0",
        "ce-source": "/phalanx/placer/placer-0",
        "ce-time": "2026-07-01T12:00:00.000001Z",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-text": "with spaces: and = signs",
    }
    await bus.publish(SUBJECT, data=b"a", headers=headers, expected_sequence=0)
    last = await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    assert last is not None
    assert headers.items() <= dict(last.headers).items()
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_count(1)
    assert headers.items() <= dict(reader.messages[0].headers).items()


async def test_unknown_stream_is_told(bus: AnyBus, side: Side) -> None:
    """A stream that does not exist is not an empty one."""
    await side.delete_stream(PLACEMENT_STREAM)
    with pytest.raises(BusUnavailable):
        await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    with pytest.raises(BusUnavailable):
        await write(bus)


async def test_follower_waits_for_its_stream(bus: AnyBus, side: Side) -> None:
    """Who follows before the stream exists reads it once it does; nothing was read before, so nothing is void."""
    await side.delete_stream(SCALING_STREAM)
    async with reading(bus, stream=SCALING_STREAM) as reader:
        await side.create_stream(SCALING_STREAM)
        await write(bus, "phalanx.scaling.v1.team-a.h.woken")
        await reader.until_count(1)
    assert reader.restarts == 0


async def test_empty_stream_is_said_to_be_empty(bus: AnyBus) -> None:
    """One empty batch, so that a reader knows that it is caught up."""
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
        assert [batch.messages for batch in reader.batches] == [()]


async def test_last_of_each_subject_in_stream_order(bus: AnyBus) -> None:
    """Earlier messages of a subject are left out; those that are left keep their order."""
    for subject, text in ((SUBJECT, "1"), (OTHER, "2"), (SUBJECT, "3"), (OTHER, "4"), (SUBJECT, "5")):
        await write(bus, subject, text)
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
    assert [message.data for message in reader.messages] == [b"4", b"5"]


async def test_everything_from_the_beginning(bus: AnyBus) -> None:
    """With `last_per_subject` off nothing is left out."""
    for number in range(5):
        await write(bus, text=str(number))
    async with reading(bus, stream=PLACEMENT_STREAM, last_per_subject=False) as reader:
        await reader.until_caught_up()
    assert [message.data for message in reader.messages] == [b"0", b"1", b"2", b"3", b"4"]


async def test_new_messages_follow_in_order(bus: AnyBus) -> None:
    """What is written while somebody reads comes with its sequence, each once."""
    await write(bus, text="stored")
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
        for number in range(50):
            await write(bus, text=str(number))
        await reader.until_count(51)
    assert [message.sequence for message in reader.messages] == list(range(1, 52))
    assert [message.data for message in reader.messages[1:]] == [str(number).encode() for number in range(50)]


async def test_pending_counts_down(bus: AnyBus) -> None:
    """`pending` is what is stored beyond the batch: it ends at zero, and only there."""
    await asyncio.gather(*(write(bus, f"phalanx.placement.v1.pod.a.w-{number}.waiting") for number in range(2_500)))
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
    counts = [batch.pending for batch in reader.batches]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    read = 0
    for batch in reader.batches:
        read += len(batch.messages)
        assert read + batch.pending == 2_500


async def test_one_message_per_subject_where_the_stream_says_so(bus: AnyBus) -> None:
    """The cluster stream keeps the last form of each object only."""
    await write(bus, NODE, "old")
    await write(bus, NODE, "new")
    async with reading(bus, stream=CLUSTER_STREAM, last_per_subject=False) as reader:
        await reader.until_caught_up()
    assert [(message.data, message.sequence) for message in reader.messages] == [(b"new", 2)]


async def test_subjects_filter(bus: AnyBus) -> None:
    """A pattern with one token left open matches exactly one token; several patterns are read together."""
    await write(bus, "phalanx.cluster.v1.pod.a.w-0")
    await write(bus, "phalanx.cluster.v1.node._.n1")
    await write(bus, "phalanx.cluster.v1.podgroup.a.g")
    async with reading(bus, stream=CLUSTER_STREAM, subjects="phalanx.cluster.v1.pod.*.w-0") as one:
        await one.until_caught_up()
    wanted = ("phalanx.cluster.v1.node.>", "phalanx.cluster.v1.podgroup.>")
    async with reading(bus, stream=CLUSTER_STREAM, subjects=wanted) as two:
        await two.until_caught_up()
    assert [message.sequence for message in one.messages] == [1]
    assert [message.sequence for message in two.messages] == [2, 3]


async def test_two_followers_see_the_same(bus: AnyBus) -> None:
    """Reading takes nothing away from others, and a late reader misses nothing."""
    async with reading(bus, stream=PLACEMENT_STREAM) as first:
        await write(bus, text="1")
        await first.until_count(1)
        async with reading(bus, stream=PLACEMENT_STREAM) as second:
            await write(bus, OTHER, text="2")
            await first.until_count(2)
            await second.until_count(2)
    assert first.messages == second.messages


async def test_largest_messages_pass(bus: AnyBus) -> None:
    """Several messages of the greatest size that we publish, in a row."""
    for number in range(6):
        await bus.publish(f"phalanx.placement.v1.pod.a.w-{number}.proposed", data=bytes(MAX_MESSAGE_BYTES), headers={})
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_count(6)
    assert {len(message.data) for message in reader.messages} == {MAX_MESSAGE_BYTES}
    assert reader.restarts == 0


async def test_message_beyond_the_server_limit_is_not_stored(bus: AnyBus) -> None:
    """It is refused, and the connection goes on."""
    with pytest.raises(BusUnavailable, match="payload"):
        await bus.publish(SUBJECT, data=bytes(3 * MAX_MESSAGE_BYTES), headers={})
    assert await write(bus) == 1


async def test_restart_delivers_everything_again(bus: AnyBus, side: Side) -> None:
    """The first batch after it says so; with it, nothing that was or is written is missing."""
    await write(bus, text="before")
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
        await side.restart()
        await write(bus, OTHER, text="after")
        await reader.until_restarted()
        await reader.until_count(2)
    assert [message.data for message in reader.messages] == [b"before", b"after"]
    assert reader.restarts == 1


async def test_requests_fail_while_the_server_is_away(bus: AnyBus, side: Side, monkeypatch: pytest.MonkeyPatch) -> None:
    """They say that the outcome is unknown; afterwards the same connection works."""
    monkeypatch.setattr("services.runtime.bus.REQUEST_TIMEOUT_S", 0.2)
    await write(bus)
    await side.stop()
    with pytest.raises(BusUnavailable):
        await write(bus)
    with pytest.raises(BusUnavailable):
        await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT)
    monkeypatch.undo()
    await side.restart()
    assert await bus.last(PLACEMENT_STREAM.name, subject=SUBJECT) is not None


async def test_stream_that_is_made_anew_is_read_anew(bus: AnyBus, side: Side) -> None:
    """Its sequences begin again, so what was read of the old one is void."""
    for number in range(3):
        await write(bus, f"phalanx.placement.v1.pod.a.w-{number}.waiting")
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_count(3)
        await side.delete_stream(PLACEMENT_STREAM)
        await side.create_stream(PLACEMENT_STREAM)
        await write(bus, text="new")
        await reader.until_restarted()
        await reader.until_count(1)
    assert [(message.data, message.sequence) for message in reader.messages] == [(b"new", 1)]


async def test_cancelled_reader_leaves_nothing_behind(bus: AnyBus, side: Side) -> None:
    """The server forgets a reader that has gone, at once."""
    async with reading(bus, stream=PLACEMENT_STREAM) as reader:
        await reader.until_caught_up()
        assert await side.follower_count(PLACEMENT_STREAM) == 1
    assert await side.follower_count(PLACEMENT_STREAM) == 0
