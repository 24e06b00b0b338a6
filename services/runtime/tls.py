"""Certificates from a folder, renewed while connections stand: what a process shows, and whom it believes.

The folder has `tls.crt`, `tls.key` and `ca.crt`, as cert-manager, mounted Secrets and the kubelet's projected volumes
write them. Its content is compared once a second. What cannot be used, as a certificate whose key is not there yet, is
refused and counted, and what was there before stays in force.

A renewal closes nothing: each handshake takes what is in force in its moment, and connections that stand go on.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge

from services.runtime.clock import Clock
from services.runtime.log import get
from services.runtime.settings import SettingsError

CERTIFICATE, KEY, TRUSTED = "tls.crt", "tls.key", "ca.crt"
CHECK_INTERVAL_S = 1.0
MAX_FILE_BYTES = 2**20

_log = get("runtime.tls")


class UnusableTls(ValueError):
    """The folder cannot be used; the message names the file, and repeats nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """What is in the folder, in PEM: the certificate with its chain, its key, and whom to believe."""

    certificate: bytes
    key: bytes = field(repr=False)
    trusted: bytes


class TlsMetrics:
    """What is shown of the certificates of this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything."""
        self.loads = Counter(
            "phalanx_tls_loads_total",
            "Versions of the folder with certificates that were read, by what became of them.",
            ["result"],
            registry=registry,
        )
        self.refused = Gauge(
            "phalanx_tls_refused",
            "1 while the folder's present version cannot be used and an earlier one is in force.",
            registry=registry,
        )
        self.expiry = Gauge(
            "phalanx_tls_expiry_seconds",
            "Moment at which the certificate of this process expires, in seconds since 1970.",
            registry=registry,
        )
        for result in ("accepted", "refused"):
            self.loads.labels(result=result)


class Tls:
    """The certificates in force, in the forms that gRPC and NATS take them."""

    def __init__(self, folder: Path, *, metrics: TlsMetrics) -> None:
        """Read the folder once. Raises UnusableTls: at the start nothing else is in force."""
        self._folder = folder
        self._metrics = metrics
        self._seen: TlsMaterial | str = read_folder(folder)
        self._material = self._seen
        self._context = _context_of(self._material)
        self._accepted(expires=expiry_of(self._material))

    @property
    def material(self) -> TlsMaterial:
        """What is in force now."""
        return self._material

    def client_context(self) -> ssl.SSLContext:
        """Return a context whose every handshake takes what is in force then; for clients that keep it for ever."""
        context = _CurrentContext(ssl.PROTOCOL_TLS_CLIENT)
        context.current = lambda: self._context
        return context

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return credentials of a server that asks every caller for a certificate, and takes new ones by itself."""
        given = self._material

        def renewed() -> grpc.ServerCertificateConfiguration | None:
            # Called by threads of gRPC before each handshake.
            nonlocal given
            if self._material is given:
                return None
            given = self._material
            return _configuration(given)

        # Returning None means that nothing has changed, which the stubs do not know.
        fetcher = cast("Callable[[], grpc.ServerCertificateConfiguration]", renewed)
        return grpc.dynamic_ssl_server_credentials(_configuration(given), fetcher, require_client_authentication=True)

    async def follow(self, *, clock: Clock) -> None:
        """Look for new versions for ever."""
        while True:
            await clock.sleep(CHECK_INTERVAL_S)
            await self.look()

    async def look(self) -> None:
        """Take a new version where there is one; one that cannot be used is refused, and told once."""
        try:
            seen: TlsMaterial | str = await asyncio.to_thread(read_folder, self._folder)
        except UnusableTls as error:
            seen = str(error)
        if seen == self._seen:
            return
        self._seen = seen
        if isinstance(seen, str):
            self._refuse(seen)
            return
        try:
            context, expires = _context_of(seen), expiry_of(seen)
        except UnusableTls as error:
            self._refuse(str(error))
            return
        self._material, self._context = seen, context
        self._accepted(expires=expires)

    def _accepted(self, *, expires: datetime) -> None:
        self._metrics.loads.labels(result="accepted").inc()
        self._metrics.refused.set(0)
        self._metrics.expiry.set(expires.timestamp())
        _log.info("tls.accepted", folder=str(self._folder), until=expires.isoformat())

    def _refuse(self, detail: str) -> None:
        self._metrics.loads.labels(result="refused").inc()
        self._metrics.refused.set(1)
        _log.error("tls.refused", folder=str(self._folder), detail=detail)


def open_tls(folder: Path | None, *, registry: CollectorRegistry) -> Tls | None:
    """Return the certificates of a folder, or None without one. Raises SettingsError where it cannot be used."""
    metrics = TlsMetrics(registry)
    if folder is None:
        return None
    try:
        return Tls(folder, metrics=metrics)
    except UnusableTls as error:
        raise SettingsError([f"PHALANX_TLS_DIR: given {str(folder)!r}: {error}"]) from error


def read_folder(folder: Path) -> TlsMaterial:
    """Return what is in a folder. Raises UnusableTls where a file is missing, or too large."""
    found = {}
    for name in (CERTIFICATE, KEY, TRUSTED):
        try:
            with (folder / name).open("rb") as file:
                found[name] = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise UnusableTls(f"{name}: {error.strerror or type(error).__name__}") from error
        if len(found[name]) > MAX_FILE_BYTES:
            raise UnusableTls(f"{name} has more than {MAX_FILE_BYTES} bytes")
    return TlsMaterial(certificate=found[CERTIFICATE], key=found[KEY], trusted=found[TRUSTED])


def channel_credentials(material: TlsMaterial) -> grpc.ChannelCredentials:
    """Return the credentials of a gRPC client. They do not change: a new channel takes new ones."""
    return grpc.ssl_channel_credentials(
        root_certificates=material.trusted, private_key=material.key, certificate_chain=material.certificate
    )


def client_context(material: TlsMaterial) -> ssl.SSLContext:
    """Return the context of a client that connects once. Raises UnusableTls."""
    return _context_of(material)


def expiry_of(material: TlsMaterial) -> datetime:
    """Return until when the certificate is valid. Raises UnusableTls."""
    # Late: who has no certificates does not pay for reading them.
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(material.certificate).not_valid_after_utc
    except ValueError as error:
        raise UnusableTls(f"{CERTIFICATE} does not begin with a certificate in PEM") from error


class _CurrentContext(ssl.SSLContext):
    """Hands each handshake to the context that is in force then."""

    current: Any

    def wrap_bio(self, *arguments: Any, **named: Any) -> ssl.SSLObject:
        """As that context's own; event loops make their connections by this call."""
        return self.current().wrap_bio(*arguments, **named)  # type: ignore[no-any-return]

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """As that context's own."""
        return self.current().wrap_socket(*arguments, **named)  # type: ignore[no-any-return]


def _configuration(material: TlsMaterial) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], root_certificates=material.trusted
    )


def _context_of(material: TlsMaterial) -> ssl.SSLContext:
    """Return a client's context; reading it in is also how a key that does not fit is found."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_verify_locations(cadata=material.trusted.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise UnusableTls(f"{TRUSTED} is not a list of certificates in PEM") from error
    try:
        with _in_memory(material.key + b"\n" + material.certificate) as path:
            # A key that asks for a password would wait for somebody at a terminal.
            context.load_cert_chain(path, password=lambda: "")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise UnusableTls(f"{KEY} is not the unencrypted key of the certificate in {CERTIFICATE}, in PEM") from error
    return context


@contextlib.contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    """Give bytes a path without a disk: the library takes certificates from files only, and ours is read-only."""
    descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
