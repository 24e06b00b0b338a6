"""What the watcher needs of the outside: the API's lists and watches, and the cluster stream."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from services.core.objects import Kind, WatchState
from services.watcher.kinds import WatchedKind
from services.watcher.publication import Outgoing, Stored


class ApiFailed(Exception):
    """The API gave no useful answer. `detail` is for people; `retry_after_s` is what the server asked for, or None."""

    def __init__(self, detail: str, *, retry_after_s: float | None = None) -> None:
        """Keep the sentence."""
        super().__init__(detail)
        self.detail = detail
        self.retry_after_s = retry_after_s


class NotServed(ApiFailed):
    """The API server does not serve this path (any more)."""


class HistoryGone(ApiFailed):
    """The server forgot the version that was asked for: list anew."""


class StreamUnavailable(Exception):
    """The stream gave no answer; a write may or may not be stored."""


class StreamRefused(Exception):
    """The subject's last message is not the expected one; nothing was written."""


class Page(Protocol):
    """One page of a list."""

    @property
    def items(self) -> Sequence[Mapping[str, Any]]:
        """The objects as decoded JSON."""

    @property
    def resource_version(self) -> str:
        """The version of the whole list."""


class Event(Protocol):
    """One event of a watch."""

    @property
    def type(self) -> str:
        """ADDED, MODIFIED, DELETED or BOOKMARK."""

    @property
    def object(self) -> Mapping[str, Any]:
        """The object as decoded JSON."""


class ClusterApi(Protocol):
    """The Kubernetes API. Every method raises ApiFailed."""

    async def version_of(self, watched: WatchedKind) -> str | None:
        """Return the most preferred version in which the kind is served, or None."""

    def pages(self, watched: WatchedKind, *, version: str) -> AsyncGenerator[Page, None]:
        """Yield the pages of a list. Raises HistoryGone in the middle."""

    def events(
        self, watched: WatchedKind, *, version: str, resource_version: int, timeout_s: float
    ) -> AsyncGenerator[Event, None]:
        """Yield what happened after `resource_version`, until the server closes. Raises HistoryGone, NotServed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """Messages in the stream's order.

    `is_caught_up`: everything stored has been read. `is_restarted`: what was read before is void, because the server
    lost its memory, and with it perhaps messages that it had acknowledged.
    """

    messages: tuple[Stored, ...]
    is_caught_up: bool
    is_restarted: bool = False


class ClusterStream(Protocol):
    """The stream of the cluster's last known form. Every method but `follow` raises StreamUnavailable."""

    def follow(self, kind: Kind) -> AsyncGenerator[StoredBatch, None]:
        """Yield the last message of every subject of a kind, then each new one, for ever."""

    async def last(self, subject: str) -> Stored | None:
        """Return the last message of a subject, or None."""

    async def publish(self, outgoing: Outgoing, *, expected_sequence: int) -> int:
        """Write if the subject's last sequence is the expected one, else raise StreamRefused. Returns the sequence."""

    async def publish_state(self, state: WatchState) -> None:
        """Write how far a kind is followed."""

    async def ensure(self) -> None:
        """Create the stream where it does not exist."""
