"""A placer that stands by, takes over, and is taken over."""

from services.contracts.streams import PLACEMENT_STREAM
from services.core.decisions import Decision, Proposed, Waiting
from services.core.objects import GangId
from services.core.reasons import Reason, ReasonCode
from tests.builders import members, node, pod_group
from tests.unit.placer.harness import Placer, placing

TRAIN = GangId("podgroup/team-a/train")
REASON = Reason(code=ReasonCode.INSUFFICIENT_CAPACITY, message="no room", count=2)


def show_train(placer: Placer) -> None:
    """Show a gang, a node with room for it, and that nothing else is coming."""
    placer.show(node("n1", gpus=8), pod_group("train", min_count=2), *members("train", count=2))
    placer.sync()


def waiting(placer: Placer) -> Decision:
    """What the leader said of the gang."""
    event = Waiting(revision=1, min_count=2, existing=2, placeable=0, reasons=(REASON,))
    return Decision(gang=TRAIN, event=event, decided_at=placer.clock.now(), epoch=3)


async def test_a_standby_folds_and_decides_nothing() -> None:
    """It is ready all the same, because it answers questions."""
    async with placing(is_standby=True) as placer:
        show_train(placer)
        await placer.settle()
        await placer.clock.settle()
        assert placer.is_ready
        assert placer.decisions == []


async def test_a_standby_tells_what_the_leader_published() -> None:
    """Why a gang waits is in the stream."""
    async with placing(is_standby=True) as placer:
        show_train(placer)
        placer.tell(waiting(placer))
        await placer.settle()
        await placer.until(lambda: placer.metric("phalanx_placer_waiting_gangs") == 1, what="the decision is folded")
        answer, _ = await placer.mind.ask(lambda decider: decider.answer(TRAIN))
        assert answer == waiting(placer).event


async def test_a_new_leader_decides_with_its_epoch() -> None:
    """Everything that waited for a leader is tried at once."""
    async with placing(is_standby=True) as placer:
        show_train(placer)
        await placer.settle()
        placer.lead(17)
        await placer.until(lambda: bool(placer.proposals), what="a proposal")
        assert [one.epoch for one in placer.decisions] == [17]


async def test_a_new_leader_reads_first_what_the_stream_holds() -> None:
    """Until the former leader's last decision is folded, nothing is decided."""
    async with placing(is_standby=True) as placer:
        show_train(placer)
        await placer.settle()
        placer.bus.hold(PLACEMENT_STREAM.name)
        placer.tell(waiting(placer))
        placer.lead(17)
        await placer.clock.settle()
        assert placer.proposals == []
        placer.bus.release(PLACEMENT_STREAM.name)
        await placer.until(lambda: bool(placer.proposals), what="a proposal")


async def test_what_was_decided_under_a_lost_epoch_is_not_written() -> None:
    """Its publish waits for the bus; when that comes back, another leads."""
    async with placing() as placer:
        placer.lead(17)
        show_train(placer)
        await placer.until_read()
        placer.bus.refuse_publishes(1_000_000)
        placer.clock.advance(1)
        await placer.until(lambda: bool(placer.bus.attempts), what="a try to publish")
        placer.leave()
        # What is on its way already cannot be called back; it is refused like the tries before.
        await placer.until(lambda: placer.bus.publishing == 0, what="no request is on its way")
        placer.bus.refuse_publishes(0)
        await placer.until_read()
        attempts = len(placer.bus.attempts)
        await placer.clock.settle()
        assert placer.decisions == []
        assert len(placer.bus.attempts) == attempts


async def test_a_leader_that_comes_back_decides_again() -> None:
    """It has read everything anew, and its decisions carry the new epoch."""
    async with placing() as placer:
        placer.lead(17)
        show_train(placer)
        await placer.settle()
        await placer.until(lambda: bool(placer.proposals), what="a proposal")
        placer.leave()
        await placer.until_read()
        placer.show(node("n2", gpus=8), pod_group("late", min_count=1), *members("late", count=1))
        await placer.settle()
        placer.lead(23)
        await placer.until(lambda: len(placer.proposals) == 2, what="the second proposal")
        assert [(one.gang, one.epoch) for one in placer.proposals] == [(TRAIN, 17), ("podgroup/team-a/late", 23)]
        assert all(isinstance(one.event, Proposed) for one in placer.decisions)
