"""The numbers behind `external.metrics.k8s.io`: those by which targets are woken, so that both decide alike.

The desk outlives changes of the configuration; between two of them nothing is known, and that is what it says.
"""

from collections.abc import Callable, Iterable, Mapping

from services.core.metric_readings import MetricKey, SourceState
from services.core.scaling import Autoscaler
from services.core.served_metrics import MetricQuery, MetricUnavailable, ServedMetric, selected_keys, served_metric
from services.runtime.clock import Clock

StatesOf = Callable[[], Mapping[MetricKey, SourceState | None]]
"""What is known of each configured source now."""

UsersOf = Callable[[MetricKey, str], Iterable[Autoscaler]]
"""HPAs with a metric in a namespace: `users_of(metric, namespace)`."""


def _nobody(_metric: MetricKey, _namespace: str) -> Iterable[Autoscaler]:
    return ()


class MetricDesk:
    """Answers what is asked, from the sources in force."""

    def __init__(self, *, clock: Clock) -> None:
        """Begin with nothing known."""
        self._clock = clock
        self._states: StatesOf | None = None
        self._users_of: UsersOf = _nobody

    def open(self, states: StatesOf, *, users_of: UsersOf = _nobody) -> None:
        """Answer from these sources from now on."""
        self._states, self._users_of = states, users_of

    def close(self) -> None:
        """Say that nothing is known: the sources are being changed."""
        self._states, self._users_of = None, _nobody

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of all metrics, for discovery."""
        return () if self._states is None else tuple(sorted({key.name for key in self._states()}))

    def answer(self, query: MetricQuery) -> ServedMetric:
        """Return the numbers, or why there are none."""
        if self._states is None:
            return MetricUnavailable(message=f"metric {query} is unknown: the configuration is being read")
        sources = self._states()
        keys = selected_keys(query, known=sources)
        # Groups are those of one source's users: what several sources add up to is nobody's own.
        users = self._users_of(keys[0], query.namespace) if len(keys) == 1 else ()
        return served_metric(query, sources=sources, users=users, now=self._clock.now())
