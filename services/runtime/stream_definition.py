"""What the bus needs to know of a stream to make it, so that it need not know which streams there are."""

from typing import Protocol


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
