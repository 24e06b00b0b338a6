"""Settings of the placer."""

from dataclasses import dataclass

from services.runtime.settings import ElectedSettings, bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacerSettings(ElectedSettings):
    """What the placer is told."""

    settle_ms: int = bounded(50, minimum=0, maximum=60_000)
    """Milliseconds for which a group must have stopped arriving before it is placed."""

    deadline_s: float = bounded(60.0, minimum=1, maximum=3600)
    """Seconds after which a proposal that nothing was written for is void."""

    repair_window_s: float = bounded(30.0, minimum=0, maximum=3600)
    """Seconds for which failed members are re-placed, where the group's annotation says nothing else."""
