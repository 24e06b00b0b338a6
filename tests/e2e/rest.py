"""A subscriber that looks the whole time whether a gang is partly bound at rest.

At rest means: no open transaction. Bindings and decisions come by different ways, so a look counts only where both were
read in an order that proves something: pods, then every decision that was stored by then, then the same pods again.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import nats
from nats.js import JetStreamContext

from services.contracts.streams import PLACEMENT_STREAM
from services.core.objects import GangId
from tests.e2e.apiserver import ApiServer
from tests.e2e.gangs import bound, oversubscribed
from tests.e2e.system import System
from tests.e2e.waiting import POLL_S, until

CANCEL_AGAIN_S = 0.5


@dataclass(slots=True, kw_only=True)
class RestWatch:
    """Looks for violations until it is cancelled."""

    system: System
    jetstream: JetStreamContext
    #: How many members each watched gang needs.
    needed: dict[GangId, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    looks: int = 0

    async def run(self) -> None:
        """Look again and again."""
        while True:
            await self._look()
            await asyncio.sleep(POLL_S)

    async def _look(self) -> None:
        before = self._bound()
        stored = (await self.jetstream.stream_info(PLACEMENT_STREAM.name)).state.last_seq
        await until(lambda: self.system.recorder.placement_sequence >= stored, what="the stored decisions were read")
        if self._bound() != before:
            return
        self.looks += 1
        for gang, count in before.items():
            if 0 < count < self.needed.get(gang, 0) and self.system.recorder.ledger.of_gang(gang) is None:
                self.violations.append(f"{gang} is at rest with {count} of {self.needed[gang]} members bound")
        self.violations += [f"{node} carries {used} GPUs" for node, used in oversubscribed(self._api).items()]

    @property
    def _api(self) -> ApiServer:
        return self.system.apiserver

    def _bound(self) -> Mapping[GangId, int]:
        return {gang: len(bound(self._api, gang)) for gang in self.needed}


@asynccontextmanager
async def watched(system: System) -> AsyncIterator[RestWatch]:
    """Look until the block ends; fails at its end where something was seen, or nothing was looked at."""
    client = await nats.connect(system.nats.url)
    watch = RestWatch(system=system, jetstream=client.jetstream())
    task = asyncio.create_task(watch.run(), name="rest-watch")
    try:
        yield watch
        assert not task.done(), f"the watch itself ended: {task}"
    finally:
        # More than once: asyncio.wait_for of Python 3.11 can swallow a cancellation that meets its result.
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=CANCEL_AGAIN_S)
        await client.close()
    assert not watch.violations, watch.violations[:5]
    assert watch.looks, "nothing was ever looked at"
