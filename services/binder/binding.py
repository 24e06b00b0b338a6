"""Writing to members until each has a definite answer.

Repeating is safe because every write is fenced by the pod's version: at most one copy of a binding can win, and the
pod itself tells which. What a definite answer means is decided by `services.core.transaction_answers`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from opentelemetry.trace import Tracer
from tenacity import AsyncRetrying, retry_if_result, wait_random_exponential

from services.binder.metrics import BinderMetrics
from services.binder.ports import Changed, Manifest, NoAnswer, PodApi
from services.core.objects import Kind, Pod, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.reduce import MalformedObject, reduce_leniently
from services.core.transaction_answers import (
    ApiAnswer,
    Meaning,
    forbidden,
    meaning_of,
    reading_of,
    refused,
    service_account_of,
    settled,
)
from services.core.transaction_values import Answer, Found, Reading, Removal, Target, Verdict
from services.runtime import telemetry
from services.runtime.clock import Clock

MAX_CONFLICTS = 10
"""Times that a member may change under us before its binding counts as refused."""

MAX_UNSURE = 3
"""Answers with a server fault that are not believed; the pod is fenced before anything rests on the next one."""

MAX_PATCH_REFUSALS = 5
"""Refusals of a patch after which a member is judged without it."""

SHORTEST_S, LONGEST_S = 0.05, 2.0
_MARGIN = timedelta(seconds=LONGEST_S)

T = TypeVar("T")

Tell = Callable[[Reason], None]
"""Takes what a write is waiting for, so that a deadline can name it."""


class PodWriter:
    """Carries out the writes of transactions on pods."""

    def __init__(self, api: PodApi, *, tracer: Tracer, metrics: BinderMetrics, clock: Clock) -> None:
        """Keep the parts."""
        self._api = api
        self._tracer = tracer
        self._metrics = metrics
        self._clock = clock

    async def bind(
        self,
        namespace: str,
        *,
        transaction: TransactionId,
        targets: Sequence[Target],
        until: datetime,
        tell: Tell,
        is_dry_run: bool,
    ) -> dict[Uid, Answer]:
        """Bind the members, or try to, all at once; returns when every answer is definite."""

        async def one(target: Target) -> Answer:
            attempt = _Binding(
                self._api,
                namespace=namespace,
                transaction=transaction,
                target=target,
                until=until,
                is_dry_run=is_dry_run,
                tell=tell,
                clock=self._clock,
            )
            if is_dry_run:
                return await attempt.settle()
            attributes = {telemetry.ATTR_NODE: target.node, telemetry.ATTR_POD: target.pod}
            with self._tracer.start_as_current_span(telemetry.SPAN_BINDING, attributes=attributes) as span:
                answer = await attempt.settle()
                span.set_attribute(telemetry.ATTR_OUTCOME, answer.verdict.value)
            self._metrics.bindings.labels(outcome=answer.verdict.value).inc()
            return answer

        return await _all(targets, one)

    async def fence(
        self, namespace: str, *, transaction: TransactionId, targets: Sequence[Target], tell: Tell
    ) -> dict[Uid, Reading]:
        """Change the members, so that late copies of earlier writes fail, and return what they are now."""

        async def one(target: Target) -> Reading:
            refusals = 0

            async def once() -> Reading | None:
                nonlocal refusals
                mark = f"{transaction}/{self._clock.now().isoformat()}"
                changed = await _patched(self._api.touch(namespace, target=target, mark=mark), target, tell)
                if changed is None:
                    return None
                if changed.manifest is not None:
                    return _reading(changed.manifest, target=target, transaction=transaction)
                refusals += 1
                if meaning_of(changed.answer) is Meaning.LOOK or refusals >= MAX_PATCH_REFUSALS:
                    return await self._look(namespace, target=target, transaction=transaction, tell=tell)
                return None

            return await _until_definite(once, clock=self._clock)

        return await _all(targets, one)

    async def undo(
        self, namespace: str, *, transaction: TransactionId, targets: Sequence[Target], tell: Tell
    ) -> dict[Uid, Removal]:
        """Delete bound members, each announced first; repeats until every one is going or gone."""

        async def one(target: Target) -> Removal:
            attempt = _Removal(self._api, namespace=namespace, transaction=transaction, target=target, tell=tell)
            removal = await _until_definite(attempt.once, clock=self._clock)
            if removal is Removal.DELETED:
                self._metrics.undone.inc()
            return removal

        return await _all(targets, one)

    async def _look(self, namespace: str, *, target: Target, transaction: TransactionId, tell: Tell) -> Reading | None:
        found = await _heard(self._api.read(namespace, names=[target.pod]), tell)
        return None if found is None else _reading(found.get(target.pod), target=target, transaction=transaction)


class _Binding:
    """One member's binding, over as many requests as it takes."""

    def __init__(
        self,
        api: PodApi,
        *,
        namespace: str,
        transaction: TransactionId,
        target: Target,
        until: datetime,
        is_dry_run: bool,
        tell: Tell,
        clock: Clock,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._transaction = transaction
        self._target = target
        self._until = until
        self._is_dry_run = is_dry_run
        self._tell = tell
        self._clock = clock
        self._is_in_doubt = False
        self._conflicts = 0
        self._unsure = 0

    async def settle(self) -> Answer:
        """Repeat until the answer is definite."""
        answer = await _until_definite(self._once, clock=self._clock)
        return replace(answer, is_in_doubt=self._is_in_doubt and not self._is_dry_run)

    async def _once(self) -> Answer | None:
        try:
            answer = await self._api.bind(
                self._namespace, target=self._target, transaction=self._transaction, is_dry_run=self._is_dry_run
            )
        except NoAnswer as error:
            self._is_in_doubt = True
            self._tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=str(error), count=1))
            return None
        match meaning_of(answer):
            case Meaning.TAKEN:
                verdict = Verdict.PASSED if self._is_dry_run else Verdict.BOUND
                return Answer(verdict=verdict, node=self._target.node)
            case Meaning.LOOK:
                return await self._look(answer)
            case Meaning.FORBIDDEN:
                return self._without_permission(answer)
            case Meaning.REFUSED:
                return refused(answer.message, target=self._target)
            case meaning:
                return self._later(answer, meaning)

    def _later(self, answer: ApiAnswer, meaning: Meaning) -> Answer | None:
        text = f"the API server answered {answer.status}: {answer.message[:300]}"
        self._tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=text, count=1))
        if meaning is not Meaning.LATER:
            self._is_in_doubt = True
        if meaning is Meaning.UNSURE:
            self._unsure += 1
            if self._unsure >= MAX_UNSURE:
                return refused(answer.message, target=self._target)
        return None

    def _without_permission(self, answer: ApiAnswer) -> Answer | None:
        given = forbidden(answer.message)
        if given.reason is not None:
            self._tell(given.reason)
        return None if self._clock.now() + _MARGIN < self._until else given

    async def _look(self, answer: ApiAnswer) -> Answer | None:
        """Settle a conflict by the pod itself."""
        found = await _heard(self._api.read(self._namespace, names=[self._target.pod]), self._tell)
        if found is None:
            return None
        reading = _reading(found.get(self._target.pod), target=self._target, transaction=self._transaction)
        given = settled(reading, target=self._target)
        if given is not None:
            return given
        self._conflicts += 1
        if reading.version == self._target.version or self._conflicts > MAX_CONFLICTS:
            return refused(answer.message, target=self._target)
        self._target = replace(self._target, version=reading.version)
        return None


class _Removal:
    """One member's undo, over as many requests as it takes."""

    def __init__(self, api: PodApi, *, namespace: str, transaction: TransactionId, target: Target, tell: Tell) -> None:
        self._api = api
        self._namespace = namespace
        self._transaction = transaction
        self._target = target
        self._tell = tell
        self._is_delete_sent = False
        self._refusals = 0

    async def once(self) -> Removal | None:
        """Announce, then delete; None where it has to be tried again."""
        message = f"too few members of the gang could be bound; transaction {self._transaction} is undone"
        announcement = self._api.announce_end(self._namespace, target=self._target, message=message)
        changed = await _patched(announcement, self._target, self._tell)
        if changed is None:
            return None
        manifest = changed.manifest
        if manifest is None:
            self._refusals += 1
            if meaning_of(changed.answer) is not Meaning.LOOK and self._refusals < MAX_PATCH_REFUSALS:
                return None
            found = await _heard(self._api.read(self._namespace, names=[self._target.pod]), self._tell)
            if found is None:
                return None
            manifest = found.get(self._target.pod)
        reading = _reading(manifest, target=self._target, transaction=self._transaction)
        if reading.found is Found.GONE:
            return Removal.DELETED if self._is_delete_sent else Removal.GONE
        if reading.is_finished:
            return Removal.FINISHED
        return await self._delete(replace(self._target, version=reading.version))

    async def _delete(self, target: Target) -> Removal | None:
        self._is_delete_sent = True
        answer = await _heard(self._api.delete(self._namespace, target=target), self._tell)
        if answer is None:
            return None
        meaning = meaning_of(answer)
        if meaning is Meaning.TAKEN:
            return Removal.DELETED
        # A conflict or a missing pod is settled by the next look; everything else has to change from outside.
        if meaning is not Meaning.LOOK:
            text = f"pod {target.pod} cannot be deleted: {answer.status} {answer.message[:300]}"
            code = ReasonCode.FORBIDDEN if meaning is Meaning.FORBIDDEN else ReasonCode.API_UNAVAILABLE
            self._tell(Reason(code=code, message=text, count=1))
        return None


async def _all(targets: Sequence[Target], work: Callable[[Target], Awaitable[T]]) -> dict[Uid, T]:
    """Do the work for every member at once; how many requests are in flight is bounded by the adapter."""
    async with asyncio.TaskGroup() as group:
        tasks = {target.uid: group.create_task(_awaited(work(target))) for target in targets}
    return {uid: task.result() for uid, task in tasks.items()}


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _heard(request: Awaitable[T], tell: Tell) -> T | None:
    """Return the answer, or None where there is none yet."""
    try:
        return await request
    except NoAnswer as error:
        tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=str(error), count=1))
        return None


async def _until_definite(once: Callable[[], Awaitable[T | None]], *, clock: Clock) -> T:
    """Repeat an idempotent step until it has an answer."""
    patient = AsyncRetrying(
        retry=retry_if_result(lambda answer: answer is None),
        wait=wait_random_exponential(multiplier=SHORTEST_S, max=LONGEST_S),
        sleep=clock.sleep,
    )
    answer: T | None = await patient(once)
    if answer is None:
        raise AssertionError("retried for ever, and yet ended")
    return answer


def _reading(manifest: Manifest | None, *, target: Target, transaction: TransactionId) -> Reading:
    return read_pod(manifest, uid=target.uid, transaction=transaction)[1]


def read_pod(manifest: Manifest | None, *, uid: Uid, transaction: TransactionId) -> tuple[Pod | None, Reading]:
    """Return a live pod and what it means to the transaction. A pod that cannot be understood counts as gone."""
    if manifest is None:
        return None, Reading(found=Found.GONE)
    try:
        pod = reduce_leniently(Kind.POD, manifest)
    except MalformedObject:
        return None, Reading(found=Found.GONE)
    assert isinstance(pod, Pod)
    account = service_account_of(manifest)
    return pod, reading_of(pod, uid=uid, transaction=transaction, service_account=account)


async def _patched(request: Awaitable[Changed], target: Target, tell: Tell) -> Changed | None:
    """Return the answer to a patch, or None where it is not definite or has to be permitted first."""
    changed = await _heard(request, tell)
    if changed is None or changed.manifest is not None:
        return changed
    answer = changed.answer
    meaning = meaning_of(answer)
    text = f"pod {target.pod} cannot be patched: {answer.status} {answer.message[:300]}"
    code = ReasonCode.FORBIDDEN if meaning is Meaning.FORBIDDEN else ReasonCode.API_UNAVAILABLE
    if meaning is not Meaning.LOOK:
        tell(Reason(code=code, message=text, count=1))
    return changed if meaning in {Meaning.LOOK, Meaning.REFUSED} else None
