"""Publishing decisions: conflicts, lost answers, sizes and traces."""

import asyncio
from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.contracts.decision_codec import decision_subject, encode_decision
from services.contracts.streams import MAX_MESSAGE_BYTES, PLACEMENT_STREAM
from services.core.decisions import Assignment, Decision, OpenMember, Proposed, Refused, Repairing, Waiting
from services.core.gangs import MAX_MEMBERS
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.trying import MAX_PLACEMENT_BYTES
from services.placer import publishing
from tests.builders import START, members, node, pod, pod_group, seconds
from tests.unit.placer.harness import Placer, placing

GANG = GangId("podgroup/team-a/w")
PROPOSED = "phalanx.placement.v1.podgroup.team-a.w.proposed"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def foreign_proposal() -> Decision:
    """What another placer might propose for the same pod."""
    assignment = Assignment(pod="w-0", uid=Uid("uid-team-a-w-0"), node=NodeName("n2"))
    event = Proposed(revision=1, deadline=START + seconds(60), min_count=1, assignments=(assignment,))
    return Decision(gang=GANG, event=event, decided_at=START, transaction=TransactionId("foreign"))


async def shown(placer: Placer) -> None:
    """One pod of a group that may have more, two nodes."""
    placer.show(node("n1"), node("n2"), pod_group("w", min_count=1), pod("w-0", group="w"))
    placer.sync()
    await placer.until_read()


async def test_other_placer_that_writes_first_wins() -> None:
    """Our proposal is taken back, and its room is free; the other's is folded, and no third is made beside it."""
    async with placing() as placer:
        placer.bus.gate = asyncio.Event()
        await shown(placer)
        placer.clock.advance(1)
        await placer.until(lambda: placer.bus.publishing == 1, what="it publishes")
        placer.tell(foreign_proposal())
        placer.bus.gate.set()
        await placer.until(lambda: placer.metric("phalanx_placer_stale_decisions_total") == 1, what="the conflict")
        await placer.settle()
        await placer.until_read()
        assert [one.transaction for one in placer.proposals] == ["foreign"]
        assert await placer.ask(lambda decider: {one.node for one in decider.cluster.promises().values()}) == {"n2"}


async def test_decision_is_made_again_after_the_other_one_ended() -> None:
    """A conflict is no failure of the gang."""
    async with placing() as placer:
        placer.bus.gate = asyncio.Event()
        await shown(placer)
        placer.clock.advance(1)
        await placer.until(lambda: placer.bus.publishing == 1, what="it publishes")
        placer.tell(foreign_proposal())
        placer.bus.gate.set()
        await placer.until(lambda: placer.metric("phalanx_placer_stale_decisions_total") == 1, what="the conflict")
        placer.end(
            foreign_proposal(), Refused(reasons=(Reason(code=ReasonCode.PLACEMENT_STALE, message="n2 is gone"),))
        )
        await placer.until(lambda: len(placer.proposals) == 2, what="a proposal of our own")
        assert placer.proposals[1].transaction != "foreign"


async def test_decision_that_was_not_read_is_never_written_over() -> None:
    """A conflict shows that there is another decision, but it counts only once it was folded."""
    async with placing() as placer:
        placer.sync()
        await placer.until_read()
        placer.bus.hold(PLACEMENT_STREAM.name)
        placer.tell(foreign_proposal())
        await shown(placer)
        placer.clock.advance(1)
        await placer.until(lambda: placer.metric("phalanx_placer_stale_decisions_total") == 1, what="a conflict")
        placer.show(node("n3"))
        await placer.until(lambda: placer.metric("phalanx_placer_stale_decisions_total") == 2, what="another conflict")
        assert [one.transaction for one in placer.proposals] == ["foreign"]
        placer.bus.release(PLACEMENT_STREAM.name)
        await placer.until_read()
        placer.show(node("n4"))
        await placer.until_read()
        assert placer.metric("phalanx_placer_stale_decisions_total") == 2
        assert [one.transaction for one in placer.proposals] == ["foreign"]


@pytest.mark.parametrize("has_window", [True, False], ids=["repetition known", "repetition forgotten"])
async def test_lost_answer_is_no_second_proposal(*, has_window: bool) -> None:
    """The message was stored and the answer was lost: the repetition finds its own message."""
    async with placing() as placer:
        placer.bus.lose_answers(1, is_window_over=not has_window)
        await shown(placer)
        placer.clock.advance(1)
        await placer.until(
            lambda: placer.metric("phalanx_placer_decisions_total", event="proposed") == 1, what="it is written"
        )
        assert len(placer.proposals) == 1
        assert len(placer.bus.attempts) == 2
        assert placer.metric("phalanx_placer_stale_decisions_total") == 0


async def test_publishing_waits_for_the_bus() -> None:
    """Requests that fail are repeated until one does not."""
    async with placing() as placer:
        placer.bus.refuse_publishes(3)
        await shown(placer)
        placer.clock.advance(1)
        await placer.until(lambda: len(placer.proposals) == 1, what="the proposal")
        assert len(placer.bus.attempts) == 4


async def test_subject_whose_last_message_grew_too_old_is_written_anew() -> None:
    """What was known of the subject is gone from the stream; that is nobody's write."""
    async with placing() as placer:
        await shown(placer)
        placer.clock.advance(1)
        await placer.until(lambda: len(placer.proposals) == 1, what="the first proposal")
        (decision,) = placer.proposals
        placer.bus.forget_subject(PLACEMENT_STREAM.name, subject=PROPOSED)
        placer.end(decision, Refused(reasons=(Reason(code=ReasonCode.PLACEMENT_STALE, message="n1 is gone"),)))
        await placer.until(lambda: len(placer.proposals) == 1, what="the second proposal")
        assert placer.proposals[0].transaction != decision.transaction
        assert placer.metric("phalanx_placer_stale_decisions_total") == 0


async def test_reader_that_is_behind_takes_nothing_back() -> None:
    """An older message of a subject that comes late does not make the next write stale."""
    async with placing() as placer:
        placer.show(node("n1", gpus=1), pod_group("train", min_count=2), *members("train", count=2))
        placer.sync()
        await placer.settle()
        await placer.until(lambda: len(placer.decisions) == 1, what="it waits for room")
        placer.bus.hold(PLACEMENT_STREAM.name)
        placer.lose(node("n1", gpus=1))
        placer.show(pod("train-0", group="train", version="2", labels={"a": "b"}))
        await placer.until(lambda: len(placer.decisions) == 2, what="it waits for any node")
        placer.show(node("n2", gpus=1), pod("train-0", group="train", version="3"))
        await placer.until(lambda: len(placer.decisions) == 3, what="it waits for room again")
        placer.bus.release(PLACEMENT_STREAM.name)
        await placer.until_read()
        placer.lose(node("n2", gpus=1))
        placer.show(pod("train-0", group="train", version="4", labels={"a": "b"}))
        await placer.until(lambda: len(placer.decisions) == 4, what="it waits for any node again")
        assert placer.metric("phalanx_placer_stale_decisions_total") == 0


def long_gang(*, name_length: int, uid_length: int = 36) -> tuple[object, ...]:
    """As many members as a gang may have, with long names."""
    return tuple(
        pod(f"{index:04d}".ljust(name_length, "p"), group="train", gpus=0, uid=f"{index:04d}".ljust(uid_length, "u"))
        for index in range(MAX_MEMBERS)
    )


async def test_largest_gang_that_kubernetes_can_name_fits() -> None:
    """4,096 members, every name as long as Kubernetes allows: the proposal is one message."""
    async with placing() as placer:
        placer.show(node("n".ljust(253, "n"), pods=MAX_MEMBERS), pod_group("train", min_count=MAX_MEMBERS))
        placer.show(*long_gang(name_length=253))  # type: ignore[arg-type]
        placer.sync()
        await placer.settle()
        await placer.until(lambda: len(placer.bus.stored(PLACEMENT_STREAM.name)) == 1, what="the proposal")
        (message,) = placer.bus.stored(PLACEMENT_STREAM.name)
        assert message.subject.endswith(".proposed")
        assert len(message.data) <= MAX_MESSAGE_BYTES


async def test_gang_that_no_message_holds_waits_and_says_why() -> None:
    """It is told once, and not tried again and again."""
    async with placing() as placer:
        placer.show(node("n1", pods=MAX_MEMBERS), pod_group("train", min_count=MAX_MEMBERS))
        placer.show(*long_gang(name_length=253, uid_length=900))  # type: ignore[arg-type]
        placer.sync()
        await placer.settle()
        await placer.until(lambda: len(placer.decisions) == 1, what="the answer")
        placer.show(node("n2"))
        await placer.settle()
        await placer.until_read()
        (decision,) = placer.decisions
        assert isinstance(decision.event, Waiting)
        (reason,) = decision.event.reasons
        assert reason.code is ReasonCode.GANG_TOO_LARGE
        assert reason.count == MAX_MEMBERS
        assert "4194304" in reason.message


def test_limits_of_core_and_bus_agree() -> None:
    """The core may not import the contracts, so the number stands in both."""
    assert MAX_PLACEMENT_BYTES == MAX_MESSAGE_BYTES


async def test_round_that_no_message_holds_leaves_its_transaction_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binder's repair window ends it; to forget it here would let its members be placed twice."""
    async with placing() as placer:
        placer.show(node("n1"), node("n2"), pod("w-0"))
        placer.sync()
        await placer.settle()
        await placer.until(lambda: len(placer.proposals) == 1, what="the proposal")
        (decision,) = placer.proposals
        monkeypatch.setattr(publishing, "MAX_MESSAGE_BYTES", 10)
        member = OpenMember(pod="w-0", uid=Uid("uid-team-a-w-0"), excluded_nodes=(NodeName("n1"),))
        placer.end(
            decision, Repairing(round=0, bound=(), open=(member,), until=placer.clock.now() + seconds(30), min_count=1)
        )
        await placer.until(lambda: len(placer.decisions) == 2, what="the repair is asked for")
        placer.show(node("n3"))
        await placer.until_read()
        assert await placer.ask(lambda decider: [one.id for one in decider.ledger.open()]) == [decision.transaction]
        assert len(placer.proposals) == 1


async def test_repair_is_the_next_round_of_the_same_transaction() -> None:
    """It overwrites the first on its subject, on the condition that it is the last."""
    async with placing() as placer:
        placer.show(node("n1"), node("n2"), pod("w-0"))
        placer.sync()
        await placer.settle()
        await placer.until(lambda: len(placer.proposals) == 1, what="the proposal")
        (first,) = placer.proposals
        assert isinstance(first.event, Proposed)
        refused = first.event.assignments[0].node
        member = OpenMember(pod="w-0", uid=Uid("uid-team-a-w-0"), excluded_nodes=(refused,))
        placer.end(
            first, Repairing(round=0, bound=(), open=(member,), until=placer.clock.now() + seconds(30), min_count=1)
        )
        await placer.until(lambda: len(placer.proposals) == 2, what="the next round")
        second = placer.proposals[1]
        assert isinstance(second.event, Proposed)
        assert (second.transaction, second.event.round) == (first.transaction, 1)
        assert second.event.assignments[0].node != refused


async def test_decision_continues_the_trace_of_its_cause() -> None:
    """The span's parent is the event that made it possible, the other members' events are links."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with placing(tracer=provider.get_tracer("test")) as placer:
        first, last = members("train", count=2)
        placer.show(node("n1"), pod_group("train", min_count=2))
        placer.show(first, traceparent=f"00-{'1' * 32}-{'a' * 16}-01")
        placer.show(last, traceparent=f"00-{TRACE}-{'b' * 16}-01")
        placer.sync()
        await placer.settle()
        await placer.until(lambda: bool(exporter.get_finished_spans()), what="the span has ended")
        (message,) = placer.bus.stored(PLACEMENT_STREAM.name)
    (span,) = exporter.get_finished_spans()
    assert span.name == "gang.decide"
    assert span.parent is not None
    assert (span.parent.trace_id, span.parent.span_id) == (int(TRACE, 16), int("b" * 16, 16))
    assert [link.context.trace_id for link in span.links] == [int("1" * 32, 16)]
    assert span.attributes is not None
    assert span.attributes["phalanx.gang"] == "podgroup/team-a/train"
    assert span.attributes["phalanx.event"] == "proposed"
    context = span.get_span_context()
    assert context is not None
    assert message.headers["traceparent"] == f"00-{TRACE}-{context.span_id:016x}-01"


async def test_untraced_placer_passes_the_trace_on() -> None:
    """Without a collector of its own it does not cut the trace between its neighbours."""
    async with placing() as placer:
        placer.show(node("n1"), pod("w-0"), traceparent=f"00-{TRACE}-{'b' * 16}-01")
        placer.sync()
        await placer.settle()
        await placer.until(lambda: bool(placer.proposals), what="the proposal")
        (message,) = placer.bus.stored(PLACEMENT_STREAM.name)
        assert message.headers["traceparent"] == f"00-{TRACE}-{'b' * 16}-01"


def test_foreign_proposal_is_on_the_subject_of_ours() -> None:
    """Otherwise the conflicts above would be none."""
    assert decision_subject(foreign_proposal()) == PROPOSED
    assert encode_decision(replace(foreign_proposal(), epoch=1)) != encode_decision(foreign_proposal())
