"""Keys and certificates of a throw-away cluster: CA, API server certificate, service-account key."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=7)
_CLOCK_SKEW = dt.timedelta(minutes=5)

SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""DNS names in the API server's certificate, beside the loopback address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """A certificate authority and its files."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    certificate_file: Path
    key_file: Path


def create_authority(folder: Path, *, name: str) -> Authority:
    """A new CA as `<name>.crt` and `<name>.key` in the folder."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _builder(subject=subject, issuer=subject, public_key=key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = _write_pair(folder, name=name, certificate=certificate, key=key)
    return Authority(certificate=certificate, key=key, certificate_file=certificate_file, key_file=key_file)


def issue(
    authority: Authority,
    *,
    folder: Path,
    name: str,
    common_name: str | None = None,
    dns_names: tuple[str, ...] = SERVER_NAMES,
) -> tuple[Path, Path]:
    """A certificate for servers and clients on the loopback address; returns its file and its key's file."""
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives: list[x509.GeneralName] = [x509.DNSName(dns_name) for dns_name in dns_names]
    alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = (
        _builder(
            subject=_name(common_name or name),
            issuer=authority.certificate.subject,
            public_key=key.public_key(),
        )
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(usages, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return _write_pair(folder, name=name, certificate=certificate, key=key)


def create_service_account_key(folder: Path) -> tuple[Path, Path]:
    """The key that signs service-account tokens; returns the private and the public file."""
    key = ec.generate_private_key(ec.SECP256R1())
    private_file, public_file = folder / "service-account.key", folder / "service-account.pub"
    _write_key(private_file, key)
    public_file.write_bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private_file, public_file


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    *, subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _write_pair(
    folder: Path, *, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    certificate_file, key_file = folder / f"{name}.crt", folder / f"{name}.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(key_file, key)
    return certificate_file, key_file


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
