"""What the signer counts."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from services.core.signing import DenialReason

RESULTS = ("issued", "denied", "overtaken", "refused", "unreadable", "put_off")
"""What becomes of a request that is looked at."""


class SignerMetrics:
    """Every metric of the signer; each series exists from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything."""
        self.requests = Counter(
            "phalanx_signer_requests_total",
            "Certificate requests that were looked at, by what became of them.",
            ["result"],
            registry=registry,
        )
        self.denials = Counter(
            "phalanx_signer_denials_total", "Requests that were denied, by reason.", ["reason"], registry=registry
        )
        self.authorities = Gauge("phalanx_signer_authorities", "Authorities in the trust bundle.", registry=registry)
        self.expiry = Gauge(
            "phalanx_signer_authority_expiry_seconds",
            "Moment at which the authority that signs expires, in seconds since 1970.",
            registry=registry,
        )
        self.rotations = Counter("phalanx_signer_rotations_total", "Authorities that began to sign.", registry=registry)
        for result in RESULTS:
            self.requests.labels(result=result)
        for reason in DenialReason:
            self.denials.labels(reason=reason.value)
