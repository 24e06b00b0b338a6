"""Who may call what: the section `authorization` of the configuration file, and the judgement by it.

An identity is what a certificate says in its alternative names: a SPIFFE URI, or a DNS name where it has no such URI.
Nobody may call anything unless an entry says so. Where callers show no certificates, which is on the loopback interface
alone, there is nothing to judge.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

MAX_GRANTS = 4096
MAX_CALLS = 256

_LABEL = r"[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_METHOD = r"[A-Za-z_][A-Za-z0-9_]*"

IDENTITY = {
    "pattern": rf"^(?=.{{1,2048}}$)(spiffe://[a-z0-9._-]+(/[A-Za-z0-9._-]+)+|{_LABEL}(\.{_LABEL})*)$",
    "text": "a SPIFFE URI such as spiffe://phalanx.dev/ns/team-a/sa/trainer, or a DNS name",
}
"""Limits of an identity."""
CALLS = {
    "pattern": rf"^{_METHOD}(\.{_METHOD})*/({_METHOD}|\*)$",
    "text": "a method such as phalanx.placement.v1.PlacementService/Plan, or all of a service by /*",
    "maximum_count": MAX_CALLS,
}
"""Limits of methods."""
STREAMS = {
    "pattern": r"^PHALANX_(CLUSTER|PLACEMENT|SCALING|DEAD_LETTERS)$",
    "text": "PHALANX_CLUSTER, PHALANX_PLACEMENT, PHALANX_SCALING or PHALANX_DEAD_LETTERS",
}
"""Limits of streams that others may read."""

_ADDRESS = re.compile(r"[0-9.]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one identity may do."""

    identity: str = field(metadata=IDENTITY)
    """Who: an alternative name of the certificate."""

    calls: tuple[str, ...] = field(default=(), metadata=CALLS)
    """Methods of gRPC that it may call, as package.Service/Method or package.Service/*."""

    reads: tuple[str, ...] = field(default=(), metadata=STREAMS)
    """Streams that it may read; `phalanx nats-config` makes permissions of the NATS server of them."""


def may_call(grants: Iterable[Grant], *, identities: Iterable[str], method: str) -> bool:
    """Tell whether a caller with these identities may call a method, written as `/package.Service/Method`."""
    wanted = method.removeprefix("/")
    service = wanted.rpartition("/")[0]
    known = frozenset(identities)
    return any(grant.identity in known and (wanted in grant.calls or f"{service}/*" in grant.calls) for grant in grants)


def identities_in(names: Iterable[str]) -> tuple[str, ...]:
    """Return the identities among the alternative names of a certificate: its URIs, or else its DNS names.

    A certificate with a SPIFFE URI is known by that alone; addresses and names for many are nobody's identity.
    """
    given = tuple(names)
    uris = tuple(name for name in given if "://" in name)
    if uris:
        return uris
    return tuple(name for name in given if "*" not in name and ":" not in name and not _ADDRESS.fullmatch(name))


def problems_of_authorization(grants: tuple[Grant, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield what contradicts itself, with its path inside the section."""
    first: dict[str, int] = {}
    for place, grant in enumerate(grants):
        before = first.setdefault(grant.identity, place)
        if before != place:
            yield (place, "identity"), f"{grant.identity!r} is entry {before} already; expected one entry for each"
        if _ADDRESS.fullmatch(grant.identity):
            yield (place, "identity"), f"given the address {grant.identity!r}, expected {IDENTITY['text']}"


def by_identity(grants: Iterable[Grant]) -> Mapping[str, Grant]:
    """Return the entries by their identity."""
    return {grant.identity: grant for grant in grants}
