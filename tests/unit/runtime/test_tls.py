"""A folder with certificates: what can be used is in force, and what cannot changes nothing."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from services.runtime.settings import SettingsError
from services.runtime.tls import MAX_FILE_BYTES, Tls, TlsMetrics, UnusableTls, open_tls, read_folder
from tests.pki import TestAuthority

AUTHORITY = TestAuthority()
FIRST = AUTHORITY.issue(uri="spiffe://x/first")
SECOND = AUTHORITY.issue(uri="spiffe://x/second")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the first certificate."""
    return FIRST.write(tmp_path / "tls", trusted=AUTHORITY.certificate)


def opened(folder: Path) -> tuple[Tls, CollectorRegistry]:
    """The folder as a process reads it."""
    registry = CollectorRegistry()
    return Tls(folder, metrics=TlsMetrics(registry)), registry


async def test_a_renewal_takes_all_three_files(folder: Path) -> None:
    """While only one of two files is new, the pair from before stays; it is counted, and told no secret."""
    tls, registry = opened(folder)
    (folder / "tls.crt").write_bytes(SECOND.certificate)
    await tls.look()
    assert tls.material.certificate == FIRST.certificate
    assert registry.get_sample_value("phalanx_tls_refused") == 1
    (folder / "tls.key").write_bytes(SECOND.key)
    await tls.look()
    assert tls.material.certificate == SECOND.certificate
    assert registry.get_sample_value("phalanx_tls_refused") == 0
    assert registry.get_sample_value("phalanx_tls_loads_total", {"result": "accepted"}) == 2
    assert "PRIVATE" not in repr(tls.material)


def no_key(folder: Path) -> None:
    """The key is missing."""
    (folder / "tls.key").unlink()


def encrypted(folder: Path) -> None:
    """A key that wants a password."""
    (folder / "tls.key").write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    )


def empty_trust(folder: Path) -> None:
    """Nobody is believed."""
    (folder / "ca.crt").write_bytes(b"")


def not_ascii(folder: Path) -> None:
    """Not a text at all."""
    (folder / "ca.crt").write_bytes(b"\xff\xfe")


def endless(folder: Path) -> None:
    """More than anybody needs."""
    (folder / "ca.crt").write_bytes(AUTHORITY.certificate + b"\n" * MAX_FILE_BYTES)


def garbage(folder: Path) -> None:
    """No certificate."""
    (folder / "tls.crt").write_text("certificate")


@pytest.mark.parametrize(
    ("broken", "file"),
    [
        (no_key, "tls.key: No such file"),
        (encrypted, "tls.key is not the unencrypted key"),
        (empty_trust, "ca.crt is not a list"),
        (not_ascii, "ca.crt is not a list"),
        (endless, "ca.crt has more than"),
        (garbage, "tls.key is not the unencrypted key of the certificate in tls.crt"),
    ],
)
async def test_what_cannot_be_used_changes_nothing(folder: Path, broken: Callable[[Path], None], file: str) -> None:
    """At the start it is a mistake in the settings, named by file; later the one before stays in force."""
    tls, registry = opened(folder)
    broken(folder)
    await tls.look()
    await tls.look()
    assert tls.material.certificate == FIRST.certificate
    assert registry.get_sample_value("phalanx_tls_loads_total", {"result": "refused"}) == 1
    with pytest.raises(SettingsError, match=f"PHALANX_TLS_DIR.*{file}"):
        open_tls(folder, registry=CollectorRegistry())


def test_without_a_folder_there_are_no_certificates(tmp_path: Path) -> None:
    """The metrics exist all the same."""
    registry = CollectorRegistry()
    assert open_tls(None, registry=registry) is None
    assert registry.get_sample_value("phalanx_tls_refused") == 0
    with pytest.raises(UnusableTls, match=r"tls\.crt"):
        read_folder(tmp_path / "nowhere")


async def test_a_context_that_a_client_keeps_shows_what_is_in_force(folder: Path) -> None:
    """Each handshake is the current context's own."""
    tls, _ = opened(folder)
    context = tls.client_context()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    before = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    SECOND.write(folder, trusted=AUTHORITY.certificate)
    await tls.look()
    after = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    assert before.context is not after.context
    assert after.context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert after.context.check_hostname
    assert after.context.verify_mode is ssl.CERT_REQUIRED
