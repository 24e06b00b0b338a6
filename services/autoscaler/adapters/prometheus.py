"""Numbers from Prometheus: an instant query, whose series are added up."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from services.autoscaler.adapters.http_reader import HttpReader
from services.autoscaler.ports import SourceFailed
from services.core.metric_readings import Sample
from services.core.metric_sources import PrometheusSource, SourceSpec

MAX_SERIES = 1000
"""A query that gives more is no metric of one target."""


class PrometheusQueues:
    """Satisfies `services.autoscaler.ports.Queues` for PrometheusSource."""

    def __init__(self, reader: HttpReader) -> None:
        """Use an open reader."""
        self._reader = reader

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the series that the query gives. Raises SourceFailed."""
        assert isinstance(source, PrometheusSource)
        # Thanos leaves out what it cannot reach unless it is told not to; Prometheus itself does not know the word.
        query = {"query": source.query, "partial_response": "false"}
        document = await self._reader.json(
            f"{source.url.rstrip('/')}/api/v1/query",
            query=query,
            token_file=source.bearer_token_file,
            ca_file=source.ca_file,
        )
        return samples_of(document)

    @contextlib.asynccontextmanager
    async def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """Prometheus tells nobody."""
        del source, hint
        yield False


def samples_of(document: Any) -> Sequence[Sample]:
    """Return the samples in the answer to an instant query. Raises SourceFailed where it is none.

    A scalar is a series without labels, a vector has any number of them. Ranges have many numbers for each.
    """
    try:
        return tuple(_samples(document))
    except (KeyError, TypeError, ValueError, OverflowError, OSError) as error:
        raise SourceFailed(f"answered something else than an instant query does: {error!r}") from error


def _samples(document: Mapping[str, Any]) -> Iterator[Sample]:
    if document["status"] != "success":
        raise SourceFailed(f"refused the query: {document.get('error', 'it does not say why')}")
    kind, result = document["data"]["resultType"], document["data"]["result"]
    if kind == "scalar":
        yield _sample(result, labels={})
        return
    if kind != "vector":
        raise SourceFailed(f"answered a {kind}, expected a vector or a scalar: write an instant query")
    if len(result) > MAX_SERIES:
        raise SourceFailed(f"answered {len(result)} series, expected at most {MAX_SERIES}: sum them up in the query")
    for series in result:
        yield _sample(series["value"], labels=series["metric"])


def _sample(value: Sequence[Any], *, labels: Mapping[str, str]) -> Sample:
    moment, number = value
    return Sample(
        value=float(number),
        taken_at=datetime.fromtimestamp(float(moment), tz=UTC),
        labels=tuple(sorted(labels.items())),
    )
