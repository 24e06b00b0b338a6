"""Streams and buckets as data: what the first service to start creates, and what `deploy/nats` documents.

All are made by the services themselves (idempotently), so that an installation needs no separate set-up step.
"""

from dataclasses import dataclass

from services.contracts.subjects import CLUSTER, DEAD_LETTERS, PLACEMENT, SCALING, TRANSACTIONS_BUCKET

MIB = 2**20
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S

TOMBSTONE_TTL_S = HOUR_S
"""How long a deletion can be read. A reader that was away for longer starts from scratch."""

MAX_MESSAGE_BYTES = 4 * MIB
"""Largest message that we publish; the server's max_payload is twice that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One JetStream stream.

    `can_be_rebuilt` streams are written without waiting for the disk: the watcher compares them with the cluster at
    each start. The others are synced on every write (`sync_interval: always` on the server). A stream that
    `is_bucket` is what NATS calls a KV bucket: its tools show it as one.
    """

    name: str
    subjects: tuple[str, ...]
    max_age_s: float = 0.0
    max_bytes: int = -1
    max_messages_per_subject: int = -1
    can_be_rebuilt: bool = False
    has_message_ttl: bool = False
    is_bucket: bool = False


CLUSTER_STREAM = Stream(
    name="PHALANX_CLUSTER",
    subjects=(f"{CLUSTER}.>",),
    max_messages_per_subject=1,
    can_be_rebuilt=True,
    has_message_ttl=True,
)
"""The last known form of every watched object."""

PLACEMENT_STREAM = Stream(
    name="PHALANX_PLACEMENT",
    subjects=(f"{PLACEMENT}.>",),
    max_age_s=14 * DAY_S,
    max_bytes=4096 * MIB,
)
"""Every decision about gangs, for two weeks."""

SCALING_STREAM = Stream(
    name="PHALANX_SCALING",
    subjects=(f"{SCALING}.>",),
    max_age_s=14 * DAY_S,
    max_bytes=256 * MIB,
)
"""Every decision about waking gangs from zero, for two weeks."""

DEAD_LETTERS_STREAM = Stream(
    name="PHALANX_DEAD_LETTERS",
    subjects=(f"{DEAD_LETTERS}.>",),
    max_age_s=14 * DAY_S,
    max_bytes=256 * MIB,
    max_messages_per_subject=1,
)
"""What services could not read or handle, for two weeks: one letter for each message and service."""

TRANSACTIONS_STREAM = Stream(
    name=f"KV_{TRANSACTIONS_BUCKET}",
    subjects=(f"$KV.{TRANSACTIONS_BUCKET}.>",),
    max_age_s=14 * DAY_S,
    max_bytes=1024 * MIB,
    max_messages_per_subject=1,
    has_message_ttl=True,
    is_bucket=True,
)
"""The binder's journal: a key for each open transaction. Older than every decision, an entry explains nothing."""

STREAMS = (CLUSTER_STREAM, PLACEMENT_STREAM, SCALING_STREAM, DEAD_LETTERS_STREAM)
