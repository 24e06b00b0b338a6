"""What the autoscaler counts about waking."""

from enum import StrEnum

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from services.contracts.scaling_codec import SCALING_EVENTS
from services.core.cold_start import PHASES, TOTAL
from services.core.metrics_registration import Owner

_RESULTS = ("known", "unknown")
REQUEST_RESULTS = ("answered", "forwarded", "not_found", "unavailable", "unauthenticated", "forbidden", "invalid")
"""What becomes of a request to the metrics API."""
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 3.0, 10.0)
_PHASE_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)


class StartOutcome(StrEnum):
    """How the watching of a cold start ended."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNMEASURED = "unmeasured"


class WakingMetrics:
    """Sources read, HPAs followed, decisions told."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything, so that each series exists from the start."""
        self.followed = Gauge(
            "phalanx_autoscaler_followed_hpas", "HPAs with a metric in metricSources.", registry=registry
        )
        self.readings = Counter(
            "phalanx_autoscaler_source_readings_total", "Readings of metric sources.", ["result"], registry=registry
        )
        self.told = Counter(
            "phalanx_autoscaler_scaling_decisions_total", "Scaling decisions, by event.", ["event"], registry=registry
        )
        self.waking = Histogram(
            "phalanx_autoscaler_wake_duration_seconds",
            "From the reading that asked for a wake until the replicas were set.",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.unreadable = Counter(
            "phalanx_autoscaler_unreadable_hpas_total", "HPAs that could not be read.", registry=registry
        )
        self.requests = Counter(
            "phalanx_autoscaler_external_metrics_requests_total",
            "Requests for metrics through external.metrics.k8s.io.",
            ["result"],
            registry=registry,
        )
        self.registration = Gauge(
            "phalanx_autoscaler_external_metrics_api",
            "1 for whose external.metrics.k8s.io is.",
            ["owner"],
            registry=registry,
        )
        for owner in Owner:
            self.registration.labels(owner=owner.value)
        for result in REQUEST_RESULTS:
            self.requests.labels(result=result)
        self.phases = Histogram(
            "phalanx_autoscaler_cold_start_duration_seconds",
            "What each phase of a cold start added, and the whole.",
            ["phase"],
            buckets=_PHASE_BUCKETS,
            registry=registry,
        )
        self.starts = Counter(
            "phalanx_autoscaler_cold_starts_total",
            "Cold starts after a wake, by outcome.",
            ["outcome"],
            registry=registry,
        )
        for phase in (*PHASES, TOTAL):
            self.phases.labels(phase=phase)
        for outcome in StartOutcome:
            self.starts.labels(outcome=outcome)
        for result in _RESULTS:
            self.readings.labels(result=result)
        for event in SCALING_EVENTS.values():
            self.told.labels(event=event)
