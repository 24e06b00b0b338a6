"""Settings of the autoscaler."""

from dataclasses import dataclass
from pathlib import Path

from services.runtime.settings import ElectedSettings, address, bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerSettings(ElectedSettings):
    """What the autoscaler is told by its environment; which metrics wake is in the configuration file."""

    kubeconfig: Path | None = None
    """Kubeconfig file. Unset: the pod's service account, else the default kubeconfig of the user."""

    placer: str = ""
    """HOST:PORT of the placer's gRPC interface, which is asked before a wake whether its pods have a place."""

    source_interval_s: float = bounded(15.0, minimum=0.1, maximum=60)
    """Seconds after which each metric source is read, beside the readings upon a hint."""

    asleep_interval_s: float = bounded(1.0, minimum=0.1, maximum=60)
    """Seconds after which a source that gives no hints is read while somebody sleeps who waits for it."""

    external_metrics_tls: Path | None = None
    """Folder with tls.crt, tls.key and ca.crt with which external.metrics.k8s.io is served; unset: it is not."""

    external_metrics_address: str = address("0.0.0.0:6443")
    """Where external.metrics.k8s.io is served; port 0 takes a free one."""

    external_metrics_forward_to: str = ""
    """URL of an adapter that is asked for metrics which are in no entry of metricSources; empty: they are not found."""

    external_metrics_forward_ca: Path | None = None
    """File with the authority of that adapter's certificate. Unset: those of the system."""

    external_metrics_service: str = "phalanx-system/phalanx-external-metrics"
    """Namespace and name of the Service through which the API server reaches that address."""
