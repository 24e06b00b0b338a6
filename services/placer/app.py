"""The placer, put together: the only place that builds its adapters."""

import asyncio
from datetime import timedelta

from services.contracts.call_rights import access_by
from services.contracts.dead_letter_box import DeadLetterBox, DeadLetterMetrics
from services.contracts.policy_file import PolicySource, following_policy
from services.contracts.streams import STREAMS
from services.core.attention import DecisionPolicy
from services.core.decisions import DegradedPolicy
from services.core.degraded import DegradedTerms
from services.placer.adapters.grpc_api import register
from services.placer.deciding import CONDITION, Loop
from services.placer.metrics import PlacerMetrics
from services.placer.mind import Mind
from services.placer.publishing import Publisher
from services.placer.settings import PlacerSettings
from services.runtime import rpc
from services.runtime.bus import Bus
from services.runtime.leadership import Leadership, campaigning
from services.runtime.lifecycle import Runtime


async def place(settings: PlacerSettings, runtime: Runtime) -> None:
    """Run the placer until it is asked to stop."""
    policy = DecisionPolicy(
        settle=timedelta(milliseconds=settings.settle_ms),
        deadline=timedelta(seconds=settings.deadline_s),
        repair_window=timedelta(seconds=settings.repair_window_s),
        preempts=settings.preemption,
        rejection_memory=timedelta(seconds=settings.rejection_memory_s),
        degraded=DegradedTerms(
            timeout=timedelta(seconds=settings.degraded_timeout_s), policy=DegradedPolicy(settings.degraded_policy)
        ),
    )
    metrics = PlacerMetrics(runtime.registry)
    # Before the bus is: a connection alone would make this process look ready.
    runtime.readiness.set(CONDITION, ready=False, detail="waiting for the bus")
    async with (
        following_policy(settings.config, clock=runtime.clock, registry=runtime.registry) as configured,
        campaigning(settings, runtime) as leadership,
        Mind(policy=policy) as mind,
        rpc.serve(
            settings.grpc_address,
            lambda server: register(server, mind=mind),
            runtime.readiness,
            access=access_by(configured, tls=runtime.tls, registry=runtime.registry, clock=runtime.clock),
        ),
        asyncio.TaskGroup() as group,
    ):
        await mind.take_topology(configured.value.topology)
        following = group.create_task(_follow_topology(configured, mind=mind), name="following the topology")
        # Waiting for the bus is part of the work, so that a stop need not wait for it.
        working = group.create_task(
            _work(settings, runtime, mind=mind, metrics=metrics, leadership=leadership), name="deciding"
        )
        await runtime.stopping.wait()
        working.cancel()
        following.cancel()


async def _follow_topology(configured: PolicySource, *, mind: Mind) -> None:
    """Let gangs be placed by the levels of the configuration file, whenever it changes."""
    known = configured.value
    while True:
        known = await configured.changed(since=known)
        await mind.take_topology(known.topology)


async def _work(
    settings: PlacerSettings, runtime: Runtime, *, mind: Mind, metrics: PlacerMetrics, leadership: Leadership
) -> None:
    """Connect and decide, for ever."""
    name = f"phalanx-placer/{settings.instance}"
    sequences: dict[str, int] = {}
    async with Bus(url=settings.nats_url, name=name, readiness=runtime.readiness, access=runtime.nats_access) as bus:
        await bus.keep_streams(STREAMS)
        publisher = Publisher(
            bus,
            instance=settings.instance,
            tracer=runtime.tracer,
            metrics=metrics,
            sequences=sequences,
            leadership=leadership,
        )
        letters = DeadLetterBox(
            bus,
            service=runtime.service,
            instance=settings.instance,
            clock=runtime.clock,
            metrics=DeadLetterMetrics(runtime.registry),
        )
        loop = Loop(
            bus=bus,
            mind=mind,
            publisher=publisher,
            letters=letters,
            readiness=runtime.readiness,
            metrics=metrics,
            clock=runtime.clock,
            sequences=sequences,
            leadership=leadership,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(letters.run(), name="storing dead letters")
            group.create_task(loop.run(), name="deciding")
