"""Settings of the autoscaler."""

from dataclasses import dataclass

from services.runtime.settings import CommonSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerSettings(CommonSettings):
    """What the autoscaler is told: only what every service is, so far."""
