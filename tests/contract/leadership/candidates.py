"""Candidates for one key: in this process, or as processes of their own that can be paused and killed."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry

from services.runtime.clock import SystemClock
from services.runtime.election import Terms
from services.runtime.health import Readiness
from services.runtime.leadership import Leadership, campaigning
from services.runtime.lifecycle import Runtime
from services.runtime.log import get
from services.runtime.settings import ElectedSettings

TERMS = Terms(ttl_s=2.0, renew_every_s=0.4, margin_s=0.5, look_every_s=0.1, retry_after_s=0.1)
"""Shorter than in service, so that the suite is quick."""
WAIT_S = 20.0
WRITE_EVERY_S = 0.005


class Candidate:
    """One candidate in this process."""

    def __init__(self, *, leadership: Leadership, runtime: Runtime) -> None:
        """Keep the parts."""
        self.leadership = leadership
        self.runtime = runtime

    @property
    def detail(self) -> str:
        """What readiness says."""
        return next((one.detail for one in self.runtime.readiness.conditions if one.name == "leadership"), "")

    @property
    def gauge(self) -> float | None:
        """What the metric says."""
        return self.runtime.registry.get_sample_value("phalanx_leader", {"service": "placer"})

    async def leads(self) -> int:
        """Wait until it leads, and return its epoch."""
        async with asyncio.timeout(WAIT_S):
            epoch = await self.leadership.changed(since=None)
        assert epoch is not None
        return epoch


def runtime_of(instance: str) -> Runtime:
    """What a service's process would be given."""
    return Runtime(
        service="placer",
        instance=instance,
        readiness=Readiness(),
        registry=CollectorRegistry(),
        tracer=NoOpTracer(),
        log=get("test"),
        clock=SystemClock(),
        stopping=asyncio.Event(),
    )


@asynccontextmanager
async def candidate(url: str, instance: str, *, is_elected: bool = True) -> AsyncIterator[Candidate]:
    """Stand for election while the block runs."""
    runtime = runtime_of(instance)
    settings = ElectedSettings(nats_url=url, instance=instance, leader_election=is_elected)
    async with campaigning(settings, runtime, terms=TERMS) as leadership:
        yield Candidate(leadership=leadership, runtime=runtime)


async def until(holds: Callable[[], bool], *, what: str) -> None:
    """Wait until something is so."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, f"waited {WAIT_S:g} s for {what}"
        await asyncio.sleep(0.01)


async def write_while_leading(url: str, instance: str, path: Path) -> None:
    """Append a line whenever this process leads, as a service would write: asked first, each time."""
    async with candidate(url, instance) as one:
        with path.open("a", buffering=1) as lines:
            while True:
                if (epoch := one.leadership.epoch) is not None:
                    lines.write(f"{instance} {epoch}\n")
                await asyncio.sleep(WRITE_EVERY_S)


if __name__ == "__main__":
    asyncio.run(write_while_leading(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
