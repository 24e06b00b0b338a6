"""Numbers from a real Prometheus: what is a number there, and what is said where there is none."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from services.autoscaler.adapters.http_reader import HttpReader
from services.autoscaler.adapters.prometheus import PrometheusQueues
from services.autoscaler.ports import SourceFailed
from services.core.metric_readings import Known, Reading, reading_of
from services.core.metric_sources import PrometheusSource

TWO = 'label_replace(vector(2), "queue", "a", "", "") or label_replace(vector(3), "queue", "b", "", "")'


@pytest.fixture
async def queues() -> AsyncIterator[PrometheusQueues]:
    """An adapter."""
    async with HttpReader() as reader:
        yield PrometheusQueues(reader)


async def read(queues: PrometheusQueues, url: str, query: str) -> Reading:
    """The reading of one query."""
    samples = await queues.read(PrometheusSource(url=url, query=query))
    return reading_of(samples, now=datetime.now(UTC))


@pytest.mark.parametrize(("query", "value"), [("vector(5)", 5), ("scalar(vector(7))", 7), ("vector(0)", 0), (TWO, 5)])
async def test_vectors_and_scalars_are_numbers(
    queues: PrometheusQueues, prometheus_url: str, query: str, value: float
) -> None:
    """Several series are added up, and an explicit 0 is one."""
    found = await read(queues, prometheus_url, query)
    assert isinstance(found, Known)
    assert found.value == value


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("absent_metric", "no series is not zero"),
        ("vector(0) / vector(0)", "gave nan"),
        ("vector(1) / vector(0)", "gave inf"),
        ("vector(-3)", "gave -3, expected at least 0"),
    ],
)
async def test_what_is_no_length_is_unknown(
    queues: PrometheusQueues, prometheus_url: str, query: str, why: str
) -> None:
    """It is never a number."""
    assert why in str(await read(queues, prometheus_url, query))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("sum(", "answered with status 400 .*parse error"),
        ("up[5m]", "answered a matrix, expected a vector or a scalar"),
        ('"text"', "answered a string, expected a vector or a scalar"),
    ],
)
async def test_what_is_no_instant_query_is_said(
    queues: PrometheusQueues, prometheus_url: str, query: str, why: str
) -> None:
    """In Prometheus' own words where it has some."""
    with pytest.raises(SourceFailed, match=why):
        await read(queues, prometheus_url, query)
