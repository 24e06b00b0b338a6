"""Processes of a test that show each other certificates: folders, a gRPC server and a NATS server."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from services.contracts.call_rights import PolicyRights
from services.core.authorization import Grant
from services.runtime.rpc_access import RpcAccess, RpcMetrics
from services.runtime.tls import Tls, TlsMetrics
from tests.pki import Pair, TestAuthority

CALLER = "spiffe://phalanx.dev/ns/team-a/sa/trainer"
SERVER = "spiffe://phalanx.dev/ns/phalanx-system/sa/phalanx-placer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One process: its folder, and what it reads of it."""

    folder: Path
    tls: Tls

    async def renew(self, pair: Pair | None = None, *, trusted: bytes) -> None:
        """Write new files and let the process see them; without a pair the certificate stays."""
        if pair is None:
            pair = Pair(certificate=self.tls.material.certificate, key=self.tls.material.key)
        pair.write(self.folder, trusted=trusted)
        await self.tls.look()
        assert self.tls.material.certificate == pair.certificate
        assert self.tls.material.trusted == trusted


def side(folder: Path, pair: Pair, *, trusted: bytes) -> Side:
    """A process with these certificates."""
    pair.write(folder, trusted=trusted)
    return Side(folder=folder, tls=Tls(folder, metrics=TlsMetrics(CollectorRegistry())))


def access(
    server: Side | None,
    *,
    calls: Mapping[str, Iterable[str]],
    registry: CollectorRegistry | None = None,
    max_calls: int = 1000,
    max_calls_of_one: int = 500,
) -> RpcAccess:
    """A gate with these rights, by identity."""
    grants = tuple(Grant(identity=identity, calls=tuple(methods)) for identity, methods in calls.items())
    return RpcAccess(
        tls=None if server is None else server.tls,
        rights=PolicyRights(lambda: grants),
        metrics=RpcMetrics(registry or CollectorRegistry()),
        max_calls=max_calls,
        max_calls_of_one=max_calls_of_one,
    )


def nats_tls(folder: Path, *, verify: str = "verify_and_map") -> str:
    """The part of a NATS server's configuration that is about TLS."""
    files = f'cert_file: "{folder}/tls.crt", key_file: "{folder}/tls.key", ca_file: "{folder}/ca.crt"'
    return f"tls {{ {files}, {verify}: true, timeout: 5, handshake_first: true }}"


__all__ = ["CALLER", "SERVER", "Side", "TestAuthority", "access", "nats_tls", "side"]
