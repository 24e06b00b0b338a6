"""Certificates as bytes: authorities that are made, requests that are read, leaves that are signed."""

import secrets
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes, PublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from services.core.authorities import Authority
from services.core.signer_policy import CLIENT_AUTH, SERVER_AUTH
from services.core.signing import BACKDATED, CertificateTerms
from services.signer.ports import HeldAuthority

_USAGES = {CLIENT_AUTH: ExtendedKeyUsageOID.CLIENT_AUTH, SERVER_AUTH: ExtendedKeyUsageOID.SERVER_AUTH}
_PEM = serialization.Encoding.PEM


class UnusableRequest(ValueError):
    """The bytes are no certificate request, or one whose signature is wrong."""


class UnusableAuthority(ValueError):
    """Certificate and key are no authority; the message says why, and repeats nothing of the key."""


def key_type_of(request: bytes) -> str:
    """Return the API's word for the key of a PKCS#10 request in DER. Raises UnusableRequest."""
    return _key_type(_request(request).public_key())


def create_authority(*, now: datetime, lifetime: timedelta, trust_domain: str) -> HeldAuthority:
    """Return a new authority with a key of its own, which has signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = secrets.token_hex(8)
    # A name of its own: where two authorities share one, some verifiers try only the first.
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, trust_domain[:64]),
            x509.NameAttribute(NameOID.COMMON_NAME, f"phalanx signer {identifier}"),
        ]
    )
    certificate = (
        _builder(subject=name, issuer=name, public_key=key.public_key())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    key_text = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    authority = Authority(id=identifier, created_at=now, not_after=now + lifetime)
    return HeldAuthority(authority=authority, certificate=certificate.public_bytes(_PEM), key=key_text)


def authority_from(*, certificates: bytes, key: bytes) -> HeldAuthority:
    """Return the authority in the files of somebody else: its certificate first. Raises UnusableAuthority."""
    try:
        first, *others = x509.load_pem_x509_certificates(certificates)
        private = _private_key(key)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UnusableAuthority("tls.crt and tls.key are not a certificate and an unencrypted key in PEM") from error
    if private.public_key() != first.public_key():
        raise UnusableAuthority("tls.key is not the key of the first certificate in tls.crt")
    try:
        is_authority = first.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    if not is_authority:
        raise UnusableAuthority("the first certificate in tls.crt is not one of an authority (CA:TRUE)")
    is_intermediate = first.subject != first.issuer
    return HeldAuthority(
        authority=Authority(
            id=f"{first.serial_number:x}",
            created_at=first.not_valid_before_utc,
            not_after=first.not_valid_after_utc,
            activated_at=first.not_valid_before_utc,
        ),
        certificate=first.public_bytes(_PEM),
        key=key,
        chain=b"".join(one.public_bytes(_PEM) for one in ((first, *others) if is_intermediate else ())),
    )


def sign(request: bytes, *, terms: CertificateTerms, by: HeldAuthority) -> str:
    """Return the certificate for the key of a request, with what has to follow it. Raises UnusableRequest.

    Nothing of the request but its key is used: what stands in a certificate is decided by the terms alone.
    """
    issuer = x509.load_pem_x509_certificate(by.certificate)
    key = _private_key(by.key)
    names = [x509.UniformResourceIdentifier(terms.uri), *(x509.DNSName(name) for name in terms.dns_names)]
    identifier = x509.SubjectKeyIdentifier.from_public_key(issuer.public_key())
    certificate = (
        _builder(subject=x509.Name([]), issuer=issuer.subject, public_key=_request(request).public_key())
        .not_valid_before(terms.not_before)
        .not_valid_after(terms.not_after)
        # Critical, because the subject is empty (RFC 5280, 4.2.1.6).
        .add_extension(x509.SubjectAlternativeName(names), critical=True)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_USAGES[usage] for usage in terms.usages]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(key, _digest(key))
    )
    return (certificate.public_bytes(_PEM) + by.chain).decode()


def certificates_in(text: str) -> frozenset[bytes]:
    """Return the certificates of a bundle in DER; none where it cannot be read."""
    try:
        return frozenset(
            one.public_bytes(serialization.Encoding.DER) for one in x509.load_pem_x509_certificates(text.encode())
        )
    except ValueError:
        return frozenset()


def der_of(certificate: bytes) -> bytes:
    """Return one certificate in DER."""
    return x509.load_pem_x509_certificate(certificate).public_bytes(serialization.Encoding.DER)


def _request(request: bytes) -> x509.CertificateSigningRequest:
    try:
        read = x509.load_der_x509_csr(request)
        # The API server has looked at this too; a signer that only believed it would be one bug away from a forgery.
        is_valid = read.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UnusableRequest("stubPKCS10Request is not a PKCS#10 request in DER") from error
    if not is_valid:
        raise UnusableRequest("stubPKCS10Request is not signed by the key that it is for")
    return read


def _key_type(key: PublicKeyTypes) -> str:
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA{key.key_size}"
    if isinstance(key, ec.EllipticCurvePublicKey):
        return {"secp256r1": "ECDSAP256", "secp384r1": "ECDSAP384", "secp521r1": "ECDSAP521"}.get(
            key.curve.name, f"ECDSA on {key.curve.name}"
        )
    return "ED25519" if isinstance(key, ed25519.Ed25519PublicKey) else type(key).__name__


def _private_key(text: bytes) -> CertificateIssuerPrivateKeyTypes:
    key = serialization.load_pem_private_key(text, password=None)
    if not isinstance(
        key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey
    ):
        raise UnusableAuthority(f"tls.key is a {type(key).__name__}, expected RSA, ECDSA or Ed25519")
    return key


def _digest(key: CertificateIssuerPrivateKeyTypes) -> hashes.SHA256 | None:
    return None if isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey) else hashes.SHA256()


def _builder(*, subject: x509.Name, issuer: x509.Name, public_key: PublicKeyTypes) -> x509.CertificateBuilder:
    if not isinstance(public_key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        raise UnusableRequest(f"a {type(public_key).__name__} gets no certificate")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
