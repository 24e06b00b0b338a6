"""Open watches: what each wants to see, its bounded queue, and how a change becomes a line.

A watch whose reader is too slow is closed once its queue is full, as the API server does: the client then
watches again from the last resourceVersion that it has seen.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj
from services.sandbox.selectors import Predicate

OnClose: TypeAlias = Callable[[], None]


@dataclass(slots=True, eq=False)
class Stored:
    """One version of one object: immutable, with the bytes that every list and watch shares.

    `raw` leaves out kind and apiVersion, so that all served versions and list items use the same bytes.
    """

    kind: Kind
    key: str
    obj: Obj
    raw: bytes
    revision: int

    def encoded(self, version: str) -> bytes:
        """The whole object as one served version."""
        return self.kind.heads[version] + self.raw[1:]

    def full(self, version: str) -> Obj:
        """A private, changeable copy with kind and apiVersion."""
        copied: Obj = {"kind": self.kind.kind, "apiVersion": self.kind.api_version(version)}
        copied.update(orjson.loads(self.raw))
        return copied


@dataclass(slots=True, eq=False)
class Change:
    """One committed write; `previous` is None for additions."""

    type: str
    stored: Stored
    previous: Stored | None = None

    @property
    def revision(self) -> int:
        """The store revision that this change made."""
        return self.stored.revision

    def line(self, version: str, *, as_type: str) -> bytes:
        """The watch event as one line, around the bytes that all watches and lists share."""
        return event_line(as_type, self._shown(as_type).encoded(version))

    def _shown(self, as_type: str) -> Stored:
        # An object that leaves a selector is shown as it last matched, at the revision of the change.
        if as_type != "DELETED" or self.type == "DELETED" or self.previous is None:
            return self.stored
        meta = {**self.previous.obj["metadata"], "resourceVersion": str(self.revision)}
        obj = {**self.previous.obj, "metadata": meta}
        return Stored(self.stored.kind, self.stored.key, obj, orjson.dumps(obj), self.revision)


def event_line(type_: str, encoded_object: bytes) -> bytes:
    """One line of a watch response."""
    return b'{"type":"' + type_.encode() + b'","object":' + encoded_object + b"}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which objects of which version a list or watch covers."""

    kind: Kind
    version: str
    namespace: str
    predicate: Predicate | None = None

    def covers(self, stored: Stored) -> bool:
        """Whether the object lies in this namespace and matches the selectors."""
        if self.namespace and not stored.key.startswith(self.namespace + "/"):
            return False
        return self.predicate is None or self.predicate(stored.obj)

    def view(self, change: Change) -> str | None:
        """The event type by which this scope sees the change; None where it sees nothing."""
        if self.predicate is None:
            return change.type if self.covers(change.stored) else None
        was = change.previous is not None and self.covers(change.previous)
        if change.type == "DELETED":
            return "DELETED" if was else None
        matches = self.covers(change.stored)
        if matches:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None


class Watch:
    """The queue between the store and one watching client."""

    def __init__(self, scope: Scope, *, limit: int) -> None:
        self.scope = scope
        self.is_overflowed = False
        self.is_broken = False
        self.sent_count = 0
        #: Called once when the watch is closed; the reader may be stuck in a write then.
        self.on_close: OnClose | None = None
        self._limit = limit
        self._lines: deque[bytes] = deque()
        self._wake = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether lines are still accepted."""
        return not (self.is_overflowed or self.is_broken)

    @property
    def queued(self) -> int:
        """Lines that the client has not taken yet."""
        return len(self._lines)

    def offer(self, change: Change) -> None:
        """Queue the change if this watch covers it."""
        seen_as = self.scope.view(change)
        if seen_as is not None:
            self.offer_line(change.line(self.scope.version, as_type=seen_as))

    def offer_line(self, line: bytes) -> None:
        """Queue one encoded event; a full queue closes the watch and drops what is left in it."""
        if not self.is_open:
            return
        if len(self._lines) >= self._limit:
            self.is_overflowed = True
            self._close()
        else:
            self._lines.append(line)
            self._wake.set()

    def break_off(self) -> None:
        """End the response without a last word, as a lost connection does."""
        if self.is_open:
            self.is_broken = True
            self._close()

    def _close(self) -> None:
        self._lines.clear()
        self._wake.set()
        if self.on_close is not None:
            self.on_close()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for lines or the end of the watch; False when the time ran out first."""
        if self._lines or not self.is_open:
            return True
        self._wake.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> bytes:
        """Everything queued, as one piece; empty where nothing waits."""
        taken = b"".join(self._lines)
        self.sent_count += len(self._lines)
        self._lines.clear()
        return taken
