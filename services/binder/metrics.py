"""What the binder counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_DURATIONS_S = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
_PHASES_S = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120)
_LATENCIES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30)


class JournalMetrics:
    """Metrics of the journal, and of what transactions start from."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics."""
        self.writes = Counter(
            "phalanx_journal_writes", "Writes of journal entries, by result", ["result"], registry=registry
        )
        self.duration = Histogram(
            "phalanx_journal_write_duration_seconds",
            "From asking for an entry to be written until it is safe",
            buckets=_LATENCIES_S,
            registry=registry,
        )
        self.taken_up = Counter(
            "phalanx_transactions_taken_up",
            "Transactions that were taken up, by what they started from",
            ["source"],
            registry=registry,
        )
        self.superseded = Counter(
            "phalanx_transactions_superseded", "Transactions that another binder took over", registry=registry
        )
        self.unreadable = Counter(
            "phalanx_journal_unreadable_entries",
            "Journal entries that could not be read; their transactions go on from the stream",
            registry=registry,
        )


class SweepMetrics:
    """Metrics of the sweep."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics."""
        self.sweeps = Counter(
            "phalanx_sweeps",
            "Comparisons of live pods with what stream and journal explain, by result",
            ["result"],
            registry=registry,
        )
        self.reopened = Counter(
            "phalanx_sweep_reopened_transactions",
            "Transactions that nothing explained, and that were opened again",
            registry=registry,
        )


class MaintenanceMetrics:
    """Metrics of maintenance windows."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics."""
        self.ended = Counter(
            "phalanx_taint_rules_ended",
            "DeviceTaintRules whose time was over, by what became of removing them",
            ["result"],
            registry=registry,
        )


class SharingMetrics:
    """Metrics of what others do: on shared nodes, and on the placement stream."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics."""
        self.rechecks = Counter(
            "phalanx_shared_node_rechecks",
            "Looks at members that were bound to shared nodes, by what was found",
            ["result"],
            registry=registry,
        )
        self.withdrawn = Counter(
            "phalanx_members_withdrawn",
            "Bound pods that gave way to another scheduler's on a shared node",
            registry=registry,
        )
        self.superseded_proposals = Counter(
            "phalanx_proposals_superseded",
            "Proposals of transactions that had ended, or had a later round, when they came: they were passed over",
            registry=registry,
        )


class ClaimMetrics:
    """Metrics of ResourceClaims."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics."""
        self.held = Counter(
            "phalanx_claims",
            "Definite answers about claims that were to be allocated and reserved, by outcome",
            ["outcome"],
            registry=registry,
        )
        self.freed = Counter(
            "phalanx_claims_freed",
            "Claims that were freed because members which were never bound used them",
            registry=registry,
        )
        self.collided = Counter(
            "phalanx_claims_collided",
            "Claims that gave way to another scheduler's with the same device",
            registry=registry,
        )
        self.healed = Counter(
            "phalanx_claims_healed",
            "Claims of lost transactions that the sweep freed",
            registry=registry,
        )


class BinderMetrics:
    """Metrics of one binder."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register all metrics."""
        self.transactions = Counter(
            "phalanx_transactions",
            "Transactions that ended, by outcome and the first reason",
            ["outcome", "cause"],
            registry=registry,
        )
        self.phases = Histogram(
            "phalanx_transaction_phase_duration_seconds",
            "Time in each phase of transactions, every visit by itself",
            ["phase"],
            buckets=_PHASES_S,
            registry=registry,
        )
        self.undos = Counter("phalanx_transaction_undos", "Transactions that began an undo", registry=registry)
        self.open = Gauge("phalanx_transactions_open", "Transactions in hand", registry=registry)
        self.duration = Histogram(
            "phalanx_transaction_duration_seconds",
            "From reading a proposal to its end, by outcome",
            ["outcome"],
            buckets=_DURATIONS_S,
            registry=registry,
        )
        self.bindings = Counter("phalanx_bindings", "Definite answers to bindings", ["outcome"], registry=registry)
        self.repairs = Counter("phalanx_transaction_repairs", "Rounds asked for as members failed", registry=registry)
        self.sharing = SharingMetrics(registry)
        self.claims = ClaimMetrics(registry)
        self.victims = Counter(
            "phalanx_victims", "Pods that were to make room, by outcome", ["outcome"], registry=registry
        )
        self.undone = Counter("phalanx_members_undone", "Bound pods that were deleted by an undo", registry=registry)
        self.latency = Histogram(
            "phalanx_kubernetes_request_duration_seconds",
            "Requests to the Kubernetes API, by what they do and status",
            ["verb", "status"],
            buckets=_LATENCIES_S,
            registry=registry,
        )
        self.reports = Counter(
            "phalanx_reports", "Conditions and events written for people", ["kind", "outcome"], registry=registry
        )
        self.revision = Gauge(
            "phalanx_binder_revision", "Sequence of the cluster stream up to which it is folded", registry=registry
        )
        self.journal = JournalMetrics(registry)
        self.sweep = SweepMetrics(registry)
        self.maintenance = MaintenanceMetrics(registry)
        self.unreadable = Counter(
            "phalanx_binder_unreadable_messages", "Messages that could not be decoded", registry=registry
        )
