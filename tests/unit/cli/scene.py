"""What a witness may have seen of the demo, told by a test."""

from dataclasses import dataclass, field
from datetime import datetime

from services.cli.demo.objects import NAMESPACE, DemoGang
from services.cli.demo.witness import PodRecord, Witness
from services.contracts.decision_codec import decision_subject
from services.core.decisions import (
    Assignment,
    Committed,
    Decision,
    DecisionEvent,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Waiting,
)
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason, ReasonCode
from tests.builders import START, seconds
from tests.fakes.clock import FakeClock

TRAIN = DemoGang(name="train", members=4, run_s=1)
OTHER = DemoGang(name="other", members=4, run_s=1)


@dataclass(slots=True, kw_only=True)
class Scene:
    """A witness on a clock that the test moves: a whole story that goes well, until the test changes something."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(start=START))
    witness: Witness = field(init=False)

    def __post_init__(self) -> None:
        """Start with nothing seen."""
        self.witness = Witness(clock=self.clock)

    @property
    def now(self) -> datetime:
        """The moment."""
        return self.clock.now()

    def after(self, count_s: float) -> None:
        """Let time pass."""
        self.clock.advance(count_s)

    def create(self, gang: DemoGang, *, count: int | None = None, first: int = 0) -> list[PodRecord]:
        """Let pods of a gang appear."""
        for index in range(first, first + (gang.members if count is None else count)):
            self._see("ADDED", gang, index=index)
        return self.witness.of_gang(gang.name)

    def bind(self, gang: DemoGang, *indices: int, node: str = "n1") -> None:
        """Let members be bound; all where none is named."""
        for index in indices or range(gang.members):
            self._see("MODIFIED", gang, index=index, node=node)

    def finish(self, gang: DemoGang, *indices: int) -> None:
        """Let members end well; all where none is named."""
        for index in indices or range(gang.members):
            self._see("MODIFIED", gang, index=index, phase="Succeeded")

    def delete(self, gang: DemoGang, *indices: int) -> None:
        """Let members be deleted and gone; all where none is named."""
        for index in indices or range(gang.members):
            self._see("MODIFIED", gang, index=index, is_leaving=True)
            self._see("DELETED", gang, index=index, is_leaving=True)

    def hear(self, gang: DemoGang, event: DecisionEvent, *, transaction: str = "tx") -> None:
        """Let a decision be heard."""
        decision = Decision(
            gang=GangId(f"podgroup/{NAMESPACE}/{gang.name}"),
            event=event,
            decided_at=self.now,
            transaction=TransactionId("" if isinstance(event, Waiting) else transaction),
        )
        self.witness.hear(decision, subject=decision_subject(decision))

    def place(self, gang: DemoGang, *, node: str = "n1", transaction: str = "tx") -> None:
        """Let a gang appear, be proposed, bound and committed."""
        self.create(gang)
        self.after(0.1)
        self.hear(gang, proposed(gang), transaction=transaction)
        self.after(0.1)
        self.bind(gang, node=node)
        self.after(0.1)
        self.hear(gang, Committed(members=assignments(gang)), transaction=transaction)

    def _see(
        self, kind: str, gang: DemoGang, *, index: int, node: str = "", phase: str = "Pending", is_leaving: bool = False
    ) -> None:
        metadata = {"uid": f"{gang.name}-{index}", "name": f"{gang.name}-{index}"}
        if is_leaving:
            metadata["deletionTimestamp"] = "2026-07-01T12:00:00Z"
        spec = {"schedulingGroup": {"podGroupName": gang.name}} | ({"nodeName": node} if node else {})
        self.witness.see(kind, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def assignments(gang: DemoGang, *, count: int | None = None) -> tuple[Assignment, ...]:
    """Members on a node."""
    names = [f"{gang.name}-{index}" for index in range(gang.members if count is None else count)]
    return tuple(Assignment(pod=name, uid=Uid(name), node=NodeName("n1")) for name in names)


def proposed(gang: DemoGang) -> Proposed:
    """A whole placement."""
    return Proposed(revision=1, deadline=START + seconds(60), min_count=gang.members, assignments=assignments(gang))


def waiting(code: ReasonCode = ReasonCode.INSUFFICIENT_CAPACITY) -> Waiting:
    """Why a gang waits."""
    return Waiting(
        revision=1, min_count=4, existing=4, placeable=0, reasons=(Reason(code=code, message="0 of the 4 fit"),)
    )


def repairing(gang: DemoGang) -> Repairing:
    """One member needs another node."""
    *bound, lost = assignments(gang)
    member = OpenMember(pod=lost.pod, uid=lost.uid, excluded_nodes=(lost.node,))
    return Repairing(round=0, bound=tuple(bound), open=(member,), until=START + seconds(30), min_count=gang.members)


def refused() -> Refused:
    """Turned down before anything was written."""
    return Refused(reasons=(Reason(code=ReasonCode.BINDING_REFUSED, message="denied"),))


def rolled_back(gang: DemoGang, *, undone: int) -> RolledBack:
    """Taken back."""
    reason = Reason(code=ReasonCode.REPAIR_WINDOW_EXPIRED, message="too late")
    return RolledBack(reasons=(reason,), undone=assignments(gang, count=undone))
