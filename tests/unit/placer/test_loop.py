"""The placer's loop: what it reads in which order, when it thinks, and what it publishes."""

import asyncio
from datetime import timedelta

import pytest

from services.contracts.dead_letters import decode_letter
from services.contracts.streams import CLUSTER_STREAM, DEAD_LETTERS_STREAM, PLACEMENT_STREAM
from services.core.cluster import OPTIONAL_KINDS
from services.core.decisions import Committed, Proposed, Refused, Waiting
from services.core.objects import GangId, Kind, Node, Pod, PodGroup, WatchPhase
from services.core.reasons import Reason, ReasonCode
from services.placer import deciding
from tests.builders import members, node, pod, pod_group, watch
from tests.fakes.bus import FakeBus
from tests.unit.placer.harness import SETTLE_S, Placer, placing

TRAIN = GangId("podgroup/team-a/train")


def train(*, size: int = 2) -> tuple[Node | Pod | PodGroup, ...]:
    """A gang, and one node that has room for it."""
    return (node("n1", gpus=8), pod_group("train", min_count=size), *members("train", count=size))


async def proposed(placer: Placer, *, count: int = 1) -> None:
    """Wait for that many proposals."""
    await placer.until(lambda: len(placer.proposals) >= count, what=f"{count} proposals")


async def test_gang_is_proposed_on_its_subject() -> None:
    """The message is a CloudEvent about the gang, and the counters say so."""
    async with placing() as placer:
        placer.show(*train())
        placer.sync()
        await placer.settle()
        await proposed(placer)
        (message,) = placer.bus.stored(PLACEMENT_STREAM.name)
        assert message.subject == "phalanx.placement.v1.podgroup.team-a.train.proposed"
        assert message.headers["ce-type"] == "phalanx.placement.v1.proposed"
        assert message.headers["ce-source"] == "/phalanx/placer/test"
        assert message.headers["ce-subject"] == TRAIN
        assert message.headers["Nats-Msg-Id"] == message.headers["ce-id"]
        await placer.until(
            lambda: placer.metric("phalanx_placer_decisions_total", event="proposed") == 1, what="it is counted"
        )
        await placer.until(lambda: placer.metric("phalanx_placer_open_transactions") == 1, what="the gauge is set")


async def test_decisions_are_read_once_the_cluster_is_known() -> None:
    """They refer to its objects; so the second stream is opened at the end of the first."""
    bus = FakeBus()
    bus.hold(CLUSTER_STREAM.name)
    async with placing(bus) as placer:
        placer.show(*train())
        await placer.until(lambda: bus.following == [CLUSTER_STREAM.name], what="the first stream is opened")
        await placer.clock.settle()
        assert bus.following == [CLUSTER_STREAM.name]
        assert not placer.is_ready
        bus.release(CLUSTER_STREAM.name)
        await placer.until(
            lambda: bus.following == [CLUSTER_STREAM.name, PLACEMENT_STREAM.name], what="the second stream is opened"
        )


async def test_nothing_is_decided_before_open_transactions_are_known() -> None:
    """What another placer proposed must not be proposed again; readiness says what is waited for."""
    bus = FakeBus()
    async with placing(bus) as first:
        first.show(*train())
        first.sync()
        await first.settle()
        await proposed(first)
    bus.hold(PLACEMENT_STREAM.name)
    async with placing(bus) as second:
        await second.until(second.is_idle, what="the cluster is folded")
        second.clock.advance(SETTLE_S)
        assert second.detail == "reading the streams"
        bus.release(PLACEMENT_STREAM.name)
        await second.settle()
        await second.until(lambda: second.metric("phalanx_placer_open_transactions") == 1, what="it is known")
        assert len(second.proposals) == 1


async def test_readiness_names_the_kinds_that_are_not_followed() -> None:
    """While the watcher lists, nothing is decided; the operator reads for what."""
    async with placing() as placer:
        placer.show(*train(), watch(Kind.NODE), watch(Kind.POD, phase=WatchPhase.LISTING))
        await placer.until(lambda: "waiting for the watcher" in placer.detail, what="the detail")
        missing = ", ".join((Kind.POD, *OPTIONAL_KINDS))
        assert placer.detail == f"waiting for the watcher to follow: {missing}"
        placer.clock.advance(SETTLE_S)
        placer.sync()
        await placer.until_read()
        await proposed(placer)
        assert placer.detail == "synced"


async def test_unreadable_messages_are_skipped_and_counted() -> None:
    """Damaged bytes and a decision of a later release stop nobody; a kind of a later release is no damage."""
    async with placing() as placer:
        placer.bus.write("phalanx.cluster.v1.pod.team-a.bad", data=b"\xff\xff")
        placer.bus.write("phalanx.cluster.v1.spaceship.team-a.x", data=b"")
        placer.bus.write("phalanx.placement.v1.podgroup.team-a.other.proposed", data=b"\xff")
        placer.show(*train())
        placer.sync()
        await placer.settle()
        await proposed_beside(placer, subject="phalanx.placement.v1.podgroup.team-a.train.proposed")
        assert placer.metric("phalanx_placer_unreadable_messages_total") == 2
        stored = DEAD_LETTERS_STREAM.name
        await placer.until(lambda: len(placer.bus.stored(stored)) == 2, what="letters")
        letters = [decode_letter(message.data) for message in placer.bus.stored(stored)]
        assert {letter.id: letter.body for letter in letters} == {
            "placer/PHALANX_CLUSTER/1": b"\xff\xff",
            "placer/PHALANX_PLACEMENT/1": b"\xff",
        }


async def proposed_beside(placer: Placer, *, subject: str) -> None:
    """Wait for a message, where not all of the stream can be read."""
    await placer.until(
        lambda: any(message.subject == subject for message in placer.bus.stored(PLACEMENT_STREAM.name)), what=subject
    )


async def test_time_alone_wakes_it() -> None:
    """A group that stopped arriving is placed when its time has come, without another event."""
    async with placing() as placer:
        placer.show(*train())
        placer.sync()
        await placer.until_read()
        placer.clock.advance(SETTLE_S / 2)
        await placer.clock.settle()
        assert placer.decisions == []
        placer.clock.advance(SETTLE_S / 2)
        await proposed(placer)


async def test_queued_batches_are_one_thought() -> None:
    """What arrives while the mind is busy is folded together, so a burst costs one decision."""
    bus = FakeBus(batch_size=1)
    async with placing(bus) as placer:
        placer.sync()
        await placer.until_read()
        placer.mind.gate.clear()
        placer.show(node("n0"))
        await placer.until(lambda: placer.mind.is_waiting, what="it thinks")
        thoughts = len(placer.mind.sizes)
        for index in range(30):
            placer.show(pod(f"p-{index}"))
        await placer.until(lambda: placer.loop._queue.qsize() == 30, what="all are queued")
        placer.mind.gate.set()
        await placer.until_read()
        assert placer.mind.sizes[thoughts : thoughts + 1] == [30]


async def test_readers_wait_for_a_busy_mind() -> None:
    """What is read ahead is bounded; the bus keeps the rest."""
    bus = FakeBus(batch_size=1)
    async with placing(bus) as placer:
        placer.sync()
        await placer.until_read()
        placer.mind.gate.clear()
        placer.show(node("n0", pods=500))
        await placer.until(lambda: placer.mind.is_waiting, what="it thinks")
        for index in range(2 * deciding.QUEUED_BATCHES):
            placer.show(pod(f"p-{index}", gpus=0))
        await placer.until(placer.loop._queue.full, what="the queue is full")
        await placer.clock.settle()
        assert placer.loop._queue.qsize() == deciding.QUEUED_BATCHES
        placer.mind.gate.set()
        await placer.settle()
        await proposed(placer, count=2 * deciding.QUEUED_BATCHES)


async def test_interrupted_stream_is_read_anew() -> None:
    """After a gap nothing that was known counts; the streams lead to the same state, and to no second try."""
    async with placing() as placer:
        placer.show(*train())
        placer.sync()
        await placer.settle()
        await proposed(placer)
        before = placer.metric("phalanx_placer_messages_total", stream=CLUSTER_STREAM.name)
        held = len(placer.bus.stored(CLUSTER_STREAM.name))
        placer.bus.restart()
        await placer.until(
            lambda: placer.metric("phalanx_placer_messages_total", stream=CLUSTER_STREAM.name) == before + held,
            what="everything is read again",
        )
        placer.show(pod("late"))
        await placer.settle()
        await proposed(placer, count=2)
        assert [one.gang for one in placer.proposals] == [TRAIN, "pod/team-a/late"]
        await placer.until(lambda: placer.metric("phalanx_placer_open_transactions") == 2, what="both are open")


async def test_lost_stream_is_forgotten() -> None:
    """An object that is not in the new stream is not in the new state either."""
    async with placing() as placer:
        placer.show(*train())
        placer.sync()
        await placer.settle()
        await proposed(placer)
        placer.bus.delete_stream(CLUSTER_STREAM.name)
        placer.bus.create_stream(CLUSTER_STREAM)
        await placer.until(lambda: not placer.is_ready, what="the loss is noticed")
        placer.sync()
        await placer.until_read()
        assert await placer.ask(lambda decider: decider.cluster.inventory.node_count) == 0


async def test_committed_gang_is_not_placed_again() -> None:
    """Also not by a new placer that sees the commit before the bindings."""
    bus = FakeBus()
    async with placing(bus) as first:
        first.show(*train())
        first.sync()
        await first.settle()
        await proposed(first)
        (decision,) = first.proposals
        assert isinstance(decision.event, Proposed)
        first.end(decision, Committed(members=decision.event.assignments))
        await first.until(lambda: first.metric("phalanx_placer_open_transactions") == 0, what="it is over")
    async with placing(bus) as second:
        await second.settle()
        second.show(pod("late", gpus=6))
        await second.settle()
        await proposed(second, count=2)
        assert [one.gang for one in second.proposals] == [TRAIN, "pod/team-a/late"]


async def test_refused_gang_is_tried_again() -> None:
    """The first refusal costs no wait."""
    async with placing() as placer:
        placer.show(*train())
        placer.sync()
        await placer.settle()
        await proposed(placer)
        reason = Reason(code=ReasonCode.PLACEMENT_STALE, message="a node is gone")
        placer.end(placer.proposals[0], Refused(reasons=(reason,)))
        await proposed(placer, count=2)
        first, second = placer.proposals
        assert first.transaction != second.transaction


async def test_waiting_is_told_once_while_its_reasons_stay() -> None:
    """The same reason with other numbers is not published again; present numbers are in the state."""
    async with placing() as placer:
        placer.show(node("n1", gpus=1), pod_group("train", min_count=4), *members("train", count=4))
        placer.sync()
        await placer.settle()
        await placer.until(lambda: len(placer.decisions) == 1, what="it waits")
        (decision,) = placer.decisions
        assert isinstance(decision.event, Waiting)
        assert decision.event.placeable == 1
        placer.show(node("n2", gpus=1))
        await placer.settle()
        await placer.until(lambda: placer.metric("phalanx_placer_waiting_gangs") == 1, what="the gauge is set")
        assert len(placer.decisions) == 1
        code = ReasonCode.INSUFFICIENT_CAPACITY.value
        assert placer.metric("phalanx_placer_waiting_reasons_total", code=code) == 1
        placer.show(node("n3", gpus=2))
        await proposed(placer)


async def test_it_is_alive_while_the_bus_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that cannot be published holds the loop up, not its heartbeat: a restart would help nobody."""
    monkeypatch.setattr(deciding, "IDLE_S", 0.01)
    async with placing() as placer:
        placer.show(*train())
        placer.sync()
        placer.bus.gate = asyncio.Event()
        await placer.settle()
        await placer.until(lambda: placer.bus.publishing == 1, what="it publishes")
        for _ in range(3):
            placer.clock.advance(deciding.HEARTBEAT_LIMIT_S - 1)
            await placer.until(lambda: placer.readiness.heartbeats[0].age_s == 0, what="the next beat")
        placer.bus.gate.set()
        await proposed(placer)


async def test_many_decisions_are_published_side_by_side() -> None:
    """Each has a subject of its own, so none waits for another; how many are on their way is bounded."""
    async with placing() as placer:
        placer.show(*(node(f"n{index}") for index in range(20)))
        placer.show(*(pod(f"p-{index}") for index in range(150)))
        placer.sync()
        await placer.settle()
        await proposed(placer, count=150)
        assert 32 <= placer.bus.most_publishing <= 64


async def test_deadline_and_revision_are_in_the_proposal() -> None:
    """What the binder needs to judge it."""
    async with placing() as placer:
        placer.show(*train())
        placer.sync()
        await placer.settle()
        await proposed(placer)
        (decision,) = placer.proposals
        assert isinstance(decision.event, Proposed)
        assert decision.event.revision == len(placer.bus.stored(CLUSTER_STREAM.name))
        assert decision.event.deadline == placer.clock.now() + timedelta(seconds=60)
