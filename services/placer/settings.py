"""Settings of the placer."""

from dataclasses import dataclass

from services.runtime.settings import GrpcSettings, bounded, choice


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacerSettings(GrpcSettings):
    """What the placer is told."""

    settle_ms: int = bounded(50, minimum=0, maximum=60_000)
    """Milliseconds for which a group must have stopped arriving before it is placed."""

    deadline_s: float = bounded(60.0, minimum=1, maximum=3600)
    """Seconds after which a proposal that nothing was written for is void."""

    repair_window_s: float = bounded(30.0, minimum=0, maximum=3600)
    """Seconds for which failed members are re-placed, where the group's annotation says nothing else."""

    preemption: bool = True
    """Pods of lower priority are evicted where a gang has no place otherwise."""

    rejection_memory_s: float = bounded(300.0, minimum=0, maximum=86_400)
    """Seconds for which a node whose kubelet rejected a member is excluded for those of its gang that ask the same."""

    degraded_timeout_s: float = bounded(300.0, minimum=0, maximum=86_400)
    """Seconds for which a gang below its minCount goes ahead of others, where its annotation says nothing else."""

    degraded_policy: str = choice("keep", options=("keep", "release"))
    """What happens to what is left of it then, where the group's annotation says nothing else."""
