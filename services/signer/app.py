"""The signer, put together: the only place that builds its adapters."""

import asyncio
from datetime import timedelta

from services.contracts.policy_file import PolicySource, following_policy
from services.core.authorities import RotationTerms
from services.runtime.kube import KubeClient
from services.runtime.lifecycle import Runtime
from services.runtime.settings import SettingsError
from services.runtime.stopping import cancelled
from services.signer.adapters.authorities import KubernetesAuthorities
from services.signer.adapters.requests import KubernetesRequests
from services.signer.answering import Answerer
from services.signer.given import GivenAuthority
from services.signer.keeping import Keeper
from services.signer.metrics import SignerMetrics
from services.signer.settings import SignerSettings

CONNECTIONS = 16


async def sign(settings: SignerSettings, runtime: Runtime) -> None:
    """Run the signer until it is asked to stop. Any number may run."""
    terms = _terms(settings)
    async with (
        following_policy(settings.config, clock=runtime.clock, registry=runtime.registry) as policy,
        await KubeClient.open(settings.kubeconfig, connections=CONNECTIONS, user_agent="phalanx-signer") as client,
        asyncio.TaskGroup() as group,
    ):
        metrics = SignerMetrics(runtime.registry)
        source = _source(settings, runtime, client=client, terms=terms, policy=policy, metrics=metrics)
        answerer = Answerer(
            KubernetesRequests(client, signer_name=settings.signer_name),
            source=source,
            policy=lambda: policy.value.signer,
            readiness=runtime.readiness,
            metrics=metrics,
            clock=runtime.clock,
        )
        working = [
            group.create_task(source.run(), name="keeping the authorities"),
            group.create_task(answerer.run(), name="answering requests"),
        ]
        await runtime.stopping.wait()
        await cancelled(working)


def _source(
    settings: SignerSettings,
    runtime: Runtime,
    *,
    client: KubeClient,
    terms: RotationTerms,
    policy: PolicySource,
    metrics: SignerMetrics,
) -> Keeper | GivenAuthority:
    store = KubernetesAuthorities(
        client,
        namespace=settings.ca_namespace,
        secret=settings.ca_secret_name,
        signer_name=settings.signer_name,
        bundle=settings.ca_bundle,
    )
    if settings.ca_dir is not None:
        return GivenAuthority(
            settings.ca_dir, store=store, readiness=runtime.readiness, metrics=metrics, clock=runtime.clock
        )
    return Keeper(
        store,
        terms=terms,
        trust_domain=lambda: policy.value.signer.trust_domain,
        readiness=runtime.readiness,
        metrics=metrics,
        clock=runtime.clock,
    )


def _terms(settings: SignerSettings) -> RotationTerms:
    """Return the terms of rotation. Raises SettingsError where they contradict each other, or the bundle's name."""
    prefix = settings.signer_name.replace("/", ":") + ":"
    problems = []
    if not settings.ca_bundle.startswith(prefix):
        problems.append(
            f"PHALANX_CA_BUNDLE: given {settings.ca_bundle!r}, expected a name that begins with {prefix!r}, as the API "
            f"server asks for of bundles of the signer {settings.signer_name!r}"
        )
    if settings.ca_renew_before_days >= settings.ca_lifetime_days:
        problems.append(
            f"PHALANX_CA_RENEW_BEFORE_DAYS: given {settings.ca_renew_before_days:g}, expected less than "
            f"PHALANX_CA_LIFETIME_DAYS, which is {settings.ca_lifetime_days:g}"
        )
    if problems:
        raise SettingsError(problems)
    return RotationTerms(
        lifetime=timedelta(days=settings.ca_lifetime_days),
        renew_before=timedelta(days=settings.ca_renew_before_days),
        spread=timedelta(seconds=settings.ca_spread_s),
    )
