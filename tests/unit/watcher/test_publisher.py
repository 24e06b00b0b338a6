"""The publisher: parallel writes, one at a time per object, bounded, and patient while the bus is away."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest
from prometheus_client import CollectorRegistry

from services.core.objects import Kind
from services.runtime.clock import SystemClock
from services.watcher.metrics import Metrics
from services.watcher.publication import Outgoing, Stored, Verdict, Version
from services.watcher.publisher import MESSAGE_LOST, Publisher
from tests.fakes.cluster_stream import FakeClusterStream


def version(name: str, *, revision: int, content: bytes = b"x") -> Outgoing:
    """A version of an object; empty content is its deletion."""
    return Outgoing(
        subject=f"phalanx.cluster.v1.pod.team-a.{name}",
        version=Version(uid="u", revision=revision, fingerprint=content),
        data=b"",
        event_id="",
        event_type="",
    )


class Impatient(SystemClock):
    """A clock whose waits are over at once."""

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - as the protocol has it
        """Let others have their turn."""
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def publishing(
    stream: FakeClusterStream, *, lost: Callable[[Kind, str], None] | None = None, queue_size: int = 1024
) -> AsyncIterator[Publisher]:
    """A publisher at work."""
    publisher = Publisher(
        stream,
        kinds=(Kind.POD,),
        clock=Impatient(),
        metrics=Metrics(CollectorRegistry()),
        lost=lost or (lambda _kind, _reason: None),
        worker_count=8,
        queue_size=queue_size,
    )
    working = asyncio.create_task(publisher.work())
    yield publisher
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


async def settled(publisher: Publisher) -> None:
    """Wait until everything is written."""
    await asyncio.wait_for(publisher.settled(Kind.POD), timeout=5)


async def test_many_objects_are_written_at_the_same_time_but_not_too_many() -> None:
    """As many as there are workers."""
    stream = FakeClusterStream(gate=asyncio.Event())
    async with publishing(stream) as publisher:
        for number in range(100):
            await publisher.submit(Kind.POD, version(f"w-{number}", revision=1), is_listed=False)
        async with asyncio.timeout(5):
            while stream.in_flight < 8:  # noqa: ASYNC110 - turns of the loop, no time
                await asyncio.sleep(0)
        assert stream.gate is not None
        stream.gate.set()
        await settled(publisher)
    assert stream.most_in_flight == 8
    assert len(stream.last_by_subject) == 100


async def test_newer_versions_coalesce_behind_the_one_in_flight() -> None:
    """What nobody could have read is not written."""
    stream = FakeClusterStream(gate=asyncio.Event())
    async with publishing(stream) as publisher:
        for revision in range(1, 11):
            await publisher.submit(
                Kind.POD, version("w", revision=revision, content=str(revision).encode()), is_listed=False
            )
        assert stream.gate is not None
        stream.gate.set()
        await settled(publisher)
    assert [outgoing.version.revision for outgoing in stream.log] == [1, 10]


async def test_a_full_queue_makes_the_reader_wait() -> None:
    """Memory stays bounded while the bus is slow."""
    stream = FakeClusterStream(gate=asyncio.Event())
    async with publishing(stream, queue_size=2) as publisher:
        submitting = asyncio.create_task(_submit(publisher, count=50))
        done, _ = await asyncio.wait({submitting}, timeout=0.1)
        assert not done
        assert publisher.publication(Kind.POD).unsettled_count <= 10
        assert stream.gate is not None
        stream.gate.set()
        await asyncio.wait_for(submitting, timeout=5)
        await settled(publisher)
    assert len(stream.last_by_subject) == 50


async def _submit(publisher: Publisher, *, count: int) -> None:
    for number in range(count):
        await publisher.submit(Kind.POD, version(f"w-{number}", revision=1), is_listed=False)


async def test_a_reader_that_is_cancelled_while_it_waits_leaves_nothing_behind() -> None:
    """What it had not handed over is not half known."""
    stream = FakeClusterStream(gate=asyncio.Event())
    async with publishing(stream, queue_size=1) as publisher:
        submitting = asyncio.create_task(_submit(publisher, count=50))
        await asyncio.wait({submitting}, timeout=0.05)
        submitting.cancel()
        await asyncio.wait({submitting})
        assert stream.gate is not None
        stream.gate.set()
        await settled(publisher)
        await _submit(publisher, count=50)
        await settled(publisher)
    assert len(stream.last_by_subject) == 50


@pytest.mark.parametrize(("answers_lost", "writes_lost"), [(3, 0), (0, 3), (2, 2)])
async def test_lost_answers_are_repeated_until_definite(answers_lost: int, writes_lost: int) -> None:
    """Nothing is lost, and no older version is written over a newer one."""
    stream = FakeClusterStream(answers_lost=answers_lost, writes_lost=writes_lost)
    async with publishing(stream) as publisher:
        await publisher.submit(Kind.POD, version("a", revision=1), is_listed=False)
        await publisher.submit(Kind.POD, version("a", revision=2, content=b"y"), is_listed=False)
        await publisher.submit(Kind.POD, version("b", revision=3, content=b""), is_listed=False)
        await settled(publisher)
    held = {item.subject[-1]: item.version for item in stream.last_by_subject.values()}
    assert held["a"].fingerprint == b"y"
    assert held["b"].is_deleted
    revisions = [outgoing.version.revision for outgoing in stream.log if outgoing.subject.endswith(".a")]
    assert revisions == sorted(revisions)


async def test_a_message_that_vanished_is_reported_and_written_again() -> None:
    """The server may crash and lose what it had acknowledged."""
    stream, reasons = FakeClusterStream(), list[str]()
    async with publishing(stream, lost=lambda _kind, reason: reasons.append(reason)) as publisher:
        await publisher.submit(Kind.POD, version("a", revision=1), is_listed=False)
        await settled(publisher)
        stream.last_by_subject.clear()
        await publisher.submit(Kind.POD, version("a", revision=2, content=b"y"), is_listed=False)
        await settled(publisher)
    assert reasons == [MESSAGE_LOST]
    assert [item.version.fingerprint for item in stream.last_by_subject.values()] == [b"y"]


async def test_a_newer_version_of_another_watcher_stays() -> None:
    """The refused write is not repeated."""
    stream = FakeClusterStream()
    ahead = version("a", revision=9, content=b"newer")
    stream.sequence = 5
    stream.last_by_subject[ahead.subject] = Stored(subject=ahead.subject, sequence=5, version=ahead.version)
    async with publishing(stream) as publisher:
        verdict = await publisher.submit(Kind.POD, version("a", revision=2), is_listed=False)
        await settled(publisher)
    assert verdict is Verdict.ACCEPTED
    assert stream.log == []
