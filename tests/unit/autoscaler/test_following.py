"""The autoscaler follows decisions: what it knows of gangs, what it counts, and when it says that it is ready."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from prometheus_client import CollectorRegistry

from services.autoscaler.following import AutoscalerMetrics, Follower
from services.contracts.dead_letter_box import DeadLetterBox
from services.contracts.dead_letters import decode_letter
from services.contracts.decision_codec import decision_subject, encode_decision
from services.contracts.streams import DEAD_LETTERS_STREAM, PLACEMENT_STREAM
from services.core.decisions import Assignment, Committed, Decision, DecisionEvent, Proposed, Waiting
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.runtime.health import Readiness
from tests.builders import START, seconds
from tests.fakes.bus import FakeBus
from tests.fakes.letters import letter_box

TRAIN = GangId("podgroup/team-a/train")
WAITING = Waiting(
    revision=1, min_count=2, existing=2, placeable=0, reasons=(Reason(code=ReasonCode.NO_NODES, message="none"),)
)
ASSIGNED = (Assignment(pod="w", uid=Uid("u"), node=NodeName("n1")),)
PROPOSED = Proposed(revision=2, deadline=START + seconds(60), min_count=1, assignments=ASSIGNED)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds, turn by turn of the event loop."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - gauges and fields have no event
            await asyncio.sleep(0)


@dataclass(slots=True, kw_only=True)
class Autoscaler:
    """A running follower and what it shows."""

    bus: FakeBus
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    readiness: Readiness = field(default_factory=Readiness)
    letters: DeadLetterBox = field(init=False)
    follower: Follower = field(init=False)

    def __post_init__(self) -> None:
        """Put the follower together as `services.autoscaler.app` does."""
        self.letters = letter_box(self.bus, service="autoscaler")
        self.follower = Follower(
            stream=self.bus,
            readiness=self.readiness,
            metrics=AutoscalerMetrics(self.registry),
            letters=self.letters,
        )

    async def run(self) -> None:
        """Follow, and store dead letters."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.letters.run())
            group.create_task(self.follower.run())

    def tell(self, event: DecisionEvent, *, transaction: str = "", after_s: float = 0) -> None:
        """Publish a decision about the gang."""
        decision = Decision(
            gang=TRAIN, event=event, decided_at=START + seconds(after_s), transaction=TransactionId(transaction)
        )
        self.bus.write(decision_subject(decision), data=encode_decision(decision))

    def seen(self, event: str) -> float:
        """How many decisions of a kind were counted."""
        name = "phalanx_autoscaler_decisions_seen_total"
        return self.registry.get_sample_value(name, {"event": event}) or 0.0

    @property
    def revision(self) -> float:
        """Up to where it has read."""
        return self.registry.get_sample_value("phalanx_autoscaler_revision") or 0.0

    async def until_revision(self, revision: int) -> None:
        """Wait until it has read that far."""
        await until(lambda: self.revision == revision and self.readiness.is_ready)


@asynccontextmanager
async def following(bus: FakeBus) -> AsyncIterator[Autoscaler]:
    """Run a follower while the block runs."""
    scene = Autoscaler(bus=bus)
    running = asyncio.create_task(scene.run())
    try:
        yield scene
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.fixture
async def autoscaler() -> AsyncIterator[Autoscaler]:
    """A follower on an empty bus."""
    async with following(FakeBus()) as scene:
        yield scene


async def test_it_is_ready_once_everything_is_read() -> None:
    """While the stream is read readiness says so; an empty one is read at once."""
    bus = FakeBus()
    bus.hold(PLACEMENT_STREAM.name)
    async with following(bus) as autoscaler:
        await until(lambda: bool(bus.following))
        (condition,) = autoscaler.readiness.conditions
        assert (condition.ready, condition.detail) == (False, "reading the placement stream")
        bus.release(PLACEMENT_STREAM.name)
        await autoscaler.until_revision(0)


async def test_decisions_are_folded_and_counted(autoscaler: Autoscaler) -> None:
    """It knows which gangs wait, which are placed, and which are on their way."""
    autoscaler.tell(WAITING)
    await autoscaler.until_revision(1)
    ledger = autoscaler.follower.ledger
    assert ledger.waiting(TRAIN) is not None
    autoscaler.tell(PROPOSED, transaction="t", after_s=1)
    await autoscaler.until_revision(2)
    assert ledger.waiting(TRAIN) is None
    assert ledger.of_gang(TRAIN) is not None
    autoscaler.tell(Committed(members=ASSIGNED), transaction="t", after_s=2)
    await autoscaler.until_revision(3)
    assert ledger.of_gang(TRAIN) is None
    assert [autoscaler.seen(event) for event in ("waiting", "proposed", "committed", "refused")] == [1, 1, 1, 0]


async def test_unreadable_messages_are_skipped_and_counted(autoscaler: Autoscaler) -> None:
    """One damaged message stops nobody."""
    autoscaler.bus.write("phalanx.placement.v1.podgroup.team-a.bad.proposed", data=b"\xff")
    autoscaler.tell(WAITING)
    await autoscaler.until_revision(2)
    assert autoscaler.registry.get_sample_value("phalanx_autoscaler_unreadable_messages_total") == 1
    assert autoscaler.seen("waiting") == 1
    await until(lambda: bool(autoscaler.bus.stored(DEAD_LETTERS_STREAM.name)))
    (letter,) = (decode_letter(message.data) for message in autoscaler.bus.stored(DEAD_LETTERS_STREAM.name))
    assert (letter.id, letter.body) == ("autoscaler/PHALANX_PLACEMENT/1", b"\xff")


async def test_interrupted_stream_is_folded_anew(autoscaler: Autoscaler) -> None:
    """What was known before counts no more; what the stream holds leads to the same state."""
    autoscaler.tell(WAITING)
    await autoscaler.until_revision(1)
    before = autoscaler.follower.ledger
    autoscaler.bus.restart()
    await until(lambda: autoscaler.follower.ledger is not before)
    await autoscaler.until_revision(1)
    assert autoscaler.follower.ledger.waiting(TRAIN) == before.waiting(TRAIN)


async def test_late_message_changes_nothing(autoscaler: Autoscaler) -> None:
    """A transaction that has ended is not opened by its own proposal, which came late."""
    autoscaler.tell(Committed(members=ASSIGNED), transaction="t", after_s=2)
    autoscaler.tell(replace(PROPOSED, round=0), transaction="t", after_s=1)
    await autoscaler.until_revision(2)
    assert autoscaler.follower.ledger.of_gang(TRAIN) is None
