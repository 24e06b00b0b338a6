"""Writes that are repeated until their answer is definite."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import TypeVar

import pytest
from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry

from services.binder.binding import MAX_CONFLICTS, MAX_UNSURE, PodWriter
from services.binder.metrics import BinderMetrics
from services.core.names import FENCE_ANNOTATION, TRANSACTION_ANNOTATION
from services.core.objects import NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_answers import ApiAnswer
from services.core.transaction_values import Answer, Found, Reading, Removal, Target, Verdict
from tests.fakes.clock import FakeClock
from tests.unit.binder.fakes import LOST_AFTER, LOST_BEFORE, FakePods

T = TypeVar("T")
TRANSACTION = TransactionId("t1")
RBAC = ApiAnswer(status=403, message='cannot create resource "pods/binding"')
BUSY = ApiAnswer(status=429, message="slow down")
BROKEN = ApiAnswer(status=500, message="boom")


def target(name: str, *, version: str = "1") -> Target:
    """The pod as a write addresses it."""
    return Target(pod=name, uid=Uid(f"u-{name}"), node=NodeName("n1"), version=version)


class Writer:
    """A writer over fakes; what it tells is kept."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.pods = FakePods()
        self.told: list[Reason] = []
        metrics = BinderMetrics(CollectorRegistry())
        self.nodes = {NodeName("n1")}
        self.writer = PodWriter(
            self.pods,
            tracer=NoOpTracer(),
            metrics=metrics,
            clock=self.clock,
            has_node=lambda node: node in self.nodes,
        )

    async def bind(self, *targets: Target, is_dry_run: bool = False, until_s: float = 60) -> dict[Uid, Answer]:
        """Bind, letting time pass as it is slept."""
        return await self.timed(
            self.writer.bind(
                "a",
                transaction=TRANSACTION,
                targets=targets,
                until=self.clock.now() + timedelta(seconds=until_s),
                tell=self.told.append,
                is_dry_run=is_dry_run,
            )
        )

    async def bind_one(self, one: Target, *, until_s: float = 60) -> Answer:
        """Bind one pod."""
        return (await self.bind(one, until_s=until_s))[one.uid]

    async def fence(self, one: Target) -> Reading:
        """Fence one pod."""
        work = self.writer.fence("a", transaction=TRANSACTION, targets=[one], tell=self.told.append)
        return (await self.timed(work))[one.uid]

    async def undo(self, one: Target) -> Removal:
        """Undo one pod."""
        work = self.writer.undo("a", transaction=TRANSACTION, targets=[one], tell=self.told.append)
        return (await self.timed(work))[one.uid]

    async def timed(self, work: Awaitable[T]) -> T:
        """Await, moving the clock whenever everybody sleeps."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await self.clock.run_for(1)
        return await task


@pytest.fixture
def writer() -> Writer:
    """A writer with one pod, w."""
    made = Writer()
    made.pods.add("w")
    return made


class TestBind:
    """One binding, whatever is answered on the way."""

    async def test_many_at_once(self, writer: Writer) -> None:
        """Each has its own answer."""
        writer.pods.add("x", "y")
        del writer.pods.pods["y"]
        answers = await writer.bind(target("w"), target("x"), target("y"))
        assert {uid: one.verdict for uid, one in answers.items()} == {
            "u-w": Verdict.BOUND,
            "u-x": Verdict.BOUND,
            "u-y": Verdict.GONE,
        }

    @pytest.mark.parametrize("lost", [LOST_BEFORE, LOST_AFTER])
    async def test_a_lost_answer_is_asked_for_again(self, writer: Writer, lost: str) -> None:
        """Whether the write had happened or not, the pod is bound once and the answer is definite."""
        writer.pods.fail("bind", lost, lost)
        answer = await writer.bind_one(target("w"))
        assert (answer.verdict, answer.node) == (Verdict.BOUND, "n1")
        assert writer.pods.pods["w"]["metadata"]["annotations"][TRANSACTION_ANNOTATION] == "t1"
        assert writer.told[0].code is ReasonCode.API_UNAVAILABLE

    async def test_a_refusal_after_a_lost_answer_leaves_doubt(self, writer: Writer) -> None:
        """The first copy may still be on its way."""
        writer.pods.fail("bind", LOST_BEFORE, ApiAnswer(status=422, message="no"))
        answer = await writer.bind_one(target("w"))
        assert (answer.verdict, answer.is_in_doubt) == (Verdict.REFUSED, True)

    async def test_nothing_is_bound_to_a_node_that_is_gone(self, writer: Writer) -> None:
        """The API server would take it; the member is open, and the reason names the node."""
        writer.nodes.clear()
        answer = await writer.bind_one(target("w"))
        assert (answer.verdict, answer.is_in_doubt) == (Verdict.REFUSED, False)
        assert answer.reason is not None
        assert (answer.reason.code, answer.reason.subject) == (ReasonCode.PLACEMENT_STALE, "n1")
        assert writer.pods.calls["bind"] == 0

    async def test_a_node_that_goes_between_two_tries_leaves_doubt(self, writer: Writer) -> None:
        """The first copy may still be on its way: it is not sent again, and has to be fenced."""
        writer.pods.fail("bind", LOST_BEFORE)
        task = asyncio.create_task(writer.bind_one(target("w")))
        await writer.clock.settle()
        assert writer.pods.calls["bind"] == 1
        writer.nodes.clear()
        answer = await task
        assert (answer.verdict, answer.is_in_doubt) == (Verdict.REFUSED, True)
        assert writer.pods.calls["bind"] == 1

    async def test_a_plain_refusal_leaves_none(self, writer: Writer) -> None:
        """The server answered, and nothing is on its way."""
        writer.pods.fail("bind", ApiAnswer(status=422, message="no"))
        answer = await writer.bind_one(target("w"))
        assert (answer.verdict, answer.is_in_doubt) == (Verdict.REFUSED, False)

    async def test_a_new_version_is_bound_in_that_version(self, writer: Writer) -> None:
        """Somebody labelled the pod."""
        writer.pods.touch_from_outside("w")
        assert (await writer.bind_one(target("w"))).verdict is Verdict.BOUND

    async def test_a_pod_that_never_rests_is_refused(self, writer: Writer) -> None:
        """A few conflicts are chance, many are not."""
        writer.pods.is_restless = True
        writer.pods.fail("bind", *[ApiAnswer(status=409, message="changed")] * (MAX_CONFLICTS + 1))
        answer = await writer.bind_one(target("w"))
        assert answer.verdict is Verdict.REFUSED
        assert writer.pods.calls["bind"] == MAX_CONFLICTS + 1

    async def test_a_conflict_over_an_unchanged_pod_is_a_refusal(self, writer: Writer) -> None:
        """A webhook may say 409 as well."""
        writer.pods.fail("bind", ApiAnswer(status=409, message="the webhook says no"))
        answer = await writer.bind_one(target("w"))
        assert answer.verdict is Verdict.REFUSED
        assert answer.reason is not None
        assert "the webhook says no" in answer.reason.message

    async def test_bound_by_somebody_else(self, writer: Writer) -> None:
        """Its node is told."""
        writer.pods.pods["w"]["spec"]["nodeName"] = "n9"
        answer = await writer.bind_one(target("w"))
        assert (answer.verdict, answer.node) == (Verdict.ELSEWHERE, "n9")

    async def test_another_pod_of_the_same_name(self, writer: Writer) -> None:
        """The uid tells."""
        writer.pods.pods["w"]["metadata"]["uid"] = "another"
        assert (await writer.bind_one(target("w"))).verdict is Verdict.GONE

    async def test_a_busy_server_is_asked_again_without_doubt(self, writer: Writer) -> None:
        """429 says that nothing happened."""
        writer.pods.fail("bind", BUSY, BUSY, ApiAnswer(status=422, message="no"))
        answer = await writer.bind_one(target("w"))
        assert (answer.verdict, answer.is_in_doubt) == (Verdict.REFUSED, False)

    async def test_server_faults_are_believed_in_the_end(self, writer: Writer) -> None:
        """A bad target is answered by 500 for ever; the pod is fenced before anything rests on it."""
        writer.pods.fail("bind", *[BROKEN] * MAX_UNSURE)
        answer = await writer.bind_one(target("w"))
        assert (answer.verdict, answer.is_in_doubt) == (Verdict.REFUSED, True)

    async def test_a_missing_permission_is_waited_for(self, writer: Writer) -> None:
        """It is told at once, and the binding goes on when it is granted."""
        writer.pods.fail("bind", RBAC, RBAC)
        assert (await writer.bind_one(target("w"))).verdict is Verdict.BOUND
        assert {one.code for one in writer.told} == {ReasonCode.FORBIDDEN}

    async def test_a_missing_permission_is_waited_for_until_the_deadline(self, writer: Writer) -> None:
        """Then it is the answer."""
        writer.pods.fail("bind", *[RBAC] * 1000)
        started = writer.clock.monotonic()
        assert (await writer.bind_one(target("w"), until_s=10)).verdict is Verdict.FORBIDDEN
        assert writer.clock.monotonic() - started <= 11

    async def test_a_dry_run_binds_nothing_and_leaves_no_doubt(self, writer: Writer) -> None:
        """Its lost answers had no effect."""
        writer.pods.fail("bind", LOST_BEFORE, ApiAnswer(status=422, message="no"))
        answer = (await writer.bind(target("w"), is_dry_run=True))[Uid("u-w")]
        assert (answer.verdict, answer.is_in_doubt) == (Verdict.REFUSED, False)
        answer = (await writer.bind(target("w"), is_dry_run=True))[Uid("u-w")]
        assert answer.verdict is Verdict.PASSED
        assert "nodeName" not in writer.pods.pods["w"]["spec"]


class TestFence:
    """Changing a pod, so that late copies fail."""

    async def test_the_pod_is_changed_and_read(self, writer: Writer) -> None:
        """The answer has the new version."""
        reading = await writer.fence(target("w"))
        assert (reading.found, reading.version) == (Found.READY, "2")
        assert writer.pods.pods["w"]["metadata"]["annotations"][FENCE_ANNOTATION].startswith("t1/")

    async def test_a_late_copy_meets_a_conflict(self, writer: Writer) -> None:
        """The write of the first version is void."""
        await writer.fence(target("w"))
        answer = await writer.pods.bind("a", target=target("w"), transaction=TRANSACTION, is_dry_run=False)
        assert answer.status == 409

    async def test_it_is_repeated_until_it_happened(self, writer: Writer) -> None:
        """Lost answers, a busy server and missing permissions all have to end first."""
        forbidden = ApiAnswer(status=403, message='cannot patch resource "pods"')
        writer.pods.fail("touch", LOST_BEFORE, BUSY, BROKEN, forbidden, *[forbidden] * 10, LOST_AFTER)
        reading = await writer.fence(target("w"))
        assert reading.found is Found.READY
        assert writer.pods.calls["touch"] == 16

    async def test_a_pod_that_is_gone_needs_none(self, writer: Writer) -> None:
        """Nothing can be bound."""
        del writer.pods.pods["w"]
        assert (await writer.fence(target("w"))).found is Found.GONE

    async def test_a_pod_that_admission_protects_is_read_as_it_is(self, writer: Writer) -> None:
        """A webhook that refuses every change cannot hold the gang for ever."""
        writer.pods.fail("touch", *[ApiAnswer(status=422, message="no")] * 5)
        assert (await writer.fence(target("w"))).found is Found.READY


class TestUndo:
    """Taking a bound pod back."""

    async def test_announced_then_deleted(self, writer: Writer) -> None:
        """In the version that the announcement made."""
        assert await writer.undo(target("w", version="")) is Removal.DELETED
        assert writer.pods.pods == {}
        assert writer.pods.calls == {"announce_end": 1, "delete": 1}

    @pytest.mark.parametrize("method", ["announce_end", "delete"])
    @pytest.mark.parametrize("lost", [LOST_BEFORE, LOST_AFTER])
    async def test_lost_answers(self, writer: Writer, method: str, lost: str) -> None:
        """Asked again until the pod is going; a deletion whose answer was lost is ours all the same."""
        writer.pods.fail(method, lost)
        assert await writer.undo(target("w")) is Removal.DELETED
        assert writer.pods.pods == {}

    async def test_a_pod_that_somebody_deleted(self, writer: Writer) -> None:
        """It is not counted as undone."""
        del writer.pods.pods["w"]
        assert await writer.undo(target("w")) is Removal.GONE

    async def test_a_finished_pod_stays(self, writer: Writer) -> None:
        """It holds nothing, and its result is its owner's."""
        writer.pods.pods["w"]["status"]["phase"] = "Succeeded"
        assert await writer.undo(target("w")) is Removal.FINISHED
        assert "w" in writer.pods.pods

    async def test_a_version_that_changed_is_read_again(self, writer: Writer) -> None:
        """The kubelet writes the status of a bound pod all the time."""
        writer.pods.fail("delete", ApiAnswer(status=409, message="changed"))
        assert await writer.undo(target("w")) is Removal.DELETED

    async def test_a_missing_permission_is_waited_for(self, writer: Writer) -> None:
        """Half an undo is worse than a late one."""
        forbidden = ApiAnswer(status=403, message='cannot delete resource "pods"')
        writer.pods.fail("delete", *[forbidden] * 20)
        assert await writer.undo(target("w")) is Removal.DELETED
        assert {one.code for one in writer.told} == {ReasonCode.FORBIDDEN}

    async def test_a_condition_that_cannot_be_written_does_not_hold_it(self, writer: Writer) -> None:
        """After some refusals the pod is deleted without."""
        writer.pods.fail("announce_end", *[ApiAnswer(status=422, message="no")] * 5)
        assert await writer.undo(target("w")) is Removal.DELETED
