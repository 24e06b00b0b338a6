"""What to write to the stream, decided: a state machine without I/O, one for each kind.

It is told what is seen in the cluster and how each write ended, and returns what to do next. Its promises:

- one write in flight per object; newer versions coalesce behind it, older ones never replace newer ones;
- every write names the last sequence that is known of its subject, so that a late copy of it is refused;
- a write whose answer was lost is followed by another one, equal or newer: until then the late copy could still land;
- whatever is not news (the same reduced form under a new resourceVersion) is not written;
- what others write is noticed: a newer version (of another watcher) is taken over, an outdated one (a late write of a
  watcher that is no more) brings a new list, because only the newest versions' digests are kept, not their contents.

Versions are ordered by resourceVersion, which is a revision of the whole cluster: that also orders a deletion, and an
object that was made anew under the same name. A list is the truth of its moment, whatever was believed before; where
it is older than what was seen before it was asked for, the cluster was restored from a backup, and everything is
written again.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

UNKNOWN_REVISION = -1
"""Older than everything: for a stored message that tells nothing."""

REMEMBERED_TOMBSTONES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of an object. `fingerprint` is equal for equal reduced forms, and empty for a deletion."""

    uid: str
    revision: int
    fingerprint: bytes = b""

    @property
    def is_deleted(self) -> bool:
        """True for a tombstone."""
        return not self.fingerprint

    def says_the_same(self, other: "Version | None") -> bool:
        """Return whether a reader learns nothing new from one after the other."""
        return other is not None and (self.uid, self.fingerprint) == (other.uid, other.fingerprint)

    def is_newer_than(self, other: "Version | None") -> bool:
        """Return whether this version follows the other one; a deletion follows the version that it ends."""
        if other is None:
            return True
        return (self.revision, self.is_deleted) > (other.revision, other.is_deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A version as it will be written. `seen_at_s` is monotonic time, `seen_at_ns` wall-clock time since 1970."""

    subject: str
    version: Version
    data: bytes
    event_id: str
    event_type: str
    seen_at_s: float = 0.0
    seen_at_ns: int = 0
    is_traced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The last message of a subject, as it was read from the stream."""

    subject: str
    sequence: int
    version: Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Write this, if the subject's last sequence is still `expected_sequence`; then say how it ended."""

    outgoing: Outgoing
    expected_sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """Read the subject's last message, and say what was found.

    `known_sequence` is what it was believed to be; `may_have_expired` is true where that was a tombstone.
    """

    subject: str
    known_sequence: int
    may_have_expired: bool

    def shows_loss(self, stored: Stored | None) -> bool:
        """Return whether a message that the stream had acknowledged is not there any more, nor a newer one."""
        if stored is None:
            return self.known_sequence > 0 and not self.may_have_expired
        return stored.sequence < self.known_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Relist:
    """List the kind again: somebody replaced the newest version of this subject by an outdated one."""

    subject: str


Instruction = Publish | Reread | Relist


class Verdict(StrEnum):
    """What became of a version that was seen."""

    ACCEPTED = "accepted"
    UNCHANGED = "unchanged"
    OUTDATED = "outdated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Answer to a version that was seen."""

    verdict: Verdict
    instruction: Instruction | None = None


@dataclass(slots=True)
class _Entry:
    """One subject.

    `stored` is what its last message says, `waiting` the newest version behind the write in flight, `echoed_sequence`
    the last sequence that was seen in the stream, whoever wrote it.
    """

    sequence: int = 0
    stored: Version | None = None
    in_flight: Outgoing | None = None
    waiting: Outgoing | None = None
    echoed_sequence: int = 0
    is_reading: bool = False
    must_write: bool = False

    @property
    def newest(self) -> Version | None:
        """The newest version that is known, written or not."""
        newest = self.stored
        for outgoing in (self.in_flight, self.waiting):
            if outgoing is not None and outgoing.version.is_newer_than(newest):
                newest = outgoing.version
        return newest

    @property
    def is_settled(self) -> bool:
        """True when nothing is left to be done."""
        return self.in_flight is None and self.waiting is None and not self.is_reading


class Publication:
    """The objects of one kind between the cluster and the stream."""

    def __init__(self, *, remembered_tombstones: int = REMEMBERED_TOMBSTONES) -> None:
        """Start with nothing known."""
        self._entries: dict[str, _Entry] = {}
        self._tombstones: deque[str] = deque()
        self._remembered_tombstones = remembered_tombstones
        # Everything up to this revision was seen: an event from before it comes too late.
        self._floor = UNKNOWN_REVISION
        self._highest = UNKNOWN_REVISION
        self._list_revision = UNKNOWN_REVISION
        self._last_sequence = 0
        # Messages up to this sequence tell of a history that the cluster has left.
        self._void_until_sequence = 0
        self._unsettled: set[str] = set()
        self._object_count = 0

    @property
    def is_settled(self) -> bool:
        """True when the stream holds everything that was seen."""
        return not self._unsettled

    @property
    def unsettled_count(self) -> int:
        """Number of objects with a write or a read to be done."""
        return len(self._unsettled)

    @property
    def object_count(self) -> int:
        """Number of objects that the stream holds."""
        return self._object_count

    def load(self, messages: Iterable[Stored]) -> None:
        """Replace what is known by what the stream holds. Nothing may be in flight."""
        assert self.is_settled, "the stream is read while nothing is in flight"
        self._entries = {}
        self._tombstones.clear()
        self._highest = UNKNOWN_REVISION
        self._last_sequence = 0
        self._void_until_sequence = 0
        for message in messages:
            self._last_sequence = max(self._last_sequence, message.sequence)
            self._entries[message.subject] = _Entry(sequence=message.sequence, stored=message.version)
            self._highest = max(self._highest, message.version.revision)
            if message.version.is_deleted:
                self._remember_tombstone(message.subject)
        self._object_count = sum(not _is_gone(entry.stored) for entry in self._entries.values())

    def begin_list(self, *, revision: int) -> bool:
        """Prepare for a list of the cluster at `revision`. Nothing may be in flight.

        Returns False where the list is older than what was seen before it was asked for: then the cluster's history
        began anew, and every object will be written again.
        """
        assert self.is_settled, "a list begins while nothing is in flight"
        is_continued = revision >= self._highest
        if not is_continued:
            self._void_until_sequence = self._last_sequence
            for entry in self._entries.values():
                if entry.stored is not None:
                    entry.stored = _of_another_history(entry.stored)
            self._floor = UNKNOWN_REVISION
            self._highest = UNKNOWN_REVISION
        self._list_revision = revision
        return is_continued

    def listed(self, outgoing: Outgoing) -> Step:
        """Take one object of the list."""
        return self._seen(outgoing, truth_until=self._list_revision)

    def missing(self, present: set[str]) -> Iterator[tuple[str, Version]]:
        """Yield subject and version of the known objects that the list did not name: each needs a tombstone."""
        for subject, entry in tuple(self._entries.items()):
            newest = entry.newest
            if subject not in present and newest is not None and not newest.is_deleted:
                yield subject, newest

    def end_list(self, *, revision: int) -> None:
        """Finish the list, after the tombstones of what was missing: older events about unknown objects are void."""
        self._floor = max(self._floor, revision)
        self._highest = max(self._highest, revision)

    def watched(self, outgoing: Outgoing) -> Step:
        """Take one event of the watch."""
        if outgoing.version.revision <= self._floor:
            return Step(verdict=Verdict.OUTDATED)
        return self._seen(outgoing)

    def acknowledged(self, subject: str, *, sequence: int) -> Instruction | None:
        """The write in flight is stored."""
        entry = self._entries[subject]
        assert entry.in_flight is not None, f"{subject}: an answer without a write"
        self._object_count += _is_gone(entry.stored) - entry.in_flight.version.is_deleted
        entry.sequence, entry.stored, entry.in_flight = sequence, entry.in_flight.version, None
        entry.must_write = False
        self._last_sequence = max(self._last_sequence, sequence)
        return self._advance(subject, entry)

    def refused(self, subject: str) -> Instruction | None:
        """The write in flight met another last message than expected: read it, then decide again."""
        entry = self._entries[subject]
        self._take_back(entry)
        entry.is_reading = True
        return Reread(subject=subject, known_sequence=entry.sequence, may_have_expired=_is_gone(entry.stored))

    def unanswered(self, subject: str) -> Instruction | None:
        """Whether the write in flight is stored is not known: write again, the same or what is newer by now."""
        entry = self._entries[subject]
        self._take_back(entry)
        entry.must_write = True
        return self._advance(subject, entry)

    def found(self, subject: str, *, stored: Stored | None) -> Instruction | None:
        """The subject's last message was read; None where there is none (a tombstone that has expired)."""
        entry = self._entries[subject]
        stored = stored and self._judged(stored)
        known, waiting = entry.stored, entry.waiting
        entry.is_reading = False
        if stored is None or stored.sequence <= entry.sequence:
            # What was echoed is not there any more; waiting for it would never end.
            entry.echoed_sequence = 0
        self._adopt(subject, entry, stored)
        # An earlier write without an answer named another sequence and is refused, unless there is no message at all.
        entry.must_write = entry.must_write and stored is None
        if waiting is not None and entry.stored is not None and entry.stored.is_newer_than(waiting.version):
            # Another watcher is ahead of this one.
            entry.waiting = None
        following = self._advance(subject, entry)
        if following is None and waiting is None and self._is_outdated(stored, known=known):
            return Relist(subject=subject)
        return following

    def echoed(self, stored: Stored) -> Instruction | None:
        """Take a message that was read from the stream: mostly an echo of our own, else somebody else's."""
        stored = self._judged(stored)
        entry = self._entries.get(stored.subject)
        if entry is None:
            entry = self._entries[stored.subject] = _Entry()
        entry.echoed_sequence = max(entry.echoed_sequence, stored.sequence)
        if not entry.is_settled or stored.sequence <= entry.sequence:
            return None
        known = entry.stored
        self._adopt(stored.subject, entry, stored)
        return Relist(subject=stored.subject) if self._is_outdated(stored, known=known) else None

    def _judged(self, stored: Stored) -> Stored:
        """Return the message, with the revision void where it is from before the cluster's history began anew."""
        self._last_sequence = max(self._last_sequence, stored.sequence)
        if stored.sequence > self._void_until_sequence:
            return stored
        return replace(stored, version=_of_another_history(stored.version))

    def _is_outdated(self, stored: Stored | None, *, known: Version | None) -> bool:
        """Return whether the stream holds something older than what it held before; a tombstone may expire."""
        if stored is None:
            return not _is_gone(known)
        if known is not None and known.is_newer_than(stored.version):
            return True
        # Up to the floor everything was seen: what was written of that time and is not known did not last.
        is_past = stored.version.revision <= self._floor
        return (
            is_past and not stored.version.says_the_same(known) and not (stored.version.is_deleted and _is_gone(known))
        )

    def _adopt(self, subject: str, entry: _Entry, stored: Stored | None) -> None:
        """Take over what the stream holds."""
        was_gone = _is_gone(entry.stored)
        entry.sequence = stored.sequence if stored else 0
        entry.stored = stored.version if stored else None
        self._object_count += was_gone - _is_gone(entry.stored)
        if stored is not None and stored.version.is_deleted:
            self._remember_tombstone(subject)

    def _seen(self, outgoing: Outgoing, *, truth_until: int = UNKNOWN_REVISION) -> Step:
        entry = self._entries.get(outgoing.subject)
        if entry is None:
            entry = self._entries[outgoing.subject] = _Entry()
        self._highest = max(self._highest, outgoing.version.revision)
        newest = entry.newest
        if newest is not None and not outgoing.version.is_newer_than(newest):
            if outgoing.version == newest:
                return Step(verdict=Verdict.UNCHANGED)
            if newest.revision > truth_until:
                return Step(verdict=Verdict.OUTDATED)
        entry.waiting = outgoing
        is_idle = entry.in_flight is None and not entry.is_reading
        instruction = self._advance(outgoing.subject, entry)
        is_unchanged = is_idle and instruction is None
        return Step(verdict=Verdict.UNCHANGED if is_unchanged else Verdict.ACCEPTED, instruction=instruction)

    def _advance(self, subject: str, entry: _Entry) -> Instruction | None:
        """Write what waits, if nothing is in flight and it is news."""
        if entry.in_flight is not None or entry.is_reading:
            return None
        waiting, entry.waiting = entry.waiting, None
        if waiting is not None and (entry.must_write or not waiting.version.says_the_same(entry.stored)):
            entry.in_flight = waiting
            self._unsettled.add(subject)
            return Publish(outgoing=waiting, expected_sequence=entry.sequence)
        if waiting is not None:
            entry.stored = waiting.version
        if entry.echoed_sequence > entry.sequence:
            # Somebody wrote behind our last write.
            entry.is_reading = True
            self._unsettled.add(subject)
            return Reread(subject=subject, known_sequence=entry.sequence, may_have_expired=_is_gone(entry.stored))
        self._unsettled.discard(subject)
        if entry.stored is not None and entry.stored.is_deleted:
            self._remember_tombstone(subject)
        return None

    def _take_back(self, entry: _Entry) -> None:
        """Let the version in flight wait again, unless a newer one does."""
        assert entry.in_flight is not None, "an answer without a write"
        entry.waiting = entry.waiting or entry.in_flight
        entry.in_flight = None

    def _remember_tombstone(self, subject: str) -> None:
        """Keep the tombstone, and forget the oldest ones where there are too many."""
        self._tombstones.append(subject)
        while len(self._tombstones) > self._remembered_tombstones:
            oldest = self._tombstones.popleft()
            entry = self._entries.get(oldest)
            if entry is None or not entry.is_settled or entry.stored is None or not entry.stored.is_deleted:
                continue
            # Another watcher's tombstone may be ahead of what this one has seen; that one is kept.
            if entry.stored.revision <= self._highest:
                self._floor = max(self._floor, entry.stored.revision)
                del self._entries[oldest]


def _is_gone(version: Version | None) -> bool:
    return version is None or version.is_deleted


def _of_another_history(version: Version) -> Version:
    """Return a version that is older than everything, and says something else than everything but a deletion."""
    fingerprint = b"" if version.is_deleted else b"of another history"
    return Version(uid=version.uid, revision=UNKNOWN_REVISION, fingerprint=fingerprint)
