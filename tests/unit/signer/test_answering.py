"""Requests are answered once, and only what is certain is denied."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID
from prometheus_client import CollectorRegistry

from services.core.signer_policy import SignedIdentity, SignerPolicy
from services.core.signing import Denial, DenialReason, PodFacts
from services.runtime.clock import SystemClock
from services.runtime.health import Readiness
from services.signer.answering import Answerer
from services.signer.certificates import authority_from
from services.signer.metrics import SignerMetrics
from services.signer.ports import ApiFailed, CannotSign, HeldAuthority
from tests.fakes.authorities import FakeRequests
from tests.pki import Key, TestAuthority, certificate_request

AUTHORITY = TestAuthority()
POLICY = SignerPolicy(
    identities=(
        SignedIdentity(
            namespace="ns", service_account="sa", dns_names=("sa.ns.svc",), usages=("clientAuth", "serverAuth")
        ),
    )
)


class Source:
    """An authority that signs, or does not."""

    def __init__(self) -> None:
        self.is_able = True

    async def signing(self, *, until: datetime) -> HeldAuthority:
        """It, unless it is not able to."""
        if not self.is_able:
            raise CannotSign("not yet")
        held = authority_from(certificates=AUTHORITY.certificate, key=AUTHORITY.key)
        assert until <= held.authority.not_after
        return held


class Scene:
    """One answerer on a fake API."""

    def __init__(self, *, policy: SignerPolicy = POLICY) -> None:
        self.api, self.source, self.registry = FakeRequests(), Source(), CollectorRegistry()
        self.api.pods["ns", "p"] = PodFacts(uid="u", service_account="sa", node_name="n", is_finished=False)
        clock = SystemClock()
        self.answerer = Answerer(
            self.api,
            source=self.source,
            policy=lambda: policy,
            readiness=Readiness(clock=clock),
            metrics=SignerMetrics(self.registry),
            clock=clock,
        )

    def denied(self, reason: DenialReason) -> float:
        """How many were denied for that."""
        return self.registry.get_sample_value("phalanx_signer_denials_total", {"reason": reason.value}) or 0.0


def request(*, stub: bytes | None = None, **spec: Any) -> dict[str, Any]:
    """A request as the kubelet makes it."""
    given = base64.b64encode(certificate_request() if stub is None else stub).decode()
    return {
        "metadata": {"namespace": "ns", "name": "r", "uid": "r-1", "resourceVersion": "7"},
        "spec": {
            "podName": "p",
            "podUID": "u",
            "serviceAccountName": "sa",
            "nodeName": "n",
            "maxExpirationSeconds": 3600,
            "stubPKCS10Request": given,
            **spec,
        },
    }


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(lambda: ec.generate_private_key(ec.SECP256R1()), id="P-256"),
        pytest.param(lambda: ec.generate_private_key(ec.SECP521R1()), id="P-521"),
        pytest.param(ed25519.Ed25519PrivateKey.generate, id="Ed25519"),
        pytest.param(lambda: rsa.generate_private_key(public_exponent=65537, key_size=3072), id="RSA"),
    ],
)
async def test_the_certificate_says_what_the_policy_says(key: Any) -> None:
    """Its key is the asker's; everything else is ours, and its chain leads to the authority."""
    scene = Scene()
    made: Key = key()
    assert await scene.answerer.answer(request(stub=certificate_request(made))) == "issued"
    chain = scene.api.answers["r"]
    assert isinstance(chain, str)
    leaf = x509.load_pem_x509_certificate(chain.encode())
    leaf.verify_directly_issued_by(x509.load_pem_x509_certificate(AUTHORITY.certificate))
    assert leaf.public_key() == made.public_key()
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.critical
    assert names.value.get_values_for_type(x509.UniformResourceIdentifier) == ["spiffe://phalanx.dev/ns/ns/sa/sa"]
    assert names.value.get_values_for_type(x509.DNSName) == ["sa.ns.svc"]
    usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usages) == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH}
    assert not leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert (leaf.not_valid_after_utc - leaf.not_valid_before_utc).total_seconds() == 3600
    assert leaf.not_valid_before_utc < datetime.now(UTC)


async def test_another_accounts_pod_is_denied_without_a_look_at_it() -> None:
    """Who is in no policy costs nothing and learns nothing."""
    scene = Scene()
    assert await scene.answerer.answer(request(serviceAccountName="other")) == "denied"
    assert scene.api.looks == 0
    assert scene.denied(DenialReason.NOT_IN_POLICY) == 1


@pytest.mark.parametrize("stub", [b"", b"\x30\x82", certificate_request()[:-3], b"x" * 5000])
async def test_garbage_is_denied(stub: bytes) -> None:
    """Whatever stands there, the signer goes on."""
    scene = Scene()
    assert await scene.answerer.answer(request(stub=stub)) == "denied"
    assert scene.denied(DenialReason.MALFORMED_REQUEST) == 1


async def test_a_request_that_its_key_did_not_sign_is_denied() -> None:
    """Proof of possession is not only believed: one flipped bit of the signature, and there is no certificate."""
    scene = Scene()
    forged = bytearray(certificate_request(ed25519.Ed25519PrivateKey.generate()))
    forged[-1] ^= 1
    assert await scene.answerer.answer(request(stub=bytes(forged))) == "denied"
    answer = scene.api.answers["r"]
    assert isinstance(answer, Denial)
    assert "not signed by the key" in answer.message


async def test_a_weak_key_has_the_reason_that_the_api_names() -> None:
    """UnsupportedKeyType is the API's own word."""
    scene = Scene()
    stub = certificate_request(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    assert await scene.answerer.answer(request(stub=stub)) == "denied"
    assert scene.denied(DenialReason.UNSUPPORTED_KEY_TYPE) == 1


async def test_what_is_uncertain_is_not_denied() -> None:
    """A denial is final for the pod: while the API server or the authority is away, the request stays open."""
    scene = Scene()
    scene.api.failures.append(ApiFailed("away"))
    with pytest.raises(ApiFailed):
        await scene.answerer.answer(request())
    scene.source.is_able = False
    with pytest.raises(CannotSign):
        await scene.answerer.answer(request())
    assert scene.api.answers == {}
    scene.source.is_able = True
    assert await scene.answerer.answer(request()) == "issued"
