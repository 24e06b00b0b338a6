"""Reading the members of a transaction live, and checking them on what is followed of everything else."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.binder.binding import Tell, read_pod
from services.binder.bursting import LONGEST_S, SHORTEST_S
from services.binder.following import Follower
from services.binder.metrics import BinderMetrics
from services.binder.ports import Manifest, NoAnswer, PodApi
from services.binder.world import World
from services.contracts.policy_file import PolicySource
from services.core.objects import NodeName, namespace_of
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_check import allows_delete, misfits_of, placed_beside
from services.core.transaction_sharing import collisions
from services.core.transaction_state import TransactionState
from services.core.transaction_values import Examine, Examined, Found, Reading, Recheck, Rechecked
from services.runtime.clock import Clock

if TYPE_CHECKING:
    from services.core.objects import Pod, Uid

RECHECK_PATIENCE = timedelta(seconds=5)
"""How long it is waited for the followed state to show what was just bound."""


class Examiner:
    """Says whether promised members are still as they were promised."""

    def __init__(
        self,
        api: PodApi,
        *,
        world: World,
        follower: Follower,
        policy: PolicySource,
        metrics: BinderMetrics,
        clock: Clock,
    ) -> None:
        """Keep the parts; the policy says which nodes other schedulers use too."""
        self._policy = policy
        self._metrics = metrics
        self._api = api
        self._world = world
        self._follower = follower
        self._clock = clock

    async def examine(
        self, instruction: Examine, *, state: TransactionState, until: datetime | None, tell: Tell
    ) -> Examined:
        """Read the members and check them; waits for the followed state, and for an API server that does not answer."""
        revision = instruction.revision
        text = f"the binder's state is older than revision {revision}, on which the placement rests"
        tell(Reason(code=ReasonCode.CLUSTER_NOT_SYNCED, message=text))
        while not await self._follower.wait_for_revision(revision, until=until):
            # The deadline ends this from outside, unless something may have been written.
            until = None
        manifests = await self._read(instruction, state=state, tell=tell)
        # Promises of pods that were not known yet when the proposal came are charged before anything is checked.
        self._world.promise(state.id)
        pods: dict[Uid, Pod] = {}
        readings: dict[Uid, Reading] = {}
        for one in instruction.members:
            pod, readings[one.uid] = read_pod(manifests.get(one.pod), uid=one.uid, transaction=state.id)
            if pod is not None:
                pods[one.uid] = pod
        promised = {one.uid: one.node for one in instruction.members if readings[one.uid].found is Found.READY}
        placed: dict[Uid, NodeName] = {
            uid: reading.node for uid, reading in readings.items() if reading.found is Found.ELSEWHERE
        }
        cluster = self._world.cluster
        return Examined(
            readings=readings,
            misfits=misfits_of(
                cluster,
                gang=state.gang,
                pods=pods,
                promised=promised,
                placed=placed,
                claims=self._world.claims_of(state.id),
                leaving=[one.uid for one in state.proposal.victims],
            ),
            beside=placed_beside(cluster, gang=state.gang, members=state.members),
            allows_delete=allows_delete(cluster, gang=state.gang),
            shared=self._shared({one.node for one in instruction.members}),
        )

    async def recheck(self, instruction: Recheck, *, state: TransactionState) -> Rechecked:
        """Say which members have to give way, once the followed state shows all of them bound.

        Where that does not come, as without a watcher, nothing is known, and nothing is taken back.
        """
        namespace = namespace_of(state.gang)
        limit = self._clock.now() + RECHECK_PATIENCE

        def are_seen() -> bool:
            pods = (self._world.cluster.pod(namespace, one.pod) for one in instruction.members)
            return all(pod is None or pod.node or pod.metadata.deleted_at is not None for pod in pods)

        if not await self._follower.wait_until(are_seen, until=limit):
            self._metrics.sharing.rechecks.labels(result="unknown").inc()
            return Rechecked(collided={})
        collided = collisions(self._world.cluster, instruction.members, namespace=namespace)
        self._metrics.sharing.rechecks.labels(result="collision" if collided else "clean").inc()
        return Rechecked(collided=collided)

    def _shared(self, nodes: Iterable[NodeName]) -> frozenset[NodeName]:
        """Return those of the nodes that other schedulers use too."""
        ownership = self._policy.value.ownership
        found = (self._world.cluster.inventory.node(name) for name in nodes)
        return frozenset(
            NodeName(node.metadata.name)
            for node in found
            if node is not None and not ownership.owns_node(node.metadata.labels)
        )

    async def _read(self, instruction: Examine, *, state: TransactionState, tell: Tell) -> dict[str, Manifest]:
        patient = AsyncRetrying(
            retry=retry_if_exception_type(NoAnswer),
            wait=wait_random_exponential(multiplier=SHORTEST_S, max=LONGEST_S),
            sleep=self._clock.sleep,
        )
        names = [one.pod for one in instruction.members]
        async for attempt in patient:
            with attempt:
                try:
                    return dict(await self._api.read(namespace_of(state.gang), names=names))
                except NoAnswer as error:
                    tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=str(error), count=1))
                    raise
        raise AssertionError("retried for ever, and yet ended")
