"""How connections to NATS last: options and addresses that every client of a server shares."""

from collections.abc import Mapping
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


def servers_of(url: str) -> list[str]:
    """Return the servers of a setting that may name several, separated by commas."""
    return [one.strip() for one in url.split(",") if one.strip()]
