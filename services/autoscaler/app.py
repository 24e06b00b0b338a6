"""The autoscaler, put together: the only place that builds its adapters."""

import asyncio

from services.autoscaler.following import CONDITION, AutoscalerMetrics, Follower
from services.autoscaler.settings import AutoscalerSettings
from services.contracts.dead_letter_box import DeadLetterBox, DeadLetterMetrics
from services.contracts.policy_file import following_policy
from services.contracts.streams import STREAMS
from services.runtime.bus import Bus
from services.runtime.lifecycle import Runtime


async def scale(settings: AutoscalerSettings, runtime: Runtime) -> None:
    """Run the autoscaler until it is asked to stop."""
    metrics = AutoscalerMetrics(runtime.registry)
    # Before the bus is: a connection alone would make this process look ready.
    runtime.readiness.set(CONDITION, ready=False, detail="waiting for the bus")
    async with (
        following_policy(settings.config, clock=runtime.clock, registry=runtime.registry),
        asyncio.TaskGroup() as group,
    ):
        # Waiting for the bus is part of the work, so that a stop need not wait for it.
        working = group.create_task(_work(settings, runtime, metrics=metrics), name="following")
        await runtime.stopping.wait()
        working.cancel()


async def _work(settings: AutoscalerSettings, runtime: Runtime, *, metrics: AutoscalerMetrics) -> None:
    """Connect and follow, for ever."""
    name = f"phalanx-autoscaler/{settings.instance}"
    async with Bus(url=settings.nats_url, name=name, readiness=runtime.readiness) as bus:
        await bus.keep_streams(STREAMS)
        letters = DeadLetterBox(
            bus,
            service=runtime.service,
            instance=settings.instance,
            clock=runtime.clock,
            metrics=DeadLetterMetrics(runtime.registry),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(letters.run(), name="storing dead letters")
            follower = Follower(stream=bus, readiness=runtime.readiness, metrics=metrics, letters=letters)
            group.create_task(follower.run(), name="following the decisions")
