"""Keys, requests and certificates of tests, made without the code under test."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
HOUR = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, *, trusted: bytes) -> Path:
        """Write them as cert-manager does, each file by a rename; return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in (("ca.crt", trusted), ("tls.key", self.key), ("tls.crt", self.certificate)):
            part = folder / f".{name}.part"
            part.write_bytes(content)
            part.replace(folder / name)
        return folder


def certificate_request(key: Key | None = None) -> bytes:
    """A stub request as the kubelet makes it: an empty subject, signed by its key; in DER."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    built = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, digest)
    return built.public_bytes(serialization.Encoding.DER)


class TestAuthority:
    """An authority of a test, which signs whatever it is asked to."""

    __test__ = False

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        made = (
            _builder(subject=self._name, issuer=self._name, key=self._key, begins=now - HOUR, ends=now + 24 * HOUR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = made.public_bytes(PEM)

    @property
    def key(self) -> bytes:
        """The key in PEM."""
        return _text(self._key)

    def issue(
        self,
        *,
        uri: str = "",
        dns_names: tuple[str, ...] = (),
        is_expired: bool = False,
        usages: tuple[x509.ObjectIdentifier, ...] = (ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH),
    ) -> Pair:
        """A certificate for the loopback address, with a SPIFFE URI and DNS names where they are given."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        begins, ends = (now - HOUR, now - HOUR / 2) if is_expired else (now - HOUR / 2, now + HOUR)
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in dns_names]
        names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        if uri:
            names.append(x509.UniformResourceIdentifier(uri))
        made = (
            _builder(subject=x509.Name([]), issuer=self._name, key=key, begins=begins, ends=ends)
            .add_extension(x509.SubjectAlternativeName(names), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Pair(certificate=made.public_bytes(PEM), key=_text(key))


def _builder(
    *, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begins: dt.datetime, ends: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _text(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
