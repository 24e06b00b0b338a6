"""Settings of the watcher."""

from dataclasses import dataclass
from pathlib import Path

from services.runtime.settings import CommonSettings, bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings(CommonSettings):
    """What the watcher is told by its environment."""

    kubeconfig: Path | None = None
    """Kubeconfig file. Unset: the pod's service account, else the default kubeconfig of the user."""

    publish_in_flight: int = bounded(256, minimum=1, maximum=4096)
    """Objects that are written to the stream at the same time."""

    publish_queue: int = bounded(1024, minimum=1, maximum=100_000)
    """Writes that may wait for their turn; when full, lists and watches wait."""

    watch_timeout_s: float = bounded(300.0, minimum=1, maximum=3600)
    """Seconds after which the API server closes a watch, and it is opened again."""

    discovery_interval_s: float = bounded(3.0, minimum=0.1, maximum=600)
    """Seconds between two looks for an API that the server does not serve."""
