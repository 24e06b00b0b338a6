"""Reading the members of a transaction live, and checking them on what is followed of everything else."""

from datetime import datetime
from typing import TYPE_CHECKING

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.binder.binding import Tell, read_pod
from services.binder.bursting import LONGEST_S, SHORTEST_S
from services.binder.following import Follower
from services.binder.ports import Manifest, NoAnswer, PodApi
from services.binder.world import World
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_check import allows_delete, misfits_of, placed_beside
from services.core.transaction_state import TransactionState
from services.core.transaction_values import Examine, Examined, Found, Reading
from services.runtime.clock import Clock

if TYPE_CHECKING:
    from services.core.objects import NodeName, Pod, Uid


class Examiner:
    """Says whether promised members are still as they were promised."""

    def __init__(self, api: PodApi, *, world: World, follower: Follower, clock: Clock) -> None:
        """Keep the parts."""
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
            misfits=misfits_of(cluster, pods=pods, promised=promised, placed=placed),
            beside=placed_beside(cluster, gang=state.gang, members=state.members),
            allows_delete=allows_delete(cluster, gang=state.gang),
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
                    return dict(await self._api.read(state.gang.split("/")[1], names=names))
                except NoAnswer as error:
                    tell(Reason(code=ReasonCode.API_UNAVAILABLE, message=str(error), count=1))
                    raise
        raise AssertionError("retried for ever, and yet ended")
