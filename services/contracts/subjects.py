"""Subjects of the bus: where each message goes, and what a reader subscribes to.

`phalanx.cluster.v1.<kind>.<namespace>.<name>`, `phalanx.placement.v1.<kind>.<namespace>.<name>.<event>` and
`phalanx.scaling.v1.<namespace>.<hpa>.<event>`; what could not be read or handled is told again on
`phalanx.deadletter.v1.<service>.<stream>.<sequence>`. A cluster-scoped object has the namespace `_`; a `.` in a name
becomes `_`, which no Kubernetes name contains.
"""

import re

from services.core.objects import GangId, Kind, Metadata, TransactionId

CLUSTER = "phalanx.cluster.v1"
PLACEMENT = "phalanx.placement.v1"
SCALING = "phalanx.scaling.v1"
DEAD_LETTERS = "phalanx.deadletter.v1"

TRANSACTIONS_BUCKET = "phalanx_transactions"
"""KV bucket of the binder's journal."""

CLUSTER_SCOPED = "_"
_NOT_IN_KEYS = re.compile(r"[^-A-Za-z0-9_=]")


def token(name: str) -> str:
    """Return a Kubernetes name as one token of a subject or key."""
    return name.replace(".", "_") if name else CLUSTER_SCOPED


def cluster_subject(kind: Kind, metadata: Metadata) -> str:
    """Return the subject of an object."""
    return f"{CLUSTER}.{kind.value}.{token(metadata.namespace)}.{token(metadata.name)}"


def gang_parts(gang: GangId) -> tuple[str, str, str]:
    """Return kind, namespace and name of a gang id.

    Raises ValueError for text that is not `<kind>/<namespace>/<name>`.
    """
    parts = tuple(gang.split("/"))
    if len(parts) != 3 or not all(parts):  # noqa: PLR2004 - kind, namespace, name
        raise ValueError(f"expected a gang id <kind>/<namespace>/<name>, such as podgroup/team-a/train, got {gang!r}")
    return parts[0], parts[1], parts[2]


def placement_subject(gang: GangId, *, event: str) -> str:
    """Return the subject of a decision about a gang; `event` is a token such as `proposed`, or `*`."""
    kind, namespace, name = gang_parts(gang)
    return f"{PLACEMENT}.{kind}.{token(namespace)}.{token(name)}.{event}"


def scaling_subject(namespace: str, *, hpa: str, event: str) -> str:
    """Return the subject of a scaling decision."""
    return f"{SCALING}.{token(namespace)}.{token(hpa)}.{event}"


def transaction_subject(transaction: TransactionId) -> str:
    """Return the subject that a transaction's key has in the journal's bucket."""
    return f"$KV.{TRANSACTIONS_BUCKET}.{_NOT_IN_KEYS.sub('_', transaction)}"


def dead_letter_subject(service: str, *, stream: str, sequence: int) -> str:
    """Return the subject of the letter about one message; each service has letters of its own."""
    return f"{DEAD_LETTERS}.{token(service)}.{token(stream)}.{sequence}"
