"""The sweep: what nothing explains is found and opened again, at the start of a reign and every while after it.

Live pods are compared with what stream and journal know, so that even a lost NATS volume heals. Who publishes what:
the sweep alone opens a transaction again, by a `proposed` under its old name; from there on it is a transaction like
any other, and the one that works on it writes its one ending. The write has the same condition as an ending (the last
message about the gang, all up to there folded), so a placer that proposes for the gang at the same moment wins or loses
as a whole.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from services.binder.following import Follower
from services.binder.metrics import SweepMetrics
from services.binder.ports import Manifest, NoAnswer
from services.binder.publishing import Publisher
from services.binder.world import World
from services.core.claim_bodies import transaction_of
from services.core.decisions import Decision
from services.core.objects import Kind, NodeName, Pod, TransactionId, Uid, namespace_of
from services.core.reasons import Reason
from services.core.reduce import MalformedObject, reduce
from services.core.sweeping import Leftover, leftovers
from services.core.transaction_state import TransactionState
from services.core.transaction_values import Reading, Target
from services.runtime.clock import Clock
from services.runtime.log import get

_log = get("binder.sweeping")


class BoundPods(Protocol):
    """The pods that are on nodes, as the sweep reads them."""

    def bound(self) -> AsyncIterator[Manifest]:
        """Yield the pods of our scheduler that have a node, of all namespaces. Raises NoAnswer."""


class Healer(Protocol):
    """Frees claims of lost transactions."""

    async def read(self) -> Sequence[Manifest]:
        """Return all allocated claims; to be asked before the pods are read. Raises NoAnswer."""

    async def heal(self, claims: Sequence[Manifest], *, live: Mapping[Uid, Pod]) -> None:
        """Free what leaked. Raises NoAnswer."""


class Fences(Protocol):
    """Changes pods, so that late copies of earlier writes to them fail."""

    async def fence(
        self, namespace: str, *, transaction: TransactionId, targets: Sequence[Target], tell: Callable[[Reason], None]
    ) -> dict[Uid, Reading]:
        """Change the pods, waiting for the API server as long as it takes, and return what they are now."""


class TidyJournal(Protocol):
    """The journal, as the sweep cleans it."""

    async def tidy(self, *, has_ended: Callable[[TransactionState], bool]) -> None:
        """Remove the entries of transactions that have ended."""


class Sweeper:
    """Compares the cluster with what is known, for ever."""

    def __init__(
        self,
        api: BoundPods,
        *,
        fences: Fences,
        healer: Healer,
        world: World,
        follower: Follower,
        publisher: Publisher,
        journal: TidyJournal,
        epoch: Callable[[], int],
        metrics: SweepMetrics,
        clock: Clock,
        interval_s: float,
    ) -> None:
        """Keep the parts."""
        self._api = api
        self._fences = fences
        self._healer = healer
        self._world = world
        self._follower = follower
        self._publisher = publisher
        self._journal = journal
        self._epoch = epoch
        self._metrics = metrics
        self._clock = clock
        self._interval_s = interval_s
        self._nudged = asyncio.Event()
        #: A look at live pods got no answer.
        self._is_owed = False

    def nudge(self) -> None:
        """Sweep now: the stream knows less than before."""
        self._nudged.set()

    async def run(self) -> None:
        """Sweep at once, and then every while.

        The first look, and that after the stream was read again, are at live pods whatever is followed. Between them
        these are listed only where what is followed shows something: a list of all pods costs the API server much.
        """
        self._nudged.set()
        while True:
            # Where the cluster is not known yet, everything would look unexplained.
            await self._follower.wait_for_revision(0, until=None)
            is_thorough = self._nudged.is_set()
            self._nudged.clear()
            try:
                await self.sweep(is_thorough=is_thorough)
            except NoAnswer as error:
                if is_thorough:
                    self._is_owed = True
                self._metrics.sweeps.labels(result="unanswered").inc()
                _log.warning("sweep.unanswered", problem=str(error))
            await self._wait()

    async def sweep(self, *, is_thorough: bool) -> None:
        """Compare once, and open again what nothing explains. Raises NoAnswer."""
        world = self._world
        followed = {pod.metadata.uid: pod for pod in world.cluster.pods() if pod.node}
        is_live = is_thorough or self._is_owed or bool(leftovers(world.cluster, world.ledger, live=followed))
        # Before the pods: whoever is bound in between is seen.
        claims = await self._claims() if is_live else ()
        live = await self._live() if is_live else followed
        self._is_owed = False
        found = leftovers(world.cluster, world.ledger, live=live) if self._follower.is_cluster_ready else ()
        if found:
            # Bindings of a binder that is dead may still be on their way; what lands before the fence is seen here.
            for one in found:
                await self._fence_unbound(one, live=live)
            live = await self._live()
            found = leftovers(world.cluster, world.ledger, live=live)
        for one in found:
            await self._open_again(one)
        reopened = {one.transaction for one in found}
        if self._follower.is_cluster_ready:
            await self._heal([one for one in claims if transaction_of(one) not in reopened], live=live)
        world.drop_lost_promises(live)
        await self._journal.tidy(has_ended=lambda entry: self._is_over(entry, reopened=reopened))
        self._metrics.sweeps.labels(result="found" if found else "clean").inc()

    async def _claims(self) -> Sequence[Manifest]:
        """Return the allocated claims; none where they cannot be read, which must not keep gangs from being mended."""
        try:
            return await self._healer.read()
        except NoAnswer as error:
            _log.warning("sweep.claims_unanswered", problem=str(error))
            return ()

    async def _heal(self, claims: Sequence[Manifest], *, live: Mapping[Uid, Pod]) -> None:
        try:
            await self._healer.heal(claims, live=live)
        except NoAnswer as error:
            _log.warning("sweep.claims_unanswered", problem=str(error))

    async def _live(self) -> dict[Uid, Pod]:
        found: dict[Uid, Pod] = {}
        async for manifest in self._api.bound():
            try:
                pod = reduce(Kind.POD, manifest)
            except MalformedObject as error:
                _log.warning("sweep.malformed_pod", problem=str(error))
                continue
            if isinstance(pod, Pod) and pod.node:
                found[pod.metadata.uid] = pod
        return found

    async def _fence_unbound(self, leftover: Leftover, *, live: Mapping[Uid, Pod]) -> None:
        """Change the members that are not bound, so that no late binding of the lost transaction is accepted."""
        gang = self._world.cluster.gang(leftover.gang)
        targets = [
            Target(
                pod=pod.metadata.name, uid=pod.metadata.uid, node=NodeName(""), version=pod.metadata.resource_version
            )
            for pod in (() if gang is None else gang.open)
            if pod.metadata.uid not in live
        ]
        namespace = namespace_of(leftover.gang)
        await self._fences.fence(namespace, transaction=leftover.transaction, targets=targets, tell=_tell)

    async def _open_again(self, leftover: Leftover) -> None:
        world, now = self._world, self._clock.now()
        decision = Decision(
            gang=leftover.gang,
            transaction=leftover.transaction,
            event=leftover.reopened(revision=world.cluster.revision, now=now),
            decided_at=now,
            epoch=self._epoch(),
        )
        is_written = await self._publisher.publish_if(
            decision, holds=lambda: world.ledger.of_gang(leftover.gang) is None
        )
        if is_written:
            self._metrics.reopened.inc()
        _log.warning(
            "sweep.unexplained",
            gang=leftover.gang,
            transaction=leftover.transaction,
            bound=len(leftover.members),
            min_count=leftover.min_count,
            is_reopened=is_written,
        )

    def _is_over(self, entry: TransactionState, *, reopened: set[TransactionId]) -> bool:
        """Tell whether an entry explains nothing any more: its transaction has ended, or left nothing."""
        if self._world.ledger.transaction(entry.id) is not None or entry.id in reopened:
            return False
        return self._world.has_passed(entry)

    async def _wait(self) -> None:
        waiting = asyncio.create_task(self._clock.sleep(self._interval_s), name="next-sweep")
        nudged = asyncio.create_task(self._nudged.wait(), name="sweep-now")
        try:
            await asyncio.wait({waiting, nudged}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            nudged.cancel()


def _tell(problem: Reason) -> None:
    _log.warning("sweep.fence_waits", problem=problem.message)
