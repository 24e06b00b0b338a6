"""What the binder is told at its start."""

from dataclasses import dataclass
from pathlib import Path

from services.runtime.settings import GrpcSettings, bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class BinderSettings(GrpcSettings):
    """Settings of the binder."""

    kubeconfig: Path | None = None
    """Kubeconfig file. Unset: the pod's service account, else the default kubeconfig of the user."""

    bind_concurrency: int = bounded(16, minimum=1, maximum=512)
    """Writes to the API server in flight at once; fewer while it answers that it is busy."""

    max_transactions: int = bounded(1024, minimum=1, maximum=65536)
    """Transactions in hand at once; later ones wait for their turn, in order."""

    sweep_interval_s: float = bounded(30.0, minimum=0.1, maximum=3600)
    """Seconds between two comparisons of live pods with what stream and journal explain."""

    reporting: bool = True
    """Whether conditions and events are written for people and node autoscalers."""

    binding_conditions_timeout_s: float = bounded(600.0, minimum=1, maximum=86400)
    """Seconds that devices may take to become ready for their pods, before others are chosen."""
