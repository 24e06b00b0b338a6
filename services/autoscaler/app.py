"""The autoscaler, put together: the only place that builds its adapters."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from services.autoscaler.adapters.aggregation import KubernetesAggregation
from services.autoscaler.adapters.deliveries import JetStreamDeliveries
from services.autoscaler.adapters.forwarding import Forwarder
from services.autoscaler.adapters.jetstream import JetStreamQueues
from services.autoscaler.adapters.kubernetes import KubernetesHpas
from services.autoscaler.adapters.metrics_server import MetricsServer, TlsFiles
from services.autoscaler.adapters.placer import PlacerFit
from services.autoscaler.adapters.pods import KubernetesPods
from services.autoscaler.adapters.source_kinds import source_kinds
from services.autoscaler.cold_starts import MOST_AT_ONCE, ColdStarts
from services.autoscaler.fitting import FitQuestion
from services.autoscaler.following import CONDITION, AutoscalerMetrics, Follower
from services.autoscaler.hpas import CONDITION as HPAS
from services.autoscaler.hpas import HpaFollower
from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.ports import Deliveries, HpaApi, Placer
from services.autoscaler.registering import Registrar
from services.autoscaler.serving import MetricDesk
from services.autoscaler.settings import AutoscalerSettings
from services.autoscaler.sources import SourceBook
from services.autoscaler.telling import Teller
from services.autoscaler.waking import Waker
from services.contracts.dead_letter_box import DeadLetterBox, DeadLetterMetrics
from services.contracts.policy_file import PolicySource, following_policy
from services.contracts.streams import STREAMS
from services.core.metric_readings import MetricKey
from services.core.policy import Policy
from services.core.scaling import WhenItDoesNotFit
from services.runtime.bus import Bus
from services.runtime.kube import Credentials, KubeClient
from services.runtime.leadership import Leadership, campaigning
from services.runtime.lifecycle import Runtime
from services.runtime.stopping import cancelled

CONNECTIONS = 16
"""To the API server: so many HPAs are looked at side by side."""


async def scale(settings: AutoscalerSettings, runtime: Runtime) -> None:
    """Run the autoscaler until it is asked to stop."""
    metrics = AutoscalerMetrics(runtime.registry)
    # Before the bus is: a connection alone would make this process look ready.
    runtime.readiness.set(CONDITION, ready=False, detail="waiting for the bus")
    async with (
        following_policy(settings.config, clock=runtime.clock, registry=runtime.registry) as policy,
        # Left last of what matters: the key is released when nothing is written any more.
        campaigning(settings, runtime) as leadership,
        asyncio.TaskGroup() as group,
    ):
        # Waiting for the bus is part of the work, so that a stop need not wait for it.
        work = _work(settings, runtime, metrics=metrics, policy=policy, leadership=leadership)
        working = group.create_task(work, name="following")
        await runtime.stopping.wait()
        working.cancel()


async def _work(
    settings: AutoscalerSettings,
    runtime: Runtime,
    *,
    metrics: AutoscalerMetrics,
    policy: PolicySource,
    leadership: Leadership,
) -> None:
    """Connect, follow and wake, for ever."""
    name = f"phalanx-autoscaler/{settings.instance}"
    async with Bus(url=settings.nats_url, name=name, readiness=runtime.readiness, access=runtime.nats_access) as bus:
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
            given = _Given(
                settings=settings,
                runtime=runtime,
                bus=bus,
                leadership=leadership,
                metrics=WakingMetrics(runtime.registry),
                desk=MetricDesk(clock=runtime.clock),
                follower=follower,
            )
            group.create_task(_wake_by(policy, given), name="waking")
            group.create_task(_serve(given), name="serving external metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What waking is built of, whichever policy is in force."""

    settings: AutoscalerSettings
    runtime: Runtime
    bus: Bus
    leadership: Leadership
    metrics: WakingMetrics
    desk: MetricDesk
    follower: Follower


async def _wake_by(configured: PolicySource, given: _Given) -> None:
    """Wake by the sources of the policy in force, and begin anew with others.

    Without a source there is nothing to wake by, and nothing is asked of the API server.
    """
    in_force = configured.value
    while True:
        policy = in_force
        async with asyncio.TaskGroup() as group:
            waking = [group.create_task(_wake(policy, given), name="waking")]
            try:
                while _concerns(in_force) == _concerns(policy):
                    in_force = await configured.changed(since=in_force)
            finally:
                given.desk.close()
                await cancelled(waking)


def _concerns(policy: Policy) -> tuple[object, ...]:
    """What of a policy is used here: with another, waking begins anew."""
    return policy.metric_sources, policy.waking


async def _wake(policy: Policy, given: _Given) -> None:
    settings, runtime = given.settings, given.runtime
    given.metrics.followed.set(0)
    if not policy.metric_sources:
        runtime.readiness.remove(HPAS)
        given.desk.open(dict)
        return
    runtime.readiness.set(HPAS, ready=False, detail="connecting")
    name, clock = f"phalanx-autoscaler/{settings.instance}/sources", runtime.clock

    def jetstream() -> JetStreamQueues:
        return JetStreamQueues(
            url=settings.nats_url,
            name=name,
            clock=clock,
            readiness=runtime.readiness,
            access=runtime.nats_access,
        )

    async with (
        await KubeClient.open(settings.kubeconfig, connections=CONNECTIONS, user_agent="phalanx-autoscaler") as client,
        source_kinds([one.spec for one in policy.metric_sources], jetstream=jetstream, clock=clock) as queues,
        await KubeClient.open(
            settings.kubeconfig, connections=MOST_AT_ONCE, user_agent="phalanx-autoscaler-pods"
        ) as pods_client,
        PlacerFit(client, target=settings.placer, tls=runtime.tls) as placer,
        asyncio.TaskGroup() as group,
    ):
        api = KubernetesHpas(client, clock=clock)

        def changed(metric: MetricKey) -> None:
            waker.metric_changed(metric)

        book = SourceBook(
            policy.metric_sources,
            queues=queues,
            clock=clock,
            metrics=given.metrics,
            interval_s=settings.source_interval_s,
            asleep_interval_s=settings.asleep_interval_s,
            changed=changed,
        )
        teller = _teller(api, given)
        deliveries = JetStreamDeliveries(queues.jetstream, sources=policy.metric_sources)
        starts = _starts(pods_client, given=given, deliveries=deliveries, teller=teller)
        waker = Waker(
            api,
            sources=book,
            teller=teller,
            metrics=given.metrics,
            clock=clock,
            leadership=given.leadership,
            fitting=_fitting(policy, placer=placer if settings.placer else None),
            starts=starts,
        )
        given.desk.open(lambda: book.states, users_of=waker.users_of)
        group.create_task(starts.run(), name="measuring cold starts")
        group.create_task(waker.run(), name="waking targets")
        group.create_task(book.run(), name="reading sources")
        group.create_task(_following(api, given=given, waker=waker).run(), name="following hpas")


def _teller(api: HpaApi, given: _Given) -> Teller:
    return Teller(
        api,
        stream=given.bus,
        instance=given.settings.instance,
        metrics=given.metrics,
        clock=given.runtime.clock,
        leadership=given.leadership,
    )


def _starts(client: KubeClient, *, given: _Given, deliveries: Deliveries, teller: Teller) -> ColdStarts:
    """Return what measures cold starts; it hears of placements from now on."""
    clock = given.runtime.clock
    starts = ColdStarts(
        KubernetesPods(client, clock=clock),
        deliveries=deliveries,
        teller=teller,
        metrics=given.metrics,
        tracer=given.runtime.tracer,
        clock=clock,
    )
    given.follower.placed = starts.placed
    return starts


def _following(api: HpaApi, *, given: _Given, waker: Waker) -> HpaFollower:
    return HpaFollower(
        api,
        replaced=waker.replaced,
        put=waker.put,
        removed=waker.removed,
        readiness=given.runtime.readiness,
        metrics=given.metrics,
        clock=given.runtime.clock,
    )


async def _serve(given: _Given) -> None:
    """Serve the numbers to the HPA's controller, where there is a certificate to do it with."""
    settings, runtime = given.settings, given.runtime
    if settings.external_metrics_tls is None:
        return
    files = TlsFiles.of(settings.external_metrics_tls)
    async with (
        await KubeClient.open(settings.kubeconfig, connections=CONNECTIONS, user_agent="phalanx-autoscaler") as client,
        _forwarding(settings) as forwarder,
        asyncio.TaskGroup() as group,
    ):
        api = KubernetesAggregation(client)
        server = MetricsServer(
            address=settings.external_metrics_address,
            files=files,
            desk=given.desk,
            access=api,
            forwarder=forwarder,
            readiness=runtime.readiness,
            metrics=given.metrics,
            clock=runtime.clock,
        )
        registrar = Registrar(
            api,
            service=settings.external_metrics_service,
            authority=files.authority.read_bytes,
            readiness=runtime.readiness,
            metrics=given.metrics,
            clock=runtime.clock,
        )
        group.create_task(server.run(), name="metrics server")
        group.create_task(registrar.run(), name="registering the metrics api")


def _fitting(policy: Policy, *, placer: Placer | None) -> FitQuestion:
    return FitQuestion(placer, default=WhenItDoesNotFit(policy.waking.when_it_does_not_fit))


@contextlib.asynccontextmanager
async def _forwarding(settings: AutoscalerSettings) -> AsyncIterator[Forwarder | None]:
    """Open the way to another adapter, where one is named."""
    if not settings.external_metrics_forward_to:
        yield None
        return
    credentials = await Credentials.find(settings.kubeconfig)
    async with Forwarder(
        url=settings.external_metrics_forward_to,
        ca_file=settings.external_metrics_forward_ca,
        authorization=credentials.authorization,
    ) as forwarder:
        yield forwarder
