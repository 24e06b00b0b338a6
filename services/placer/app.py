"""The placer, put together: the only place that builds its adapters."""

import asyncio
from datetime import timedelta

from services.contracts.streams import STREAMS
from services.core.attention import DecisionPolicy
from services.placer.adapters.grpc_api import register
from services.placer.deciding import Loop
from services.placer.metrics import PlacerMetrics
from services.placer.mind import Mind
from services.placer.publishing import Publisher
from services.placer.settings import PlacerSettings
from services.runtime import rpc
from services.runtime.bus import Bus
from services.runtime.lifecycle import Runtime


async def place(settings: PlacerSettings, runtime: Runtime) -> None:
    """Run the placer until it is asked to stop."""
    policy = DecisionPolicy(
        settle=timedelta(milliseconds=settings.settle_ms),
        deadline=timedelta(seconds=settings.deadline_s),
        repair_window=timedelta(seconds=settings.repair_window_s),
    )
    name = f"phalanx-placer/{settings.instance}"
    metrics = PlacerMetrics(runtime.registry)
    sequences: dict[str, int] = {}
    async with (
        Mind(policy=policy) as mind,
        rpc.serve(settings.grpc_address, lambda server: register(server, mind=mind), runtime.readiness),
        Bus(url=settings.nats_url, name=name, readiness=runtime.readiness) as bus,
    ):
        await bus.ensure_streams(STREAMS)
        publisher = Publisher(
            bus, instance=settings.instance, tracer=runtime.tracer, metrics=metrics, sequences=sequences
        )
        loop = Loop(
            bus=bus,
            mind=mind,
            publisher=publisher,
            readiness=runtime.readiness,
            metrics=metrics,
            clock=runtime.clock,
            sequences=sequences,
        )
        async with asyncio.TaskGroup() as group:
            running = group.create_task(loop.run(), name="deciding")
            await runtime.stopping.wait()
            running.cancel()
