"""The autoscaler, put together: the only place that builds its adapters."""

import asyncio

from services.autoscaler.following import AutoscalerMetrics, Follower
from services.autoscaler.settings import AutoscalerSettings
from services.contracts.streams import STREAMS
from services.runtime.bus import Bus
from services.runtime.lifecycle import Runtime


async def scale(settings: AutoscalerSettings, runtime: Runtime) -> None:
    """Run the autoscaler until it is asked to stop."""
    name = f"phalanx-autoscaler/{settings.instance}"
    async with Bus(url=settings.nats_url, name=name, readiness=runtime.readiness) as bus:
        await bus.ensure_streams(STREAMS)
        follower = Follower(stream=bus, readiness=runtime.readiness, metrics=AutoscalerMetrics(runtime.registry))
        async with asyncio.TaskGroup() as group:
            following = group.create_task(follower.run(), name="following")
            await runtime.stopping.wait()
            following.cancel()
