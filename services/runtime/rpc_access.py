"""Who gets through to a gRPC handler: certificates, rights, and how many calls at once.

What is refused is counted always, and logged once a minute for each caller and method: a caller that tries a thousand
times a second fills neither the log nor the memory.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Protocol

import grpc
import grpc.aio
from prometheus_client import CollectorRegistry, Counter, Gauge

from services.runtime.addresses import parse_address
from services.runtime.clock import Clock, SystemClock
from services.runtime.log import get
from services.runtime.settings import SettingsError
from services.runtime.tls import Tls

MAX_CALLS = 1000
"""Calls that are being answered at once, streams included."""
MAX_CALLS_OF_ONE = 500
"""Of these, those of one caller: nobody can keep all others out."""
LOG_INTERVAL_S = 60.0
MOST_REMEMBERED = 1024

_log = get("rpc.access")
_NAMES = "x509_subject_alternative_name"


class CallRights(Protocol):
    """Who may call what, as it is in force now."""

    def identities(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return whom a certificate with these alternative names stands for."""

    def may_call(self, identities: Iterable[str], *, method: str) -> bool:
        """Tell whether such a caller may call a method, given as `/package.Service/Method`."""


class NobodysRights:
    """Nobody may call anything: what holds where nothing was said."""

    def identities(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names."""
        return tuple(names)

    def may_call(self, identities: Iterable[str], *, method: str) -> bool:  # noqa: ARG002 - a protocol's signature
        """Return no."""
        return False


class RpcMetrics:
    """What is counted about calls."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything."""
        self.refused = Counter(
            "phalanx_rpc_refused_total", "Calls that reached no handler, by reason.", ["reason"], registry=registry
        )
        self.active = Gauge("phalanx_rpc_active", "Calls that are being answered.", registry=registry)
        for reason in ("not_allowed", "too_many", "too_many_of_one"):
            self.refused.labels(reason=reason)


class Refused(Exception):
    """A call that reaches no handler."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(slots=True, kw_only=True)
class RpcAccess:
    """The gate of one server. Without certificates it lets everybody in, and is for the loopback interface only."""

    tls: Tls | None = None
    rights: CallRights = field(default_factory=NobodysRights)
    metrics: RpcMetrics = field(default_factory=lambda: RpcMetrics(CollectorRegistry()))
    clock: Clock = field(default_factory=SystemClock)
    max_calls: int = MAX_CALLS
    max_calls_of_one: int = MAX_CALLS_OF_ONE
    _active: dict[str, int] = field(default_factory=dict)
    _total: int = 0
    _told: dict[tuple[str, str], float] = field(default_factory=dict)

    def check_address(self, address: str) -> None:
        """Raise SettingsError where others than this machine could call, and would show no certificates."""
        if self.tls is not None or is_loopback(parse_address(address)[0]):
            return
        problem = (
            f"PHALANX_GRPC_ADDRESS: given {address!r}, which others than this machine can reach, but there are no "
            "certificates; set PHALANX_TLS_DIR to a folder with tls.crt, tls.key and ca.crt (docs/tls.md), or listen "
            "on 127.0.0.1"
        )
        raise SettingsError([problem])

    @contextlib.contextmanager
    def admitted(self, context: "grpc.aio.ServicerContext[Any, Any]", *, method: str) -> Iterator[None]:
        """Let a call in while the block runs. Raises Refused."""
        identities = self._identities(context)
        caller = identities[0] if identities else ""
        if self.tls is not None and not self.rights.may_call(identities, method=method):
            self._refuse("not_allowed", caller=caller, method=method)
            raise Refused(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{caller or 'a certificate without a SPIFFE URI or DNS name'} may not call {method}: no entry of "
                "authorization in the configuration file of this service allows it",
            )
        self._count_in(caller, method=method)
        try:
            yield
        finally:
            self._count_out(caller)

    def _count_in(self, caller: str, *, method: str) -> None:
        if self._total >= self.max_calls:
            self._refuse("too_many", caller=caller, method=method)
            raise Refused(
                grpc.StatusCode.RESOURCE_EXHAUSTED, f"{self.max_calls} calls are being answered; try again later"
            )
        mine = self._active.get(caller, 0)
        if caller and mine >= self.max_calls_of_one:
            self._refuse("too_many_of_one", caller=caller, method=method)
            raise Refused(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{self.max_calls_of_one} calls of {caller} are being answered; end some of them first",
            )
        self._total += 1
        self._active[caller] = mine + 1
        self.metrics.active.set(self._total)

    def _count_out(self, caller: str) -> None:
        self._total -= 1
        left = self._active[caller] - 1
        if left:
            self._active[caller] = left
        else:
            # Otherwise every caller that ever came would be kept for ever.
            del self._active[caller]
        self.metrics.active.set(self._total)

    def _refuse(self, reason: str, *, caller: str, method: str) -> None:
        self.metrics.refused.labels(reason=reason).inc()
        now_s, key = self.clock.monotonic(), (f"{reason} {caller}", method)
        if now_s - self._told.get(key, -LOG_INTERVAL_S) < LOG_INTERVAL_S:
            return
        if len(self._told) >= MOST_REMEMBERED:
            self._told.clear()
        self._told[key] = now_s
        _log.warning("rpc.refused", reason=reason, caller=caller, method=method)

    def _identities(self, context: "grpc.aio.ServicerContext[Any, Any]") -> tuple[str, ...]:
        if self.tls is None:
            return ()
        names = context.auth_context().get(_NAMES, ())
        return self.rights.identities(name.decode(errors="replace") for name in names)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        # A name: where it leads to is not known before it is bound.
        return False
