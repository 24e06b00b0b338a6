"""The watcher put together: one task per kind, one publisher for all, and the watch over the stream itself."""

import asyncio
import contextlib

from services.contracts.policy_file import following_policy
from services.core.objects import Kind
from services.runtime.bus import Bus
from services.runtime.kube import KubeClient
from services.runtime.lifecycle import Runtime
from services.runtime.stopping import unless_stopped
from services.watcher.adapters.jetstream import JetStreamCluster
from services.watcher.adapters.kubernetes import KubernetesApi
from services.watcher.following import KindWatch
from services.watcher.garbage import CollectorPause
from services.watcher.kinds import WATCHED_KINDS
from services.watcher.metrics import Metrics
from services.watcher.ports import ClusterStream
from services.watcher.publisher import MESSAGE_LOST, Publisher
from services.watcher.settings import WatcherSettings

STREAM_CHECK_INTERVAL_S = 5.0


async def run(settings: WatcherSettings, runtime: Runtime) -> None:
    """Follow the cluster until asked to stop; what was seen by then is written."""
    # Before the bus is: a connection alone would make this process look ready.
    for watched in WATCHED_KINDS:
        runtime.readiness.set(f"watch:{watched.kind.value}", ready=False, detail="waiting for the bus")
    bus = Bus(
        url=settings.nats_url,
        name=f"phalanx-watcher-{settings.instance}",
        readiness=runtime.readiness,
        access=runtime.nats_access,
    )
    stream = JetStreamCluster(bus, instance=settings.instance, clock=runtime.clock, tracer=runtime.tracer)
    async with (
        following_policy(settings.config, clock=runtime.clock, registry=runtime.registry),
        await KubeClient.open(settings.kubeconfig, user_agent="phalanx-watcher") as client,
        contextlib.AsyncExitStack() as stack,
    ):
        if await unless_stopped(_opened(stack, bus, stream), stopping=runtime.stopping) is None:
            return
        await _follow(settings, runtime, api=KubernetesApi(client), stream=stream)


async def _opened(stack: contextlib.AsyncExitStack, bus: Bus, stream: JetStreamCluster) -> JetStreamCluster:
    """Connect, and make the stream; waits for the bus as long as it takes."""
    await stack.enter_async_context(bus)
    await stream.ensure()
    return stream


async def _follow(settings: WatcherSettings, runtime: Runtime, *, api: KubernetesApi, stream: JetStreamCluster) -> None:
    metrics = Metrics(runtime.registry)
    watches: list[KindWatch] = []

    def lost(kind: Kind, reason: str) -> None:
        # What one kind's messages suffered, all may have.
        for watch in watches if reason == MESSAGE_LOST else (one for one in watches if one.kind == kind):
            watch.resync(reason, rereads=reason == MESSAGE_LOST)

    publisher = Publisher(
        stream,
        kinds=tuple(watched.kind for watched in WATCHED_KINDS),
        clock=runtime.clock,
        metrics=metrics,
        lost=lost,
        worker_count=settings.publish_in_flight,
        queue_size=settings.publish_queue,
    )
    collector = CollectorPause()
    watches.extend(
        KindWatch(
            watched,
            api=api,
            stream=stream,
            publisher=publisher,
            readiness=runtime.readiness,
            metrics=metrics,
            clock=runtime.clock,
            log=runtime.log,
            settings=settings,
            collector=collector,
        )
        for watched in WATCHED_KINDS
    )

    async with asyncio.TaskGroup() as group:
        writing = group.create_task(publisher.work(), name="publisher")
        reading = [group.create_task(watch.run(), name=f"watch-{number}") for number, watch in enumerate(watches)]
        reading.append(group.create_task(_keep(stream, runtime=runtime), name="stream"))
        await runtime.stopping.wait()
        for task in reading:
            task.cancel()
        await asyncio.wait(reading)
        for watched in WATCHED_KINDS:
            await publisher.settled(watched.kind)
        writing.cancel()


async def _keep(stream: ClusterStream, *, runtime: Runtime) -> None:
    """Make the stream anew where somebody deleted it; that is noticed, and everything is written again."""
    while True:
        await runtime.clock.sleep(STREAM_CHECK_INTERVAL_S)
        await stream.ensure()
