"""Each source is read by the adapter of its kind; only those kinds are opened that are configured.

Client libraries that not everybody needs are an extra of the package. Where one is missing, its sources are unknown and
say so; the others go on.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack

from services.autoscaler.adapters.jetstream import JetStreamQueues
from services.autoscaler.adapters.prometheus import PrometheusQueues
from services.autoscaler.ports import Queues, SourceFailed
from services.core.metric_readings import Sample
from services.core.metric_sources import (
    ExternalScalerSource,
    HttpSource,
    JetStreamSource,
    PrometheusSource,
    RedisSource,
    SourceSpec,
)
from services.runtime.clock import Clock

EXTRA = "metric-sources"
"""Extra of the package with the client libraries."""


class SourceKinds:
    """Satisfies `services.autoscaler.ports.Queues` for every kind that is open."""

    def __init__(self, kinds: Mapping[type[SourceSpec], Queues], *, jetstream: JetStreamQueues | None) -> None:
        """Keep who reads which kind; `jetstream` is the connection to the bus, where that is one of them."""
        self._kinds = kinds
        self.jetstream = jetstream

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the numbers. Raises SourceFailed."""
        return await self._kinds[type(source)].read(source)

    def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AbstractAsyncContextManager[bool]:
        """Call `hint` whenever something may have come. Raises SourceFailed."""
        return self._kinds[type(source)].listening(source, hint=hint)


@contextlib.asynccontextmanager
async def source_kinds(
    sources: Iterable[SourceSpec], *, jetstream: Callable[[], JetStreamQueues], clock: Clock
) -> AsyncIterator[SourceKinds]:
    """Open what these sources need."""
    wanted = {type(source) for source in sources}
    kinds: dict[type[SourceSpec], Queues] = {}
    async with AsyncExitStack() as stack:
        bus = await stack.enter_async_context(jetstream()) if JetStreamSource in wanted else None
        if bus is not None:
            kinds[JetStreamSource] = bus
        if PrometheusSource in wanted or HttpSource in wanted:
            await _open_http(stack, kinds=kinds, clock=clock)
        if RedisSource in wanted:
            await _open_redis(stack, kinds=kinds, clock=clock)
        if ExternalScalerSource in wanted:
            await _open_scalers(stack, kinds=kinds, clock=clock)
        yield SourceKinds(kinds, jetstream=bus)


async def _open_http(stack: AsyncExitStack, *, kinds: dict[type[SourceSpec], Queues], clock: Clock) -> None:
    # Imported here, as the others: whoever has no such source need not have it in memory.
    from services.autoscaler.adapters.http_reader import HttpReader

    reader = await stack.enter_async_context(HttpReader())
    kinds[PrometheusSource] = PrometheusQueues(reader)
    try:
        from services.autoscaler.adapters.http_json import HttpQueues
    except ModuleNotFoundError as error:
        kinds[HttpSource] = _Missing(error)
    else:
        kinds[HttpSource] = HttpQueues(reader, clock=clock)


async def _open_redis(stack: AsyncExitStack, *, kinds: dict[type[SourceSpec], Queues], clock: Clock) -> None:
    try:
        from services.autoscaler.adapters.redis_queues import RedisQueues
    except ModuleNotFoundError as error:
        kinds[RedisSource] = _Missing(error)
    else:
        kinds[RedisSource] = await stack.enter_async_context(RedisQueues(clock=clock))


async def _open_scalers(stack: AsyncExitStack, *, kinds: dict[type[SourceSpec], Queues], clock: Clock) -> None:
    from services.autoscaler.adapters.external_scaler import ExternalScalers

    kinds[ExternalScalerSource] = await stack.enter_async_context(ExternalScalers(clock=clock))


class _Missing:
    """Reads nothing, and says which library is not installed."""

    def __init__(self, error: ModuleNotFoundError) -> None:
        self._why = f"cannot be read: the library {error.name} is not installed; install phalanx[{EXTRA}]"

    async def read(self, _source: SourceSpec) -> Sequence[Sample]:
        """Raise SourceFailed."""
        raise SourceFailed(self._why)

    @contextlib.asynccontextmanager
    async def listening(self, _source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """Hint at nothing; reading seldom is enough."""
        del hint
        yield True
