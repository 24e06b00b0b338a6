"""The control plane of this suite, and what kube-scheduler decided, asked once for each seed."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.differential.drawing import draw_scenario
from tests.differential.native import NativeScheduler, Observation, native_scheduler
from tests.kubernetes.fixtures import require_binaries


class Recorded:
    """Decisions of kube-scheduler by seed."""

    def __init__(self, scheduler: NativeScheduler) -> None:
        self._scheduler = scheduler
        self._by_seed: dict[int, list[Observation]] = {}

    async def of(self, seed: int) -> list[Observation]:
        """The gangs of a seed as kube-scheduler decided them."""
        if seed not in self._by_seed:
            self._by_seed[seed] = await self._scheduler.decide(draw_scenario(seed))
        return self._by_seed[seed]


@pytest_asyncio.fixture(scope="module", loop_scope="module", name="recorded")
async def _recorded() -> AsyncIterator[Recorded]:
    require_binaries()
    async with native_scheduler() as scheduler:
        yield Recorded(scheduler)
