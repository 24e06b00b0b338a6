"""How many messages the consumers behind configured metrics were given: what tells that an item was taken."""

from collections.abc import Iterable

from services.autoscaler.adapters.jetstream import JetStreamQueues
from services.core.metric_readings import MetricKey
from services.core.metric_sources import MetricSource


class JetStreamDeliveries:
    """Satisfies `services.autoscaler.ports.Deliveries`. Other kinds of queues do not tell who took what."""

    def __init__(self, queues: JetStreamQueues | None, *, sources: Iterable[MetricSource]) -> None:
        """Use the connection of `queues`, which must be open when it is asked; None where no source is JetStream's."""
        self._queues = queues
        self._sources = {MetricKey(name=one.metric, selector=one.labels): one.jetstream for one in sources}

    def last_delivered(self, key: MetricKey) -> int | None:
        """Return the count as of the last reading, which is the one that asked for the wake."""
        source = self._sources.get(key)
        return None if source is None or self._queues is None else self._queues.last_delivered(source)

    async def delivered(self, key: MetricKey) -> int | None:
        """Return the count of a metric's consumer. Raises SourceFailed."""
        source = self._sources.get(key)
        return None if source is None or self._queues is None else await self._queues.delivered(source)
