"""Who gets a certificate, what stands in it, and why others get none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from services.core.signer_policy import SERVER_AUTH, SignedIdentity, SignerPolicy, problems_of_signer
from services.core.signing import (
    SUPPORTED_KEYS,
    CertificateRequest,
    CertificateTerms,
    Denial,
    DenialReason,
    PodFacts,
    judge,
)

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
PLACER = SignedIdentity(
    namespace="phalanx-system",
    service_account="phalanx-placer",
    dns_names=("phalanx-placer.phalanx-system.svc",),
    usages=("clientAuth", "serverAuth"),
    lifetime_hours=24,
)
POLICY = SignerPolicy(trust_domain="example.org", identities=(PLACER,))
REQUEST = CertificateRequest(
    namespace="phalanx-system",
    pod_name="placer-0",
    pod_uid="u-1",
    service_account="phalanx-placer",
    node_name="n1",
    longest_lifetime=timedelta(days=1),
    key_type="ECDSAP256",
)
POD = PodFacts(uid="u-1", service_account="phalanx-placer", node_name="n1", is_finished=False)


def terms(request: CertificateRequest = REQUEST, *, policy: SignerPolicy = POLICY) -> CertificateTerms:
    """The terms of a request that is granted."""
    verdict = judge(request, pod=POD, policy=policy, now=NOW)
    assert isinstance(verdict, CertificateTerms)
    return verdict


def test_the_identity_is_made_of_namespace_and_account() -> None:
    """Names of servers and usages are the policy's; nothing is taken from the pod's wishes."""
    granted = terms()
    assert granted.uri == "spiffe://example.org/ns/phalanx-system/sa/phalanx-placer"
    assert granted.dns_names == PLACER.dns_names
    assert granted.usages == PLACER.usages


@pytest.mark.parametrize("hours", [1, 2, 24, 90 * 24])
def test_the_shorter_lifetime_counts_and_is_one_that_the_api_server_takes(hours: int) -> None:
    """Within five minutes of now, at least an hour, refreshed at least ten minutes inside both ends."""
    asked = replace(REQUEST, longest_lifetime=timedelta(hours=hours))
    granted = terms(asked)
    assert granted.not_after - granted.not_before == timedelta(hours=min(hours, 24))
    assert timedelta() < NOW - granted.not_before < timedelta(minutes=5)
    assert granted.not_before + timedelta(minutes=10) <= granted.refresh_at
    assert granted.refresh_at <= granted.not_after - timedelta(minutes=10)


@pytest.mark.parametrize("key_type", SUPPORTED_KEYS)
def test_every_key_that_a_pod_can_ask_for_is_signed(key_type: str) -> None:
    """The six words of the API."""
    assert terms(replace(REQUEST, key_type=key_type)).uri


@pytest.mark.parametrize(
    ("request_", "pod", "reason"),
    [
        pytest.param(replace(REQUEST, service_account="default"), POD, DenialReason.NOT_IN_POLICY, id="account"),
        pytest.param(replace(REQUEST, namespace="team-a"), POD, DenialReason.NOT_IN_POLICY, id="namespace"),
        pytest.param(replace(REQUEST, key_type="RSA2048"), POD, DenialReason.UNSUPPORTED_KEY_TYPE, id="weak key"),
        pytest.param(REQUEST, None, DenialReason.POD_NOT_FOUND, id="no pod"),
        pytest.param(REQUEST, replace(POD, uid="u-2"), DenialReason.POD_REPLACED, id="another pod of that name"),
        pytest.param(REQUEST, replace(POD, is_finished=True), DenialReason.POD_FINISHED, id="finished"),
        pytest.param(
            REQUEST, replace(POD, service_account="default"), DenialReason.OTHER_SERVICE_ACCOUNT, id="runs as another"
        ),
        pytest.param(REQUEST, replace(POD, node_name="n2"), DenialReason.OTHER_NODE, id="on another node"),
        pytest.param(REQUEST, replace(POD, node_name=""), DenialReason.OTHER_NODE, id="on no node"),
        pytest.param(
            replace(REQUEST, longest_lifetime=timedelta(minutes=59)),
            POD,
            DenialReason.MALFORMED_REQUEST,
            id="too short",
        ),
    ],
)
def test_what_is_not_so_is_denied(request_: CertificateRequest, pod: PodFacts | None, reason: DenialReason) -> None:
    """Each difference has its reason, and a sentence with both sides."""
    verdict = judge(request_, pod=pod, policy=POLICY, now=NOW)
    assert isinstance(verdict, Denial)
    assert verdict.reason is reason
    assert len(verdict.message) > 10


def test_without_a_policy_nobody_gets_anything() -> None:
    """Default deny."""
    verdict = judge(REQUEST, pod=POD, policy=SignerPolicy(), now=NOW)
    assert isinstance(verdict, Denial)
    assert verdict.reason is DenialReason.NOT_IN_POLICY


def test_contradictions_of_the_section_are_named_with_their_path() -> None:
    """One entry for each account, some usage, and names of a server only for a server."""
    entry = SignedIdentity(namespace="a", service_account="b")
    policy = SignerPolicy(
        identities=(
            entry,
            entry,
            replace(entry, service_account="c", usages=()),
            replace(entry, namespace="d", dns_names=("x",)),
        )
    )
    assert problems_of_signer(policy) == {
        ("identities", 1): "this account is entry 0 already; expected one entry for each",
        ("identities", 2, "usages"): "is empty, expected clientAuth, serverAuth or both",
        ("identities", 3, "dnsNames"): f"names of a server need {SERVER_AUTH} in usages",
    }
