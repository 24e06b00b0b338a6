"""Scalers of KEDA's protocol, over real gRPC: what they are asked, what counts, and their push."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from services.autoscaler.adapters.external_scaler import ExternalScalers
from services.autoscaler.ports import SourceFailed
from services.core.metric_readings import Known, Unknown, reading_of
from services.core.metric_sources import ExternalScalerSource
from services.runtime.clock import SystemClock
from tests.e2e.waiting import until
from tests.integration.autoscaler.scaler_server import Scaler, serving

CLOCK = SystemClock()


@pytest.fixture
async def scaler() -> Scaler:
    """A scaler with one metric and no work."""
    return Scaler()


@pytest.fixture
async def address(scaler: Scaler) -> AsyncIterator[str]:
    """Where it serves."""
    async with serving(scaler) as found:
        yield found


@pytest.fixture
async def scalers() -> AsyncIterator[ExternalScalers]:
    """An adapter."""
    async with ExternalScalers(clock=CLOCK) as opened:
        yield opened


async def value(scalers: ExternalScalers, address: str, **given: Any) -> float | str:
    """The number of a source, or why there is none."""
    samples = await scalers.read(ExternalScalerSource(address=address, **given))
    reading = reading_of(samples, now=CLOCK.now())
    return reading.value if isinstance(reading, Known) else reading.why


@pytest.mark.parametrize("counts_whole", [False, True])
async def test_an_active_scaler_gives_its_number(
    scalers: ExternalScalers, scaler: Scaler, address: str, *, counts_whole: bool
) -> None:
    """As a fraction, or in the older whole number; and it is told who asks, by its own names."""
    scaler.is_active, scaler.counts_whole, scaler.metrics = True, counts_whole, [("depth", 12.0)]
    given = {"name": "infer", "namespace": "team-a", "metadata": {"queue": "infer"}}
    assert await value(scalers, address, **given) == 12
    reference = scaler.asked[0]
    assert (reference.name, reference.namespace, dict(reference.scaler_metadata)) == tuple(given.values())


async def test_activity_goes_before_the_number(scalers: ExternalScalers, scaler: Scaler, address: str) -> None:
    """What is not active is an explicit 0; what is active is never 0, so that it starts one replica."""
    scaler.metrics = [("depth", 5.0)]
    assert await value(scalers, address) == 0
    scaler.is_active, scaler.metrics = True, [("depth", 0.0)]
    found = await value(scalers, address)
    assert isinstance(found, float)
    assert 0 < found < 1


async def test_a_scaler_with_several_metrics_has_to_be_told_which(
    scalers: ExternalScalers, scaler: Scaler, address: str
) -> None:
    """Nobody could say which counts."""
    scaler.is_active, scaler.metrics = True, [("depth", 1.0), ("age", 2.0)]
    with pytest.raises(SourceFailed, match=r"has 2 metrics \(scaler at .*\): age, depth; say metricName"):
        await value(scalers, address)
    assert await value(scalers, address, metric_name="age") == 2


async def test_what_is_no_number_is_unknown(scalers: ExternalScalers, scaler: Scaler, address: str) -> None:
    """NaN, negative, twice, and none at all."""
    scaler.is_active = True
    for metrics, why in (
        ([("depth", float("nan"))], "gave nan"),
        ([("depth", -1.0)], "expected at least 0"),
        ([("depth", 1.0), ("depth", 2.0)], "twice"),
    ):
        scaler.metrics = metrics
        assert why in str(await value(scalers, address))
    scaler.metrics = [("other", 1.0)]
    assert isinstance(reading_of(await scalers.read(_named(address, "depth")), now=CLOCK.now()), Unknown)


async def test_failures_are_said(scalers: ExternalScalers, scaler: Scaler, address: str) -> None:
    """With the status, whether the scaler gave it or nobody was there."""
    scaler.failure = grpc.StatusCode.INTERNAL
    with pytest.raises(SourceFailed, match=r"gave no answer \(scaler at .*\): INTERNAL: on purpose"):
        await value(scalers, address)
    with pytest.raises(SourceFailed, match="UNAVAILABLE"):
        await value(scalers, "127.0.0.1:1")


async def test_pushes_are_hints_also_after_the_scaler_was_away(scalers: ExternalScalers) -> None:
    """Only those that say that there is work. They are not relied on: it is read often as well."""
    scaler, hinted = Scaler(), asyncio.Event()
    async with serving(scaler) as address:
        source = ExternalScalerSource(address=address)
        async with scalers.listening(source, hint=hinted.set) as has_hints:
            assert not has_hints
            await until(lambda: scaler.streams == 1, what="it listens")
            assert not hinted.is_set()
            scaler.push(is_active=True)
            await asyncio.wait_for(hinted.wait(), timeout=20)
    after, again = Scaler(), asyncio.Event()
    async with scalers.listening(source, hint=again.set), serving(after, address=address) as _:
        await until(lambda: after.streams, what="it listens again", timeout_s=60)
        after.push(is_active=True)
        await asyncio.wait_for(again.wait(), timeout=20)


async def test_a_scaler_without_push_is_only_read(scalers: ExternalScalers, scaler: Scaler, address: str) -> None:
    """It is not asked for a stream again."""
    scaler.has_push = False
    async with scalers.listening(ExternalScalerSource(address=address), hint=lambda: None):
        (listener,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("listening to scaler")]
        await asyncio.wait_for(asyncio.shield(listener), timeout=20)
    assert scaler.streams == 0


def _named(address: str, metric: str) -> ExternalScalerSource:
    return ExternalScalerSource(address=address, metric_name=metric)
