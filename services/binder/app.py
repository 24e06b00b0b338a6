"""The binder, put together: the only place that builds its adapters."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.binder.adapters.grpc_api import register
from services.binder.adapters.kube_calls import KubeCalls
from services.binder.adapters.kube_claims import KubeClaims
from services.binder.adapters.kube_pods import KubePods
from services.binder.adapters.kube_status import KubeStatus
from services.binder.adapters.kube_taints import KubeTaintRules
from services.binder.binding import PodWriter
from services.binder.claiming import ClaimWriter
from services.binder.evicting import Evictor
from services.binder.examining import Examiner
from services.binder.following import CLUSTER_CONDITION, Follower
from services.binder.healing import ClaimHealer
from services.binder.instructions import Tools
from services.binder.journal import BusJournal, Entries
from services.binder.maintenance import MaintenanceEnder
from services.binder.metrics import BinderMetrics
from services.binder.objecting import Objector
from services.binder.pacing import Pace
from services.binder.ports import ClaimApi, DecisionBus, Journal, PodApi, StatusApi
from services.binder.publishing import Publisher
from services.binder.reporting import Reporter
from services.binder.settings import BinderSettings
from services.binder.sweeping import Sweeper
from services.binder.transactions import Transactions
from services.binder.world import World
from services.contracts.call_rights import access_by
from services.contracts.dead_letter_box import DeadLetterBox, DeadLetterMetrics
from services.contracts.policy_file import PolicySource, following_policy
from services.contracts.streams import PLACEMENT_STREAM, STREAMS, TRANSACTIONS_STREAM
from services.core.decisions import Decision
from services.runtime import rpc
from services.runtime.bus import Bus, BusUnavailable
from services.runtime.kube import KubeClient
from services.runtime.leadership import Leadership, campaigning
from services.runtime.lifecycle import Runtime
from services.runtime.stopping import cancelled, unless_stopped

REPORT_CONNECTIONS = 4
"""Connections for conditions and events, apart from those of bindings."""

P = TypeVar("P")


def _as_it_is(port: P) -> P:
    return port


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What stands between the binder and each port through which it changes anything.

    Here nothing does. Whoever wants to see, to delay or to break each effect runs `bind` with ports of their own around
    the real ones.
    """

    pods: Callable[[PodApi], PodApi] = _as_it_is
    claims: Callable[[ClaimApi], ClaimApi] = _as_it_is
    status: Callable[[StatusApi], StatusApi] = _as_it_is
    bus: Callable[[DecisionBus], DecisionBus] = _as_it_is
    journal: Callable[[Journal], Journal] = _as_it_is


_DIRECT = Effects()


async def bind(settings: BinderSettings, runtime: Runtime, *, through: Effects = _DIRECT) -> None:
    """Run the binder until it is asked to stop."""
    entries = Entries()
    # Before the bus is: a connection alone would make this process look ready.
    runtime.readiness.set(CLUSTER_CONDITION, ready=False, detail="waiting for the bus")
    async with (
        following_policy(settings.config, clock=runtime.clock, registry=runtime.registry) as policy,
        rpc.serve(
            settings.grpc_address,
            lambda server: register(server, journal=entries),
            runtime.readiness,
            access=access_by(policy, tls=runtime.tls, registry=runtime.registry, clock=runtime.clock),
        ),
        await KubeClient.open(
            settings.kubeconfig, connections=settings.bind_concurrency, user_agent="phalanx-binder"
        ) as client,
        await KubeClient.open(
            settings.kubeconfig, connections=REPORT_CONNECTIONS, user_agent="phalanx-binder-reports"
        ) as reporting_client,
        # Left last of what matters: the key is released when nothing is written any more.
        campaigning(settings, runtime) as leadership,
        contextlib.AsyncExitStack() as stack,
    ):
        name = f"phalanx-binder/{settings.instance}"
        bus = Bus(url=settings.nats_url, name=name, readiness=runtime.readiness, access=runtime.nats_access)
        if await unless_stopped(_opened(stack, bus), stopping=runtime.stopping) is None:
            return
        service = _Service(
            settings,
            runtime,
            bus=through.bus(bus),
            client=client,
            reporting_client=reporting_client,
            leadership=leadership,
            policy=policy,
            through=through,
        )
        async with asyncio.TaskGroup() as tasks:
            await service.run(tasks, entries=entries)


async def _opened(stack: contextlib.AsyncExitStack, bus: Bus) -> Bus:
    """Connect, and make the streams; waits for the bus as long as it takes."""
    await stack.enter_async_context(bus)
    await bus.keep_streams((*STREAMS, TRANSACTIONS_STREAM))
    return bus


class _Service:
    """The parts of one binder, and the tasks that keep them going."""

    def __init__(
        self,
        settings: BinderSettings,
        runtime: Runtime,
        *,
        bus: DecisionBus,
        client: KubeClient,
        reporting_client: KubeClient,
        leadership: Leadership,
        policy: PolicySource,
        through: Effects,
    ) -> None:
        self._policy = policy
        self._through = through
        self._leadership = leadership
        self._settings = settings
        self._runtime = runtime
        self._bus = bus
        self._metrics = BinderMetrics(runtime.registry)
        self._world = World()
        self._letters = DeadLetterBox(
            bus,
            service=runtime.service,
            instance=settings.instance,
            clock=runtime.clock,
            metrics=DeadLetterMetrics(runtime.registry),
        )
        self._follower = Follower(
            bus,
            world=self._world,
            readiness=runtime.readiness,
            metrics=self._metrics,
            letters=self._letters,
            clock=runtime.clock,
        )
        self._calls = self._paced(client, most=settings.bind_concurrency)
        self._reporter = Reporter(
            through.status(KubeStatus(self._paced(reporting_client, most=REPORT_CONNECTIONS), clock=runtime.clock)),
            world=self._world,
            follower=self._follower,
            metrics=self._metrics,
            clock=runtime.clock,
        )

    async def run(self, tasks: asyncio.TaskGroup, *, entries: Entries) -> None:
        """Follow both streams, and bind while this process leads; asked to stop, finish what is being written."""
        journal = BusJournal(
            self._bus,
            instance=self._settings.instance,
            entries=entries,
            metrics=self._metrics.journal,
            clock=self._runtime.clock,
        )
        tools = self._tools(tasks, journal=journal)
        transactions = Transactions(tools, most=self._settings.max_transactions)
        sweeper = self._sweeper(tools, journal=journal)
        running: list[asyncio.Task[None]] = []
        is_caught_up = asyncio.Event()

        def start(work: Coroutine[Any, Any, None], name: str) -> None:
            running.append(tasks.create_task(work, name=name))

        def decided(decision: Decision) -> None:
            transactions.on_decision(decision)
            if self._settings.reporting and self._leadership.is_leading:
                self._reporter.submit(decision)

        def reread() -> None:
            transactions.reread()
            sweeper.nudge()

        try:
            start(self._calls.keep_in_touch(), "asking the API server for a sign of life")
            start(self._letters.run(), "storing dead letters")
            start(self._follower.follow_cluster(transactions.on_gangs), "following the cluster")
            start(
                self._follower.follow_placement(decided, on_caught_up=is_caught_up.set, on_reread=reread),
                "following the decisions",
            )
            reign = functools.partial(self._reign, transactions, journal=journal, sweeper=sweeper)
            start(self._lead(tasks, reign=reign, transactions=transactions, is_caught_up=is_caught_up), "leading")
            await self._runtime.stopping.wait()
            await transactions.stop()
        finally:
            await cancelled(running)

    async def _lead(
        self,
        tasks: asyncio.TaskGroup,
        *,
        reign: Callable[[], Coroutine[Any, Any, None]],
        transactions: Transactions,
        is_caught_up: asyncio.Event,
    ) -> None:
        """Do the leader's work whenever this process leads, and drop it at once when it does no more."""
        await is_caught_up.wait()
        while True:
            epoch = await self._leadership.changed(since=None)
            reigning = tasks.create_task(reign(), name=f"leading, epoch {epoch}")
            try:
                await self._leadership.changed(since=epoch)
            finally:
                await cancelled([reigning])
                await transactions.stand_down()

    async def _reign(self, transactions: Transactions, *, journal: BusJournal, sweeper: Sweeper) -> None:
        """Take over all that is in the stream by now, and go on from there."""
        async for attempt in AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.05, max=1), retry=retry_if_exception_type(BusUnavailable)
        ):
            with attempt:
                last = await self._bus.last(PLACEMENT_STREAM.name, subject=PLACEMENT_STREAM.subjects[0])
        await self._follower.wait_for_decisions(0 if last is None else last.sequence)
        transactions.take_over()
        async with asyncio.TaskGroup() as group:
            group.create_task(journal.tidy(has_ended=self._world.has_passed), name="tidying the journal")
            group.create_task(sweeper.run(), name="sweeping")
            group.create_task(self._maintenance().run(), name="ending maintenance windows")
            if self._settings.reporting:
                group.create_task(self._reporter.catch_up(), name="catching up with reports")
                group.create_task(self._reporter.run(), name="reporting")

    def _sweeper(self, tools: Tools, *, journal: BusJournal) -> Sweeper:
        return Sweeper(
            KubePods(self._calls, clock=self._runtime.clock),
            fences=tools.writer,
            healer=ClaimHealer(
                self._through.claims(KubeClaims(self._calls)), world=self._world, metrics=self._metrics.claims
            ),
            world=self._world,
            follower=self._follower,
            publisher=tools.publisher,
            journal=journal,
            epoch=tools.epoch,
            metrics=self._metrics.sweep,
            clock=self._runtime.clock,
            interval_s=self._settings.sweep_interval_s,
        )

    def _maintenance(self) -> MaintenanceEnder:
        return MaintenanceEnder(
            KubeTaintRules(self._calls),
            metrics=self._metrics.maintenance,
            clock=self._runtime.clock,
            interval_s=self._settings.sweep_interval_s,
        )

    def _tools(self, tasks: asyncio.TaskGroup, *, journal: BusJournal) -> Tools:
        runtime, metrics = self._runtime, self._metrics
        pods = self._through.pods(KubePods(self._calls, clock=runtime.clock))
        return Tools(
            world=self._world,
            follower=self._follower,
            examiner=Examiner(
                pods,
                world=self._world,
                follower=self._follower,
                policy=self._policy,
                metrics=metrics,
                clock=runtime.clock,
            ),
            writer=PodWriter(
                pods,
                tracer=runtime.tracer,
                metrics=metrics,
                clock=runtime.clock,
                has_node=self._world.has_node,
                workers=self._settings.bind_concurrency,
            ),
            claims=ClaimWriter(
                self._through.claims(KubeClaims(self._calls)),
                pods=pods,
                policy=self._policy,
                metrics=metrics,
                clock=runtime.clock,
                workers=self._settings.bind_concurrency,
            ),
            evictor=Evictor(
                pods,
                world=self._world,
                follower=self._follower,
                metrics=metrics,
                clock=runtime.clock,
                workers=self._settings.bind_concurrency,
            ),
            publisher=Publisher(
                self._bus,
                instance=self._settings.instance,
                has_ended=self._world.has_ended,
                folded_up_to=lambda: self._world.placed_up_to,
                may_write=self._may_write,
            ),
            journal=self._through.journal(journal),
            objector=Objector(self._bus, world=self._world, clock=runtime.clock),
            metrics=metrics,
            readiness=runtime.readiness,
            tracer=runtime.tracer,
            clock=runtime.clock,
            tasks=tasks,
            epoch=lambda: self._leadership.epoch or 0,
            condition_patience=timedelta(seconds=self._settings.binding_conditions_timeout_s),
        )

    def _may_write(self) -> bool:
        return self._leadership.is_leading

    def _paced(self, client: KubeClient, *, most: int) -> KubeCalls:
        return KubeCalls(
            client,
            pace=Pace(most=most, clock=self._runtime.clock),
            readiness=self._runtime.readiness,
            metrics=self._metrics,
            clock=self._runtime.clock,
            may_write=self._may_write,
        )
