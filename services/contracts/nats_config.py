"""The configuration of a NATS server that lets in our certificates only, each with the rights of its work.

The server takes a client's SPIFFE URI for the name of its user (`verify_and_map`). Who has a certificate of ours but no
entry here is turned away, and so is everybody without one.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from services.contracts.bus_rights import WORK, BusRights, reader_rights, service_rights
from services.core.policy import Policy
from services.core.signer_policy import spiffe_id

READERS_INBOX = "_INBOX.reader"
"""Where the answers to others than our services come in: followed by a name of the reader's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NatsUser:
    """One user of the server: `identity` is the alternative name of the certificate."""

    identity: str
    rights: BusRights
    about: str


def users_of(policy: Policy, *, namespace: str, listens: Iterable[str] = ()) -> tuple[NatsUser, ...]:
    """Return the users that a configuration file means: our services, and whoever reads a stream.

    `listens` has further subjects for the autoscaler: those of the queues by which it wakes. Without them it looks at
    these queues from time to time instead of being told.
    """
    users = [
        NatsUser(
            identity=spiffe_id(policy.signer.trust_domain, namespace=namespace, service_account=f"phalanx-{service}"),
            rights=_with(
                service_rights(service, sources=policy.metric_sources),
                listens=tuple(listens) if service == "autoscaler" else (),
            ),
            about=service,
        )
        for service in WORK
    ]
    known = {user.identity for user in users}
    for grant in policy.authorization:
        if grant.reads and grant.identity not in known:
            rights = reader_rights(grant.reads, inbox=READERS_INBOX)
            users.append(NatsUser(identity=grant.identity, rights=rights, about=f"reads {', '.join(grant.reads)}"))
    return tuple(users)


def rendered(users: Iterable[NatsUser], *, tls_dir: str) -> str:
    """Return the part of a server's configuration that is about TLS and users; the rest is the operator's."""
    lines = [
        "# Written by `phalanx nats-config`: who may connect, and what each of them may do (docs/tls.md).",
        "tls {",
        *(f"  {key}: {json.dumps(f'{tls_dir}/{file}')}" for key, file in _FILES.items()),
        "  # A client's SPIFFE URI is the name of its user. Without a certificate of ours there is no connection.",
        "  verify_and_map: true",
        '  min_version: "1.3"',
        "  timeout: 5",
        "  # Not a word before the handshake: a client that waits for a greeting is set to begin as well.",
        "  handshake_first: true",
        "}",
        "authorization {",
        "  users: [",
    ]
    for user in users:
        lines += _user(user)
    return "\n".join([*lines, "  ]", "}", ""])


_FILES: Mapping[str, str] = {"cert_file": "tls.crt", "key_file": "tls.key", "ca_file": "ca.crt"}


def _user(user: NatsUser) -> list[str]:
    return [
        f"    # {user.about}",
        "    {",
        f"      user: {json.dumps(user.identity)}",
        "      permissions: {",
        *_allowed("publish", user.rights.publishes),
        *_allowed("subscribe", user.rights.subscribes),
        "      }",
        "    }",
    ]


def _allowed(verb: str, subjects: Iterable[str]) -> list[str]:
    return [
        f"        {verb}: {{ allow: [",
        *(f"          {json.dumps(subject)}" for subject in subjects),
        "        ] }",
    ]


def _with(rights: BusRights, *, listens: tuple[str, ...]) -> BusRights:
    return BusRights(publishes=rights.publishes, subscribes=(*rights.subscribes, *listens))
