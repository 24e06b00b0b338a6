"""A burst of bindings that is stopped in the middle: some have taken effect, the others are held on their way."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from services.core.decisions import Committed
from tests.chaos.gangs import LIMIT_S, Scenario
from tests.chaos.proxy import Ask, Fate, Hold
from tests.chaos.stage import Stage
from tests.e2e.api import Api
from tests.e2e.waiting import eventually

LARGE = Scenario(name="large", ending=Committed, last_member="plain-last", size=12)
"""A gang of whose bindings enough are on their way at once."""

PASSED = 4
"""Bindings that take effect before the others are held."""


@dataclass(slots=True, kw_only=True)
class Burst:
    """The bindings of one namespace that are held."""

    namespace: str
    holds: list[Hold] = field(default_factory=list)
    _seen: int = 0

    def plan(self, ask: Ask) -> Fate | None:
        """Let the first ones pass, and hold the rest."""
        if not ask.is_binding or f"/namespaces/{self.namespace}/" not in ask.path:
            return None
        self._seen += 1
        if self._seen <= PASSED:
            return None
        self.holds.append(Hold())
        return self.holds[-1]

    async def is_in_the_middle(self, api: Api, *, size: int) -> None:
        """Wait until the first ones are bound and the others are held."""

        async def is_split() -> bool:
            count = len(await bound(api))
            # One may have been refused, and is neither.
            return 0 < count < size and count + len(self.holds) >= size - 1

        await eventually(is_split, what="some bindings took effect, and the others are held", timeout_s=LIMIT_S)

    def let_go(self) -> None:
        """Let everything land that is held."""
        for hold in self.holds:
            hold.let_go.set()

    async def landed(self) -> list[int]:
        """Wait until everything has landed; returns what the API server answered."""
        async with asyncio.timeout(LIMIT_S):
            for hold in self.holds:
                await hold.is_answered.wait()
        return [hold.status for hold in self.holds]


@contextmanager
def holding(stage: Stage, namespace: str) -> Iterator[Burst]:
    """Hold most bindings of a namespace; from the end of the block on, everything passes."""
    burst = Burst(namespace=namespace)
    stage.proxy.plan = burst.plan
    try:
        yield burst
    finally:
        passes(stage)
        burst.let_go()


def passes(stage: Stage) -> None:
    """Hold no further binding."""
    stage.proxy.plan = lambda _ask: None


async def bound(api: Api) -> dict[str, str]:
    """Return node by name of the pods of a namespace that are bound."""
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in await api.list("Pod")
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    }
