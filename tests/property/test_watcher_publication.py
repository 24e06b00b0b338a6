"""However events, answers and losses interleave, the stream ends equal to the cluster."""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.watcher.publication import Instruction, Outgoing, Publication, Publish, Relist, Stored, Version

NAMES = st.sampled_from(["a", "b", "c", "d"])


@dataclass(slots=True)
class FakeStream:
    """Last message per subject, written by compare-and-set."""

    sequence: int = 0
    last: dict[str, Stored] = field(default_factory=dict)
    log: list[Stored] = field(default_factory=list)

    def write(self, outgoing: Outgoing, *, expected: int) -> int | None:
        """Store a message; None where the expectation does not hold."""
        held = self.last.get(outgoing.subject)
        if (held.sequence if held else 0) != expected:
            return None
        self.sequence += 1
        stored = Stored(subject=outgoing.subject, sequence=self.sequence, version=outgoing.version)
        self.last[outgoing.subject] = stored
        self.log.append(stored)
        return self.sequence


@dataclass(slots=True)
class FakeCluster:
    """Objects with uid, revision and content, and everything that happened to them."""

    revision: int = 10
    made: int = 0
    objects: dict[str, Version] = field(default_factory=dict)
    events: list[Outgoing] = field(default_factory=list)

    def put(self, name: str, *, content: bytes) -> None:
        """Create or change an object; the same content is a new version all the same."""
        self.revision += 1
        held = self.objects.get(name)
        if held is None:
            self.made += 1
        version = Version(uid=held.uid if held else f"u{self.made}", revision=self.revision, fingerprint=content)
        self.objects[name] = version
        self.events.append(outgoing(name, version))

    def remove(self, name: str) -> None:
        """Delete an object."""
        self.revision += 1
        held = self.objects.pop(name)
        self.events.append(outgoing(name, Version(uid=held.uid, revision=self.revision)))


def outgoing(subject: str, version: Version) -> Outgoing:
    """A version as it would be written."""
    return Outgoing(subject=subject, version=version, data=b"", event_id="", event_type="")


class Watching(RuleBasedStateMachine):
    """One watcher's publication, the cluster, the stream, a lossy network and another watcher."""

    def __init__(self) -> None:
        """Start with an empty cluster and an empty stream."""
        super().__init__()
        self.cluster = FakeCluster()
        self.stream = FakeStream()
        self.publication = Publication(remembered_tombstones=2)
        self.doing: list[Instruction] = []
        self.late_copies: list[Publish] = []
        self.delivered = 0
        self.echoed = 0
        self.must_list = False

    @initialize(names=st.lists(NAMES, max_size=3))
    def begin(self, names: list[str]) -> None:
        """Some objects exist before the first list."""
        for name in names:
            self.cluster.put(name, content=b"old")
        self._list()

    @rule(name=NAMES, content=st.sampled_from([b"x", b"y"]))
    def change(self, name: str, content: bytes) -> None:
        """An object is created or changed."""
        self.cluster.put(name, content=content)

    @precondition(lambda self: self.cluster.objects)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """An object is deleted."""
        self.cluster.remove(data.draw(st.sampled_from(sorted(self.cluster.objects))))

    @precondition(lambda self: self.delivered < len(self.cluster.events))
    @rule()
    def deliver(self) -> None:
        """The watch delivers its next event."""
        event = self.cluster.events[self.delivered]
        self.delivered += 1
        self._do(self.publication.watched(event).instruction)

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        """An event comes again, long after its time."""
        index = data.draw(st.integers(0, self.delivered - 1))
        self._do(self.publication.watched(self.cluster.events[index]).instruction)

    @precondition(lambda self: self.doing)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        """An instruction is carried out and answered."""
        self._complete(data.draw(st.integers(0, len(self.doing) - 1)))

    @precondition(lambda self: any(isinstance(item, Publish) for item in self.doing))
    @rule(data=st.data(), is_stored=st.booleans())
    def lose_answer(self, data: st.DataObject, *, is_stored: bool) -> None:
        """A write gets no answer: it was stored, or it may still arrive."""
        writes = [item for item in self.doing if isinstance(item, Publish)]
        write = data.draw(st.sampled_from(writes))
        self.doing.remove(write)
        if is_stored:
            self.stream.write(write.outgoing, expected=write.expected_sequence)
        else:
            self.late_copies.append(write)
        self._do(self.publication.unanswered(write.outgoing.subject))

    @precondition(lambda self: self.late_copies)
    @rule(data=st.data())
    def late_copy_arrives(self, data: st.DataObject) -> None:
        """A write that was given up reaches the stream."""
        copy = data.draw(st.sampled_from(self.late_copies))
        self.late_copies.remove(copy)
        self.stream.write(copy.outgoing, expected=copy.expected_sequence)

    @precondition(lambda self: self.echoed < len(self.stream.log))
    @rule()
    def echo(self) -> None:
        """The watcher reads its stream's next message."""
        message = self.stream.log[self.echoed]
        self.echoed += 1
        self._do(self.publication.echoed(message))

    @precondition(lambda self: self.cluster.events)
    @rule(data=st.data())
    def other_watcher_writes(self, data: st.DataObject) -> None:
        """Another watcher, which has seen everything, publishes what became of an object, where that is news."""
        name = data.draw(st.sampled_from(sorted({event.subject for event in self.cluster.events})))
        held = self.stream.last.get(name)
        version = next(event.version for event in reversed(self.cluster.events) if event.subject == name)
        if version.is_newer_than(held.version if held else None):
            self.stream.write(outgoing(name, version), expected=held.sequence if held else 0)

    @rule()
    def tombstones_expire(self) -> None:
        """Tombstones leave the stream."""
        for subject, held in list(self.stream.last.items()):
            if held.version.is_deleted:
                del self.stream.last[subject]

    @precondition(lambda self: self.publication.is_settled)
    @rule()
    def relist(self) -> None:
        """The watch was broken and forgotten."""
        self._list()

    @rule()
    def restart(self) -> None:
        """The watcher is killed; its writes may still arrive."""
        self.late_copies += [item for item in self.doing if isinstance(item, Publish)]
        self.doing.clear()
        self.publication = Publication(remembered_tombstones=2)
        self.publication.load(self.stream.last.values())
        self.echoed = len(self.stream.log)
        self.must_list = False
        self._list()

    @precondition(lambda self: self.publication.is_settled)
    @rule()
    def restored_from_backup(self) -> None:
        """The cluster's history begins anew at an earlier revision, with other contents; the watcher lists."""
        self._settle()
        self.cluster.revision = 1
        names = list(self.cluster.objects)
        self.cluster.objects.clear()
        self.cluster.events.clear()
        for name in names[1:]:
            self.cluster.put(name, content=b"restored")
        self._list()

    @invariant()
    def one_write_in_flight(self) -> None:
        """No object has two writes at the same time."""
        subjects = [item.outgoing.subject for item in self.doing if isinstance(item, Publish)]
        assert len(subjects) == len(set(subjects))

    def teardown(self) -> None:
        """Once everything has been said and answered, both ends are equal, whatever still arrives."""
        self._settle()
        assert self.publication.is_settled
        assert self.publication.object_count == len(self.cluster.objects)
        expected = {name: (item.uid, item.fingerprint) for name, item in self.cluster.objects.items()}
        held = {
            name: (item.version.uid, item.version.fingerprint)
            for name, item in self.stream.last.items()
            if not item.version.is_deleted
        }
        assert held == expected

    def _settle(self) -> None:
        while self.delivered < len(self.cluster.events):
            self.deliver()
        self._answer_all()
        for copy in self.late_copies:
            self.stream.write(copy.outgoing, expected=copy.expected_sequence)
        self.late_copies.clear()
        self._answer_all()

    def _answer_all(self) -> None:
        while self.doing or self.must_list or self.echoed < len(self.stream.log):
            if self.doing:
                self._complete(0)
            elif self.echoed < len(self.stream.log):
                self.echo()
            else:
                self._list()

    def _do(self, instruction: Instruction | None) -> None:
        if isinstance(instruction, Relist):
            self.must_list = True
        elif instruction is not None:
            self.doing.append(instruction)

    def _complete(self, index: int) -> None:
        instruction = self.doing.pop(index)
        if not isinstance(instruction, Publish):
            self._do(self.publication.found(instruction.subject, stored=self.stream.last.get(instruction.subject)))
            return
        subject = instruction.outgoing.subject
        sequence = self.stream.write(instruction.outgoing, expected=instruction.expected_sequence)
        if sequence is None:
            self._do(self.publication.refused(subject))
        else:
            self._do(self.publication.acknowledged(subject, sequence=sequence))

    def _list(self) -> None:
        self.must_list = False
        revision = self.cluster.revision
        self.publication.begin_list(revision=revision)
        for name, version in self.cluster.objects.items():
            self._do(self.publication.listed(outgoing(name, version)).instruction)
        for name, version in self.publication.missing(set(self.cluster.objects)):
            tombstone = outgoing(name, Version(uid=version.uid, revision=revision))
            self._do(self.publication.listed(tombstone).instruction)
        self.publication.end_list(revision=revision)
        self.delivered = len(self.cluster.events)


TestWatching = Watching.TestCase
TestWatching.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)
