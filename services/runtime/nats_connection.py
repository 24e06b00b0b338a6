"""How connections to NATS last and whom they trust: options and addresses that every client of a server shares."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

LASTING: Mapping[str, Any] = MappingProxyType(
    {
        "max_reconnect_attempts": -1,
        "allow_reconnect": True,
        # The library sleeps for it: fractions work, although it is typed as a whole number.
        "reconnect_time_wait": 0.2,
        "connect_timeout": 2,
        "max_outstanding_pings": 2,
    }
)
"""Options of `Client.connect`. A server that hangs is noticed after two pings; each client says how often it pings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsAccess:
    """What a connection shows and where its answers come in.

    `inbox` is the beginning of the subjects of its answers: one of its own for each service, so that none may listen to
    those of another.
    """

    tls: ssl.SSLContext | None = field(default=None, repr=False)
    inbox: str = "_INBOX"
    server_name: str = ""
    """Whom the server's certificate has to name, where that is not its address."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of `Client.connect`."""
        found: dict[str, Any] = {"inbox_prefix": self.inbox}
        if self.tls is not None:
            # The handshake comes before the server's first word: otherwise whoever sits in between could say in the
            # server's name that there is no TLS, and the library would go on in the clear.
            found |= {"tls": self.tls, "tls_handshake_first": True}
            if self.server_name:
                found["tls_hostname"] = self.server_name
        return found


OPEN = NatsAccess()
"""No certificates: for a server on the loopback interface, or one that is protected in another way."""


def inbox_of(service: str) -> str:
    """Return where the answers to a service come in."""
    return f"_INBOX.phalanx-{service}"


def servers_of(url: str) -> list[str]:
    """Return the servers of a setting that may name several, separated by commas."""
    return [one.strip() for one in url.split(",") if one.strip()]
