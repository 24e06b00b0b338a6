"""The watcher's metrics, declared once."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

PHASES = ("waiting", "listing", "synced", "absent")


class Metrics:
    """Counters and gauges by kind; object names never become labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them."""
        self.events = Counter(
            "phalanx_watcher_events",
            "Objects listed and events of watches, by what they were",
            ["kind", "type"],
            registry=registry,
        )
        self.verdicts = Counter(
            "phalanx_watcher_versions",
            "Versions seen, by what became of them: accepted, unchanged or outdated",
            ["kind", "verdict"],
            registry=registry,
        )
        self.writes = Counter(
            "phalanx_watcher_writes",
            "Writes to the stream, by how they ended: stored, refused or unanswered",
            ["kind", "result"],
            registry=registry,
        )
        self.malformed = Counter(
            "phalanx_watcher_malformed_objects",
            "Versions that could not be understood and were left out",
            ["kind"],
            registry=registry,
        )
        self.relists = Counter(
            "phalanx_watcher_relists",
            "Lists begun, by reason",
            ["kind", "reason"],
            registry=registry,
        )
        self.watches = Counter("phalanx_watcher_watches", "Watches opened", ["kind"], registry=registry)
        self.latency = Histogram(
            "phalanx_watcher_publish_latency_seconds",
            "From seeing a version in the API to its acknowledgement by the stream",
            ["kind"],
            buckets=LATENCY_BUCKETS_S,
            registry=registry,
        )
        self.objects = Gauge("phalanx_watcher_objects", "Objects that the stream holds", ["kind"], registry=registry)
        self.unsettled = Gauge(
            "phalanx_watcher_unsettled_objects",
            "Objects of which a newer version is not yet in the stream",
            ["kind"],
            registry=registry,
        )
        self.lag = Gauge(
            "phalanx_watcher_lag_seconds",
            "Age of the oldest version that is not yet in the stream",
            ["kind"],
            registry=registry,
        )
        self.queue_depth = Gauge("phalanx_watcher_queue_depth", "Writes that wait for a free worker", registry=registry)
        self.phase = Gauge(
            "phalanx_watcher_phase",
            "1 for the state of each kind's watch",
            ["kind", "phase"],
            registry=registry,
        )

    def show_phase(self, kind: str, *, phase: str) -> None:
        """Show the state of one kind's watch."""
        for known in PHASES:
            self.phase.labels(kind, known).set(known == phase)
