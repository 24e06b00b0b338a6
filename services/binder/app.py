"""The binder, put together: the only place that builds its adapters."""

import asyncio

from services.binder.adapters.grpc_api import register
from services.binder.adapters.kube_calls import KubeCalls
from services.binder.adapters.kube_pods import KubePods
from services.binder.binding import PodWriter
from services.binder.examining import Examiner
from services.binder.following import Follower
from services.binder.journal import MemoryJournal
from services.binder.metrics import BinderMetrics
from services.binder.pacing import Pace
from services.binder.publishing import Publisher
from services.binder.running import Tools
from services.binder.settings import BinderSettings
from services.binder.transactions import Transactions
from services.binder.world import World
from services.contracts.streams import STREAMS
from services.runtime import rpc
from services.runtime.bus import Bus
from services.runtime.kube import KubeClient
from services.runtime.lifecycle import Runtime


async def bind(settings: BinderSettings, runtime: Runtime) -> None:
    """Run the binder until it is asked to stop."""
    metrics = BinderMetrics(runtime.registry)
    journal = MemoryJournal()
    world = World()
    name = f"phalanx-binder/{settings.instance}"
    async with (
        rpc.serve(settings.grpc_address, lambda server: register(server, journal=journal), runtime.readiness),
        await KubeClient.open(
            settings.kubeconfig, connections=settings.bind_concurrency, user_agent="phalanx-binder"
        ) as client,
        Bus(url=settings.nats_url, name=name, readiness=runtime.readiness) as bus,
    ):
        await bus.ensure_streams(STREAMS)
        pace = Pace(most=settings.bind_concurrency, clock=runtime.clock)
        calls = KubeCalls(client, pace=pace, readiness=runtime.readiness, metrics=metrics, clock=runtime.clock)
        pods = KubePods(calls, clock=runtime.clock)
        follower = Follower(bus, world=world, readiness=runtime.readiness, metrics=metrics, clock=runtime.clock)
        async with asyncio.TaskGroup() as tasks:
            tools = Tools(
                world=world,
                follower=follower,
                examiner=Examiner(pods, world=world, follower=follower, clock=runtime.clock),
                writer=PodWriter(pods, tracer=runtime.tracer, metrics=metrics, clock=runtime.clock),
                publisher=Publisher(bus, instance=settings.instance, has_ended=world.ledger.has_ended),
                journal=journal,
                metrics=metrics,
                readiness=runtime.readiness,
                tracer=runtime.tracer,
                clock=runtime.clock,
                tasks=tasks,
            )
            transactions = Transactions(tools, most=settings.max_transactions)
            running = [
                tasks.create_task(calls.keep_in_touch(), name="asking the API server for a sign of life"),
                tasks.create_task(follower.follow_cluster(transactions.on_gangs), name="following the cluster"),
                tasks.create_task(
                    follower.follow_placement(transactions.on_decision, on_caught_up=transactions.resume),
                    name="following the decisions",
                ),
            ]
            await runtime.stopping.wait()
            await transactions.stop()
            for task in running:
                task.cancel()
