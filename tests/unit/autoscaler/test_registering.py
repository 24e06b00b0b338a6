"""The one APIService: looked at, told about, and written to only where it is ours."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from prometheus_client import CollectorRegistry

from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.registering import CONDITION, INTERVAL_S, Registrar
from services.runtime.health import Readiness
from tests.fakes.aggregation import FakeAggregation
from tests.fakes.clock import FakeClock

OWNERS = ("ours", "foreign", "absent", "unknown")


class Scene:
    """A registrar over an API in memory."""

    def __init__(self) -> None:
        """Put it together."""
        self.api, self.clock = FakeAggregation(), FakeClock()
        self.registry, self.readiness = CollectorRegistry(), Readiness(clock=self.clock)
        self.authority = b"CA"
        self.registrar = Registrar(
            self.api,
            service="phalanx-system/metrics",
            authority=lambda: self.authority,
            readiness=self.readiness,
            metrics=WakingMetrics(self.registry),
            clock=self.clock,
        )

    @property
    def owner(self) -> list[str]:
        """Whose it is, by the gauge."""
        name = "phalanx_autoscaler_external_metrics_api"
        return [one for one in OWNERS if self.registry.get_sample_value(name, {"owner": one})]

    @property
    def detail(self) -> str:
        """What readiness says; it never keeps the service from being ready."""
        (condition,) = [one for one in self.readiness.conditions if one.name == CONDITION]
        assert condition.ready
        return condition.detail

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run it."""
        task = asyncio.create_task(self.registrar.run())
        await self.clock.settle()
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def api_service(namespace: str = "phalanx-system", name: str = "metrics") -> dict[str, Any]:
    """An APIService that names a Service."""
    return {"metadata": {"resourceVersion": "1"}, "spec": {"service": {"namespace": namespace, "name": name}}}


async def test_what_becomes_ours_gets_our_authority_and_a_new_one_later() -> None:
    """Created after the start, and with a certificate that is renewed."""
    scene = Scene()
    async with scene.running():
        assert scene.owner == ["absent"]
        scene.api.api_service = api_service()
        await scene.clock.run_for(INTERVAL_S)
        assert scene.owner == ["ours"]
        assert scene.api.api_service["spec"]["caBundle"] == "Q0E="
        scene.authority = b"CB"
        await scene.clock.run_for(INTERVAL_S)
        assert scene.api.api_service["spec"]["caBundle"] == "Q0I="


async def test_what_is_somebody_elses_is_not_touched() -> None:
    """And it is said."""
    scene = Scene()
    scene.api.api_service = api_service("keda", "adapter")
    async with scene.running():
        assert scene.owner == ["foreign"]
        assert "belongs to keda/adapter" in scene.detail
        assert scene.api.api_service == api_service("keda", "adapter")


async def test_an_outage_and_a_conflict_are_looked_at_again() -> None:
    """Unknown is not absent."""
    scene = Scene()
    scene.api.api_service, scene.api.is_away = api_service(), True
    async with scene.running():
        assert scene.owner == ["unknown"]
        assert scene.detail == "no answer"
        scene.api.is_away, scene.api.is_conflicting = False, True
        await scene.clock.run_for(INTERVAL_S)
        assert scene.owner == ["unknown"]
        scene.api.is_conflicting = False
        await scene.clock.run_for(INTERVAL_S)
        assert scene.owner == ["ours"]
