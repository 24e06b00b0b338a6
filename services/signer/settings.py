"""Settings of the signer."""

from dataclasses import dataclass
from pathlib import Path

from services.runtime.settings import CommonSettings, bounded


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerSettings(CommonSettings):
    """What the signer is told. It needs no NATS: the servers of NATS get their certificates from it."""

    kubeconfig: Path | None = None
    """Kubeconfig file. Unset: the pod's service account, else the default kubeconfig of the user."""

    signer_name: str = "phalanx.dev/mtls"
    """Name of the signer whose PodCertificateRequests are answered."""

    ca_bundle: str = "phalanx.dev:mtls:ca"
    """Name of the ClusterTrustBundle; it has to begin with the signer's name, with `:` for `/`."""

    ca_namespace: str = "phalanx-system"
    """Namespace of the Secret with the keys of the authorities."""

    ca_secret_name: str = "phalanx-signer-ca"  # noqa: S105 - the name of an object
    """Name of that Secret. It is made where it does not exist."""

    ca_dir: Path | None = None
    """Folder with `tls.crt`, `tls.key` and `ca.crt` of an authority that somebody else keeps, instead of the Secret."""

    ca_lifetime_days: float = bounded(365.0, minimum=1, maximum=3650)
    """Days for which an authority that the signer makes itself is valid."""

    ca_renew_before_days: float = bounded(120.0, minimum=0, maximum=3650)
    """Days before the end of an authority at which its successor is made."""

    ca_spread_s: float = bounded(900.0, minimum=0, maximum=86_400)
    """Seconds for which a new authority is only published, until every kubelet has written it into its pods."""
