"""Metrics of the placer, in one place; docs/metrics.md explains each."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class PlacerMetrics:
    """What the placer counts."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything, so that each series exists from the start."""
        self.decisions = Counter(
            "phalanx_placer_decisions_total", "Decisions published, by event.", ["event"], registry=registry
        )
        self.reasons = Counter(
            "phalanx_placer_waiting_reasons_total",
            "Reasons of published waiting decisions, by code.",
            ["code"],
            registry=registry,
        )
        self.thinking = Histogram(
            "phalanx_placer_decide_seconds",
            "Time to fold a batch of events and decide what they make possible.",
            buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5),
            registry=registry,
        )
        self.messages = Counter(
            "phalanx_placer_messages_total", "Messages folded, by stream.", ["stream"], registry=registry
        )
        self.unreadable = Counter(
            "phalanx_placer_unreadable_messages_total",
            "Messages that could not be decoded and were skipped.",
            registry=registry,
        )
        self.stale = Counter(
            "phalanx_placer_stale_decisions_total",
            "Decisions taken back because another placer wrote first.",
            registry=registry,
        )
        self.revision = Gauge(
            "phalanx_placer_revision", "Sequence of the cluster stream up to which it is folded.", registry=registry
        )
        self.waiting = Gauge("phalanx_placer_waiting_gangs", "Gangs that wait now.", registry=registry)
        self.open = Gauge("phalanx_placer_open_transactions", "Transactions that have not ended.", registry=registry)
        self.degraded = Gauge(
            "phalanx_placer_degraded_gangs",
            "Committed gangs of which fewer members are left than they need.",
            registry=registry,
        )
