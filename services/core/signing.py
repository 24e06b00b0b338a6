"""Whether a pod gets the certificate that it asks for, and what stands in it: facts and policy in, a verdict out.

The API server has checked that the request comes from the kubelet of the pod's node, and that the asker holds the
private key. What is judged here is whether the request is still true of the live pod, and what the policy gives it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from services.core.signer_policy import SignerPolicy, spiffe_id

SHORTEST_LIFETIME = timedelta(hours=1)
"""The API server takes no certificate that lives shorter."""
BACKDATED = timedelta(minutes=1)
"""A certificate is valid from a little before now, for peers whose clock is behind; the API server allows 5 minutes."""
REFRESH_AFTER = (2, 3)
"""Part of the lifetime after which the kubelet asks for the next: time enough to survive an outage of the signer."""

SUPPORTED_KEYS = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
"""Words of the API for the kinds of keys that a pod can ask for, all of which are signed."""


class DenialReason(Enum):
    """Why a request is denied; the value is the reason of the condition `Denied`. A denial is final for the pod."""

    NOT_IN_POLICY = "NotInPolicy"
    POD_NOT_FOUND = "PodNotFound"
    POD_REPLACED = "PodReplaced"
    POD_FINISHED = "PodFinished"
    OTHER_SERVICE_ACCOUNT = "OtherServiceAccount"
    OTHER_NODE = "OtherNode"
    UNSUPPORTED_KEY_TYPE = "UnsupportedKeyType"
    MALFORMED_REQUEST = "MalformedRequest"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRequest:
    """What a PodCertificateRequest says. `key_type` is a word of the API, or what the key is where it has none."""

    namespace: str
    pod_name: str
    pod_uid: str
    service_account: str
    node_name: str
    longest_lifetime: timedelta
    key_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the live pod says about itself."""

    uid: str
    service_account: str
    node_name: str
    is_finished: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateTerms:
    """What stands in a certificate, and when the kubelet should ask for the next."""

    uri: str
    dns_names: tuple[str, ...]
    usages: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    refresh_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """No certificate, and why."""

    reason: DenialReason
    message: str


def judge(
    request: CertificateRequest, *, pod: PodFacts | None, policy: SignerPolicy, now: datetime
) -> CertificateTerms | Denial:
    """Return the terms of the certificate, or why there is none. `now` has whole seconds, as certificates have."""
    identity = policy.identity_of(namespace=request.namespace, service_account=request.service_account)
    if identity is None:
        account = f"{request.namespace}/{request.service_account}"
        return Denial(
            reason=DenialReason.NOT_IN_POLICY,
            message=f"signer.identities of the configuration file has no entry for the service account {account}",
        )
    if request.key_type not in SUPPORTED_KEYS:
        known = ", ".join(SUPPORTED_KEYS)
        return Denial(
            reason=DenialReason.UNSUPPORTED_KEY_TYPE, message=f"the key is {request.key_type}, expected {known}"
        )
    if (denial := _untrue(request, pod=pod)) is not None:
        return denial
    lifetime = min(request.longest_lifetime, timedelta(hours=identity.lifetime_hours))
    if lifetime < SHORTEST_LIFETIME:
        return Denial(
            reason=DenialReason.MALFORMED_REQUEST,
            message=f"maxExpirationSeconds is {lifetime.total_seconds():.0f}, expected at least 3600",
        )
    not_before = now - BACKDATED
    part, whole = REFRESH_AFTER
    return CertificateTerms(
        uri=spiffe_id(policy.trust_domain, namespace=request.namespace, service_account=request.service_account),
        dns_names=identity.dns_names,
        usages=identity.usages,
        not_before=not_before,
        not_after=not_before + lifetime,
        refresh_at=not_before + timedelta(seconds=int(lifetime.total_seconds()) * part // whole),
    )


def _untrue(request: CertificateRequest, *, pod: PodFacts | None) -> Denial | None:
    """Return in what the request differs from the live pod."""
    name = f"pod {request.namespace}/{request.pod_name}"
    if pod is None:
        return Denial(reason=DenialReason.POD_NOT_FOUND, message=f"{name} does not exist")
    if pod.uid != request.pod_uid:
        return Denial(
            reason=DenialReason.POD_REPLACED,
            message=f"{name} has the uid {pod.uid}, the request is for {request.pod_uid}",
        )
    if pod.is_finished:
        return Denial(reason=DenialReason.POD_FINISHED, message=f"{name} has finished")
    if pod.service_account != request.service_account:
        return Denial(
            reason=DenialReason.OTHER_SERVICE_ACCOUNT,
            message=f"{name} runs as {pod.service_account}, the request is for {request.service_account}",
        )
    if pod.node_name != request.node_name:
        return Denial(
            reason=DenialReason.OTHER_NODE,
            message=f"{name} is on node {pod.node_name or '(none)'}, the request is from {request.node_name}",
        )
    return None
