"""Writing to members until each has a definite answer.

Repeating is safe because every write is fenced by the pod's version: at most one copy of a binding can win, and the
pod itself tells which. What a definite answer means is decided by `services.core.transaction_answers`.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

from opentelemetry.trace import Tracer, get_current_span

from services.binder.bursting import LONGEST_S, WORKERS, Step, each
from services.binder.metrics import BinderMetrics
from services.binder.ports import Changed, Manifest, NoAnswer, PodApi
from services.core.objects import Kind, NodeName, Pod, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from services.core.reduce import MalformedObject, reduce_leniently
from services.core.transaction_answers import (
    ApiAnswer,
    Meaning,
    forbidden,
    meaning_of,
    node_gone,
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

_MARGIN = timedelta(seconds=LONGEST_S)

T = TypeVar("T")

Tell = Callable[[Reason], None]
"""Takes what a write is waiting for, so that a deadline can name it."""

HasNode = Callable[[NodeName], bool]
"""Tells whether the followed cluster has a node. Asked before each binding is sent: the API server does not ask."""


class PodWriter:
    """Carries out the writes of transactions on pods."""

    def __init__(
        self,
        api: PodApi,
        *,
        tracer: Tracer,
        metrics: BinderMetrics,
        clock: Clock,
        has_node: HasNode,
        workers: int = WORKERS,
    ) -> None:
        """Keep the parts. `workers` members of a burst are written at once; more than connections gain nothing."""
        self._workers = workers
        self._has_node = has_node
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
        attempts: list[_Binding] = []

        def attempt(target: Target) -> Step[Answer]:
            made = _Binding(
                self._api,
                namespace=namespace,
                transaction=transaction,
                target=target,
                until=until,
                is_dry_run=is_dry_run,
                tell=tell,
                clock=self._clock,
                has_node=self._has_node,
            )
            attempts.append(made)
            return made.once

        try:
            return await each(targets, attempt, clock=self._clock, workers=self._workers)
        finally:
            if not is_dry_run:
                self._record(attempts)

    def _record(self, attempts: Iterable["_Binding"]) -> None:
        """Count the bindings, and make a span of each where the trace is recorded: after the burst, not within it."""
        counts = Counter(one.answer.verdict for one in attempts if one.answer is not None)
        for verdict, count in counts.items():
            self._metrics.bindings.labels(outcome=verdict.value).inc(count)
        if not get_current_span().is_recording():
            return
        for one in attempts:
            attributes = {telemetry.ATTR_NODE: one.target.node, telemetry.ATTR_POD: one.target.pod}
            if one.answer is not None:
                attributes[telemetry.ATTR_OUTCOME] = one.answer.verdict.value
            span = self._tracer.start_span(
                telemetry.SPAN_BINDING, attributes=attributes, start_time=_nanoseconds(one.started_at)
            )
            span.end(_nanoseconds(one.ended_at or self._clock.now()))

    async def fence(
        self, namespace: str, *, transaction: TransactionId, targets: Sequence[Target], tell: Tell
    ) -> dict[Uid, Reading]:
        """Change the members, so that late copies of earlier writes fail, and return what they are now."""

        def one(target: Target) -> Step[Reading]:
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

            return once

        return await each(targets, one, clock=self._clock, workers=self._workers)

    async def undo(
        self, namespace: str, *, transaction: TransactionId, targets: Sequence[Target], tell: Tell
    ) -> dict[Uid, Removal]:
        """Delete bound members, each announced first; repeats until every one is going or gone."""

        def attempt(target: Target) -> Step[Removal]:
            return _Removal(self._api, namespace=namespace, transaction=transaction, target=target, tell=tell).once

        removals = await each(targets, attempt, clock=self._clock, workers=self._workers)
        self._metrics.undone.inc(sum(one is Removal.DELETED for one in removals.values()))
        return removals

    async def _look(self, namespace: str, *, target: Target, transaction: TransactionId, tell: Tell) -> Reading | None:
        found = await heard(self._api.read(namespace, names=[target.pod]), tell)
        return None if found is None else _reading(found.get(target.pod), target=target, transaction=transaction)


class _Binding:
    """One member's binding, over as many requests as it takes."""

    __slots__ = (
        "_api",
        "_clock",
        "_conflicts",
        "_has_node",
        "_is_dry_run",
        "_is_in_doubt",
        "_namespace",
        "_tell",
        "_transaction",
        "_unsure",
        "_until",
        "answer",
        "ended_at",
        "started_at",
        "target",
    )

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
        has_node: HasNode,
    ) -> None:
        self._has_node = has_node
        self._api = api
        self._namespace = namespace
        self._transaction = transaction
        self.target = target
        self._until = until
        self._is_dry_run = is_dry_run
        self._tell = tell
        self._clock = clock
        self._is_in_doubt = False
        self._conflicts = 0
        self._unsure = 0
        self.answer: Answer | None = None
        self.started_at = clock.now()
        self.ended_at: datetime | None = None

    async def once(self) -> Answer | None:
        """Try; None where the answer is not definite yet."""
        answer = await self._tried()
        if answer is None:
            return None
        if self._is_in_doubt and not self._is_dry_run:
            answer = replace(answer, is_in_doubt=True)
        self.answer, self.ended_at = answer, self._clock.now()
        return answer

    async def _tried(self) -> Answer | None:
        if not self._is_dry_run and not self._has_node(self.target.node):
            return node_gone(self.target)
        try:
            answer = await self._api.bind(
                self._namespace, target=self.target, transaction=self._transaction, is_dry_run=self._is_dry_run
            )
        except NoAnswer as error:
            self._is_in_doubt = True
            self._tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=str(error), count=1))
            return None
        match meaning_of(answer):
            case Meaning.TAKEN:
                verdict = Verdict.PASSED if self._is_dry_run else Verdict.BOUND
                return Answer(verdict=verdict, node=self.target.node)
            case Meaning.LOOK:
                return await self._look(answer)
            case Meaning.FORBIDDEN:
                return self._without_permission(answer)
            case Meaning.REFUSED:
                return refused(answer.message, target=self.target)
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
                return refused(answer.message, target=self.target)
        return None

    def _without_permission(self, answer: ApiAnswer) -> Answer | None:
        given = forbidden(answer.message)
        if given.reason is not None:
            self._tell(given.reason)
        return None if self._clock.now() + _MARGIN < self._until else given

    async def _look(self, answer: ApiAnswer) -> Answer | None:
        """Settle a conflict by the pod itself."""
        found = await heard(self._api.read(self._namespace, names=[self.target.pod]), self._tell)
        if found is None:
            return None
        reading = _reading(found.get(self.target.pod), target=self.target, transaction=self._transaction)
        given = settled(reading, target=self.target)
        if given is not None:
            return given
        self._conflicts += 1
        if reading.version == self.target.version or self._conflicts > MAX_CONFLICTS:
            return refused(answer.message, target=self.target)
        self.target = replace(self.target, version=reading.version)
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
        message = f"the gang cannot have as many members as it needs; transaction {self._transaction} takes them back"
        announcement = self._api.announce_end(self._namespace, target=self._target, message=message)
        changed = await _patched(announcement, self._target, self._tell)
        if changed is None:
            return None
        manifest = changed.manifest
        if manifest is None:
            self._refusals += 1
            if meaning_of(changed.answer) is not Meaning.LOOK and self._refusals < MAX_PATCH_REFUSALS:
                return None
            found = await heard(self._api.read(self._namespace, names=[self._target.pod]), self._tell)
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
        answer = await heard(self._api.delete(self._namespace, target=target), self._tell)
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


async def heard(request: Awaitable[T], tell: Tell) -> T | None:
    """Return the answer, or None where there is none yet."""
    try:
        return await request
    except NoAnswer as error:
        tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=str(error), count=1))
        return None


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
    changed = await heard(request, tell)
    if changed is None or changed.manifest is not None:
        return changed
    answer = changed.answer
    meaning = meaning_of(answer)
    text = f"pod {target.pod} cannot be patched: {answer.status} {answer.message[:300]}"
    code = ReasonCode.FORBIDDEN if meaning is Meaning.FORBIDDEN else ReasonCode.API_UNAVAILABLE
    if meaning is not Meaning.LOOK:
        tell(Reason(code=code, message=text, count=1))
    return changed if meaning in {Meaning.LOOK, Meaning.REFUSED} else None


def _nanoseconds(moment: datetime) -> int:
    """Return a moment as spans take it."""
    return int(moment.timestamp() * 1e9)
