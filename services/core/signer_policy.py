"""Who gets a certificate of ours, and what stands in it: the section `signer` of the configuration file.

Nobody is named by default, and whoever is not named gets none. A certificate names its owner by one SPIFFE URI, which
nobody chooses: it is made of the trust domain and of the namespace and the service account that the pod really has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

DEFAULT_TRUST_DOMAIN = "phalanx.dev"
CLIENT_AUTH = "clientAuth"
SERVER_AUTH = "serverAuth"

SHORTEST_LIFETIME_HOURS = 1
"""The API server takes no shorter certificate."""
LONGEST_LIFETIME_HOURS = 90 * 24
MAX_IDENTITIES = 4096
MAX_DNS_NAMES = 64

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DOMAIN = rf"{_LABEL}(\.{_LABEL})*"

NAMESPACE = {"pattern": rf"^{_LABEL}$", "text": "the name of a namespace, such as phalanx-system"}
"""Limits of a field that names a namespace."""
SERVICE_ACCOUNT = {
    "pattern": rf"^(?=.{{1,253}}$){_DOMAIN}$",
    "text": "the name of a service account, such as phalanx-placer",
}
"""Limits of a field that names a service account."""
DNS_NAMES = {
    "pattern": rf"^(?=.{{1,253}}$)(\*\.)?{_DOMAIN}$",
    "text": "a DNS name in lower case, such as phalanx-placer.phalanx-system.svc, or one with *. before it",
    "maximum_count": MAX_DNS_NAMES,
}
"""Limits of names of servers."""
TRUST_DOMAIN = {"pattern": rf"^(?=.{{1,253}}$){_DOMAIN}$", "text": "a domain in lower case, such as phalanx.dev"}
"""Limits of a trust domain of SPIFFE."""


def spiffe_id(trust_domain: str, *, namespace: str, service_account: str) -> str:
    """Return the URI that names a workload, as `spiffe://phalanx.dev/ns/phalanx-system/sa/phalanx-placer`."""
    return f"spiffe://{trust_domain}/ns/{namespace}/sa/{service_account}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIdentity:
    """A service account whose pods get certificates, and what stands in them beside the SPIFFE URI."""

    namespace: str = field(metadata=NAMESPACE)
    """Namespace of the account and of its pods."""

    service_account: str = field(metadata=SERVICE_ACCOUNT)
    """Name of the account."""

    dns_names: tuple[str, ...] = field(default=(), metadata=DNS_NAMES)
    """Names under which its pods are called; they need the usage serverAuth. Empty for a client."""

    usages: tuple[str, ...] = field(
        default=(CLIENT_AUTH,),
        metadata={"pattern": rf"^({CLIENT_AUTH}|{SERVER_AUTH})$", "text": f"{CLIENT_AUTH} or {SERVER_AUTH}"},
    )
    """What the certificate may be used for: clientAuth, serverAuth, or both."""

    lifetime_hours: int = field(
        default=24, metadata={"minimum": SHORTEST_LIFETIME_HOURS, "maximum": LONGEST_LIFETIME_HOURS}
    )
    """Longest lifetime of a certificate in hours; a pod may ask for less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignerPolicy:
    """Whose certificate requests the signer signs."""

    trust_domain: str = field(default=DEFAULT_TRUST_DOMAIN, metadata=TRUST_DOMAIN)
    """First part of every SPIFFE URI. Two clusters that must not trust each other's pods have different ones."""

    identities: tuple[SignedIdentity, ...] = field(default=(), metadata={"maximum_count": MAX_IDENTITIES})
    """The service accounts that get certificates. Without any, every request is denied."""

    def identity_of(self, *, namespace: str, service_account: str) -> SignedIdentity | None:
        """Return the entry of an account, or None."""
        for one in self.identities:
            if (one.namespace, one.service_account) == (namespace, service_account):
                return one
        return None


def problems_of_signer(policy: SignerPolicy) -> Mapping[tuple[str | int, ...], str]:
    """Return what contradicts itself, by its path inside the section."""
    found: dict[tuple[str | int, ...], str] = {}
    known: dict[tuple[str, str], int] = {}
    for place, one in enumerate(policy.identities):
        first = known.setdefault((one.namespace, one.service_account), place)
        if first != place:
            found["identities", place] = f"this account is entry {first} already; expected one entry for each"
        if not one.usages:
            found["identities", place, "usages"] = f"is empty, expected {CLIENT_AUTH}, {SERVER_AUTH} or both"
        if one.dns_names and SERVER_AUTH not in one.usages:
            found["identities", place, "dnsNames"] = f"names of a server need {SERVER_AUTH} in usages"
    return found
