"""Decisions about gangs as values: what goes over the placement stream.

They mirror `proto/phalanx/placement/v1/decision.proto`; `services.contracts.decision_codec` converts both ways.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from services.core.allocations import ClaimAllocation, DeviceId
from services.core.objects import GangId, NodeName, TransactionId, Uid
from services.core.reasons import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One member on one node."""

    pod: str
    uid: Uid
    node: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMember:
    """A member of a transaction that still needs a node, with the nodes where it was refused.

    `excluded_devices` are those that its claims must not get in this transaction: they collided or never got ready.
    """

    pod: str
    uid: Uid
    excluded_nodes: tuple[NodeName, ...] = ()
    reason: Reason | None = None
    excluded_devices: tuple[DeviceId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A pod of lower priority that has to go before members are bound, because they get its place.

    `gang` is set where it goes with all of its gang, which would have too few members without it.
    """

    namespace: str
    pod: str
    uid: Uid
    node: NodeName
    priority: int = 0
    gang: GangId = GangId("")

    @property
    def key(self) -> Uid:
        """What tells it from other victims."""
        return self.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A whole placement. `revision` is the cluster stream's sequence that it rests on; `round` 0 is the first."""

    revision: int
    deadline: datetime
    min_count: int
    assignments: tuple[Assignment, ...]
    round: int = 0
    already_placed: int = 0
    repair_window: timedelta = timedelta(seconds=30)
    #: Nothing is to be placed: these members are what is left of a degraded gang, and are to be taken back.
    is_release: bool = False
    #: What an undo would cost the owners of the members, with the fields that would help. Empty in later rounds.
    warnings: tuple[Reason, ...] = ()
    #: The transaction was begun before, and nobody knew of it any more: its members may be bound.
    is_reopened: bool = False
    #: The devices of the members' claims, allocated before anybody is bound.
    claims: tuple[ClaimAllocation, ...] = ()
    #: Pods that are evicted first.
    victims: tuple[Victim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The gang cannot be placed now; nothing is held for it."""

    revision: int
    min_count: int
    existing: int
    placeable: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The gang is bound."""

    members: tuple[Assignment, ...]
    repaired: int = 0
    accepted: int = 0
    open: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The placement was turned down before anything was written."""

    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledBack:
    """What had been written was taken back; `kept` stays bound, because no controller would recreate it."""

    reasons: tuple[Reason, ...]
    undone: tuple[Assignment, ...] = ()
    kept: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairing:
    """Some members need another node, ahead of every newcomer, until `until`."""

    round: int
    bound: tuple[Assignment, ...]
    open: tuple[OpenMember, ...]
    until: datetime
    min_count: int


class DegradedPolicy(StrEnum):
    """What happens to a gang that stays degraded."""

    KEEP = "keep"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Degraded:
    """Fewer members are left of a committed gang than it needs; its repair goes ahead of others `until` then.

    `is_over` takes it back: it has enough again, or nobody is left.
    """

    revision: int
    min_count: int
    placed: int
    until: datetime
    policy: DegradedPolicy = DegradedPolicy.KEEP
    is_over: bool = False
    reasons: tuple[Reason, ...] = ()


DecisionEvent = Proposed | Waiting | Committed | Refused | RolledBack | Repairing | Degraded


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An event about one gang. `transaction` is empty for Waiting and Degraded; `epoch` is 0 without election."""

    gang: GangId
    event: DecisionEvent
    decided_at: datetime
    transaction: TransactionId = TransactionId("")
    epoch: int = 0

    @property
    def ends_transaction(self) -> bool:
        """True for the one event that ends a transaction."""
        return isinstance(self.event, Committed | Refused | RolledBack)


def written_members(event: DecisionEvent) -> tuple[Assignment, ...]:
    """Return the members that were bound when a transaction ended, whatever became of them; none for other events."""
    match event:
        case Committed(members=members):
            return members
        case RolledBack(undone=undone, kept=kept):
            return (*undone, *kept)
        case _:
            return ()
