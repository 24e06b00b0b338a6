"""What the bus needs to know of a stream to make it, so that it need not know which streams there are."""

from typing import Protocol

from nats.js import api

DUPLICATE_WINDOW_S = 120
"""How long the server remembers message ids."""


class StreamDefinition(Protocol):
    """A stream as data; `services.contracts.streams.Stream` is one. Sizes in bytes, ages in seconds, -1 unlimited."""

    @property
    def name(self) -> str:
        """Name of the stream."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """Subjects it keeps."""

    @property
    def max_age_s(self) -> float:
        """Age after which messages go; 0 never."""

    @property
    def max_bytes(self) -> int:
        """Size above which the oldest messages go."""

    @property
    def max_messages_per_subject(self) -> int:
        """How many messages of one subject are kept."""

    @property
    def can_be_rebuilt(self) -> bool:
        """True if writes need not wait for the disk."""

    @property
    def has_message_ttl(self) -> bool:
        """True if single messages may expire."""

    @property
    def is_bucket(self) -> bool:
        """True for a KV bucket."""


def configuration_of(stream: StreamDefinition) -> api.StreamConfig:
    """Return a stream as the server takes it."""
    return api.StreamConfig(
        name=stream.name,
        subjects=list(stream.subjects),
        max_age=stream.max_age_s,
        max_bytes=stream.max_bytes,
        max_msgs_per_subject=stream.max_messages_per_subject,
        storage=api.StorageType.FILE,
        allow_direct=True,
        allow_rollup_hdrs=stream.is_bucket,
        deny_delete=stream.is_bucket,
        discard=api.DiscardPolicy.NEW if stream.is_bucket else api.DiscardPolicy.OLD,
        allow_msg_ttl=stream.has_message_ttl or None,
        persist_mode=api.PersistMode.ASYNC if stream.can_be_rebuilt else None,
        duplicate_window=DUPLICATE_WINDOW_S,
    )
