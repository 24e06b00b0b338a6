"""Writing to ResourceClaims until each has a definite answer.

What has to be written next is judged by `services.core.claim_writes` on the claim as it was read last, so that
repeating is safe: a lost answer is resolved by looking, and every write is fenced by the claim's version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta

from services.binder.binding import Tell, heard
from services.binder.bursting import WORKERS, Step, each
from services.binder.claim_steps import ClaimBook, Freeing, Holding, collision, no_answer, readiness
from services.binder.metrics import BinderMetrics
from services.binder.ports import ClaimApi, Manifest, NoAnswer, PodApi
from services.contracts.policy_file import PolicySource
from services.core.claim_bodies import metadata_of
from services.core.claim_writes import Deal, collisions, shared_devices
from services.core.objects import GangId, TransactionId, namespace_of
from services.core.transaction_values import (
    Allocate,
    Allocated,
    ClaimAnswer,
    ClaimTarget,
    ClaimVerdict,
    Free,
    Freed,
    FreeTarget,
    Prepare,
    Prepared,
)
from services.runtime.clock import Clock

PATIENCE = timedelta(seconds=10)
"""How long a claim is waited for that its controller has not made yet."""

PREPARE_POLL_S = 1.0
"""Between two looks at devices that become ready: their drivers take seconds to minutes."""


class ClaimWriter:
    """Carries out the writes of transactions on claims."""

    def __init__(
        self,
        api: ClaimApi,
        *,
        pods: PodApi,
        policy: PolicySource,
        metrics: BinderMetrics,
        clock: Clock,
        workers: int = WORKERS,
    ) -> None:
        """Keep the parts; the policy says which device classes other schedulers use too."""
        self._api = api
        self._pods = pods
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._workers = workers

    async def allocate(
        self, instruction: Allocate, *, gang: GangId, transaction: TransactionId, tell: Tell
    ) -> Allocated:
        """Allocate and reserve the claims; returns when every answer is definite."""
        book = ClaimBook(api=self._api, pods=self._pods, namespace=namespace_of(gang), transaction=transaction)
        now = self._clock.now()
        deal = Deal(
            transaction=transaction, gang=gang, classes=book.classes, now=f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        )
        wait_until = min(now + PATIENCE, instruction.until)
        attempts: dict[str, Holding] = {}

        def attempt(target: ClaimTarget) -> Step[ClaimAnswer]:
            made = Holding(
                self._api,
                target=target,
                book=book,
                deal=deal,
                tell=tell,
                clock=self._clock,
                wait_until=wait_until,
                until=instruction.until,
            )
            attempts[target.key] = made
            return made.once

        try:
            await book.open(instruction.targets)
        except NoAnswer as error:
            # Each claim is read again by itself, as long as it takes.
            tell(no_answer(error))
        answers = await each(instruction.targets, attempt, clock=self._clock, workers=self._workers)
        answers |= await self._collided(attempts, answers, tell=tell)
        for answer in answers.values():
            self._metrics.claims.held.labels(outcome=answer.verdict.value).inc()
        refs = {key: one.ref for key, one in attempts.items()}
        return Allocated(answers=answers, refs=refs, versions=book.versions)

    async def prepare(self, instruction: Prepare, *, gang: GangId, tell: Tell) -> Prepared:
        """Wait until the devices of all claims are ready, or one of them will not be."""
        waiting = {one.key: one for one in instruction.targets}
        failures: dict[str, ClaimAnswer] = {}
        names = {key: one.allocation.ref.name for key, one in waiting.items()}
        book = ClaimBook(api=self._api, pods=self._pods, namespace=namespace_of(gang), transaction=TransactionId(""))
        while waiting and not failures:
            is_late = self._clock.now() >= instruction.until
            try:
                await book.open(tuple(waiting.values()))
            except NoAnswer as error:
                tell(no_answer(error))
            else:
                for key, target in tuple(waiting.items()):
                    names[key] = book.name_of(target) or key
                    answer = readiness(book.known.get(names[key]), target=target, name=names[key], is_late=is_late)
                    if answer is not None:
                        del waiting[key]
                        failures |= {} if answer.verdict is ClaimVerdict.HELD else {key: answer}
            if waiting and not failures:
                await self._clock.sleep(PREPARE_POLL_S)
        return Prepared(failures=failures)

    async def free(self, instruction: Free, *, gang: GangId, transaction: TransactionId, tell: Tell) -> Freed:
        """Take back what the claims hold for members that were never bound; repeats until it is done."""
        book = ClaimBook(api=self._api, pods=self._pods, namespace=namespace_of(gang), transaction=transaction)

        def attempt(target: FreeTarget) -> Step[ClaimAnswer]:
            return Freeing(self._api, target=target, book=book, transaction=transaction, tell=tell).once

        try:
            await book.open(instruction.targets)
        except NoAnswer as error:
            tell(no_answer(error))
        done = await each(instruction.targets, attempt, clock=self._clock, workers=self._workers)
        self._metrics.claims.freed.inc(len(done))
        return Freed(keys=frozenset(done))

    async def _collided(
        self, attempts: Mapping[str, Holding], answers: Mapping[str, ClaimAnswer], *, tell: Tell
    ) -> dict[str, ClaimAnswer]:
        """Look at everybody's claims once ours are written, where others allocate devices of the same classes."""
        ownership = self._policy.value.ownership
        if not ownership.device_classes:
            return {}
        owned = frozenset(ownership.device_classes)
        ours = {
            key: devices
            for key, one in attempts.items()
            if answers[key].verdict is ClaimVerdict.HELD
            and one.target.allocation.results
            and one.claim is not None
            and (devices := shared_devices(one.claim, is_owned=owned))
        }
        if not ours:
            return {}
        uids = {key: str(metadata_of(attempts[key].claim or {}).get("uid")) for key in ours}
        found = collisions(ours, uids=uids, everyone=await self._everyone(tell))
        self._metrics.claims.collided.inc(len(found))
        return {key: collision(attempts[key].name, devices) for key, devices in found.items()}

    async def _everyone(self, tell: Tell) -> Sequence[Manifest]:
        """Return everybody's claims, asking as long as it takes."""

        async def once() -> Sequence[Manifest] | None:
            return await heard(self._api.everyone(), tell)

        return (await each((_EVERYONE,), lambda _: once, clock=self._clock))[_EVERYONE.key]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """Stands for one request that is repeated."""

    key: str = ""


_EVERYONE = _Whole()
