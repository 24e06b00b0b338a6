"""Any delivery of scale commands (repeated, late, raced, answers lost) equals one delivery of each, in order."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from services.core.commands import AddReplicas, ScaleCommand, ScaleTarget, ScaleWrite, SetReplicas, decide_scale
from services.core.objects import Uid

UID = Uid("worker")


@dataclass(slots=True)
class Worker:
    """A scalable object in an API server that checks resourceVersions."""

    replicas: int = 3
    record: str = ""
    version: int = 1
    applied: list[str] = field(default_factory=list)

    def read(self) -> tuple[ScaleTarget, int]:
        """The object and its version."""
        return ScaleTarget(uid=UID, replicas=self.replicas, record=self.record), self.version

    def write(self, write: ScaleWrite, *, version: int) -> bool:
        """Store the write, unless the version is no longer current."""
        if version != self.version:
            return False
        self.replicas, self.record, self.version = write.replicas, write.record.text(), version + 1
        self.applied.append(write.record.id)
        return True


@st.composite
def command_lists(draw: st.DrawFn) -> list[ScaleCommand]:
    """Commands of one target with growing sequences."""
    sequences = sorted(draw(st.sets(st.integers(min_value=0, max_value=1000), min_size=1, max_size=6)))
    commands: list[ScaleCommand] = []
    for sequence in sequences:
        amount = draw(st.integers(min_value=0, max_value=5))
        if draw(st.booleans()):
            commands.append(SetReplicas(id=f"m-{sequence}", sequence=sequence, uid=UID, replicas=amount))
        else:
            commands.append(AddReplicas(id=f"m-{sequence}", sequence=sequence, uid=UID, count=amount))
    return commands


def deliver(command: ScaleCommand, *, worker: Worker, races: int) -> None:
    """Handle one delivery; each of the first `races` writes finds that the object has changed since it was read."""
    while True:
        target, version = worker.read()
        decision = decide_scale(command, target=target)
        if not isinstance(decision, ScaleWrite):
            return
        if races:
            worker.version += 1
            races -= 1
        if worker.write(decision, version=version):
            return


def in_order(commands: list[ScaleCommand]) -> int:
    """The replicas after one delivery of each command."""
    worker = Worker()
    for command in commands:
        deliver(command, worker=worker, races=0)
    return worker.replicas


@given(st.data())
def test_redelivery_changes_nothing(data: st.DataObject) -> None:
    """First deliveries in order with any repetitions between them end as without repetitions."""
    commands = data.draw(command_lists())
    worker = Worker()
    for position, command in enumerate(commands):
        deliver(command, worker=worker, races=data.draw(st.integers(min_value=0, max_value=2)))
        for repeated in data.draw(st.lists(st.sampled_from(commands[: position + 1]), max_size=4)):
            deliver(repeated, worker=worker, races=0)
    assert worker.replicas == in_order(commands)
    assert worker.applied == [command.id for command in commands]


@given(st.data())
def test_each_command_takes_effect_at_most_once_in_any_order(data: st.DataObject) -> None:
    """Whatever the order is, effects come in growing sequence, each once, and the newest one is among them."""
    commands = data.draw(command_lists())
    deliveries = data.draw(st.lists(st.sampled_from(commands), min_size=1, max_size=12))
    worker = Worker()
    for command in deliveries:
        deliver(command, worker=worker, races=0)
    applied = [int(command_id.removeprefix("m-")) for command_id in worker.applied]
    assert applied == sorted(set(applied))
    newest = max(deliveries, key=lambda command: command.sequence)
    assert applied[-1] == newest.sequence
    if isinstance(newest, SetReplicas):
        assert worker.replicas == newest.replicas
