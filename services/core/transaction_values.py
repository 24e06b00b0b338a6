"""What a transaction is told and what it asks for: the vocabulary of `services.core.transaction`.

Events say what was found in the cluster; instructions say what the shell has to do next. At most one instruction is
outstanding, so the order of answers inside a burst cannot matter.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceId
from services.core.decisions import Assignment, DecisionEvent, Proposed, Victim
from services.core.objects import NodeName, Uid
from services.core.reasons import Reason

Profile = tuple[object, ...]
"""What admission may look at, beside the node; members with equal profiles are refused alike."""


class Stage(StrEnum):
    """How far one member is."""

    PROMISED = "promised"
    """Has a node and is not written yet."""
    OPEN = "open"
    """Needs another node."""
    BOUND = "bound"
    """Bound by this transaction."""
    ACCEPTED = "accepted"
    """Bound by somebody else, and counted where it is."""
    GONE = "gone"
    UNDONE = "undone"


class Found(StrEnum):
    """What a live read says about a member."""

    READY = "ready"
    BOUND = "bound"
    """On a node, by this transaction's annotation."""
    ELSEWHERE = "elsewhere"
    """On a node, and not by us."""
    UNBINDABLE = "unbindable"
    """Exists and cannot be bound: gated, or another scheduler's."""
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A member as it was read. `has_controller` tells whether anybody would recreate it."""

    found: Found
    node: NodeName = NodeName("")
    version: str = ""
    profile: Profile = ()
    has_controller: bool = True
    is_finished: bool = False


class Verdict(StrEnum):
    """The definite answer to one write or dry run."""

    PASSED = "passed"
    """The dry run was accepted."""
    BOUND = "bound"
    ELSEWHERE = "elsewhere"
    GONE = "gone"
    REFUSED = "refused"
    """This member cannot be bound there."""
    FORBIDDEN = "forbidden"
    """We may not bind at all: says nothing about the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A verdict about one member. `is_in_doubt` means that a copy of the write may still arrive late."""

    verdict: Verdict
    node: NodeName = NodeName("")
    version: str = ""
    reason: Reason | None = None
    is_in_doubt: bool = False
    is_finished: bool = False


class Removal(StrEnum):
    """What became of a member that was to be undone."""

    DELETED = "deleted"
    GONE = "gone"
    """Somebody else had removed it."""
    FINISHED = "finished"
    """It ended by itself and holds nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A member as a write addresses it. `version` fences the write."""

    pod: str
    uid: Uid
    node: NodeName
    version: str

    @property
    def key(self) -> Uid:
        """What tells it from other members."""
        return self.uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Examine:
    """Read the members live, and check them against a state at or past `revision`."""

    members: tuple[Assignment, ...]
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Try the bindings as a dry run, repeating what has no definite answer; as Bind, it waits for permission."""

    targets: tuple[Target, ...]
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """Write the bindings and repeat each until its answer is definite; a missing permission is waited for `until`."""

    targets: tuple[Target, ...]
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Change the members, so that a late copy of an earlier write meets a conflict, and read them."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """Take the bound members back."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """Look at members on shared nodes, once the followed state shows them bound."""

    members: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Take single bound members back, for which their node has no room."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Publish what was decided."""

    event: DecisionEvent


class ClaimVerdict(StrEnum):
    """The definite answer about one claim."""

    HELD = "held"
    """It is allocated as promised, and its consumers are reserved."""
    REFUSED = "refused"
    FORBIDDEN = "forbidden"
    """We may not write claims at all: says nothing about the devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    """A verdict about one claim.

    `devices` are those that its consumers must not get in this transaction. `is_untouched` means that nothing of the
    claim was written, and nothing can still arrive.
    """

    verdict: ClaimVerdict
    reason: Reason | None = None
    devices: tuple[DeviceId, ...] = ()
    is_node_excluded: bool = False
    is_untouched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTarget:
    """A claim to be written: `consumers` are reserved. `is_movable`: none of them is bound, and devices may change."""

    key: str
    allocation: ClaimAllocation
    consumers: tuple[Assignment, ...]
    is_movable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeTarget:
    """A claim of which `leaving` are no users any more; without any other, its devices are freed if they are ours."""

    key: str
    allocation: ClaimAllocation
    leaving: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocate:
    """Allocate and reserve claims, repeating each until its answer is definite; as Bind, it waits for permission."""

    targets: tuple[ClaimTarget, ...]
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Wait for the binding conditions of the devices (KEP-5007), at most `until`. It writes nothing."""

    targets: tuple[ClaimTarget, ...]
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Free:
    """Take back what claims hold for members that were never bound, and make late copies of earlier writes void."""

    targets: tuple[FreeTarget, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Evict the victims and wait `until` they are gone. `is_begun`: an earlier try may have evicted some already."""

    victims: tuple[Victim, ...]
    until: datetime
    is_begun: bool


Instruction = Examine | Probe | Evict | Allocate | Prepare | Bind | Fence | Free | Undo | Recheck | Withdraw | Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Answer to Examine.

    `beside` counts placed members of the gang that are not in this transaction; `shared` are the nodes of members that
    other schedulers use too.
    """

    readings: Mapping[Uid, Reading]
    misfits: Mapping[Uid, Reason] = field(default_factory=dict)
    beside: int = 0
    allows_delete: bool = False
    shared: frozenset[NodeName] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Answer to Probe."""

    answers: Mapping[Uid, Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Answer to Bind."""

    answers: Mapping[Uid, Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Answer to Fence."""

    readings: Mapping[Uid, Reading]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Answer to Undo."""

    removals: Mapping[Uid, Removal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rechecked:
    """Answer to Recheck: the members that have to give way."""

    collided: Mapping[Uid, Reason]


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Answer to Withdraw."""

    removals: Mapping[Uid, Removal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Answer to Publish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """Answer to Evict: the victims that stay, with why. `is_untouched`: not one of them was evicted."""

    staying: Mapping[Uid, Reason] = field(default_factory=dict)
    is_untouched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproposed:
    """The placer proposed a later round."""

    proposal: Proposed


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The followed cluster shows these members gone, and so many placed members beside the transaction's."""

    lost: frozenset[Uid]
    beside: int
    allows_delete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed. `problems` is what the outstanding instruction has been waiting for."""

    problems: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocated:
    """Answer to Allocate.

    `versions` are those of members that had to be written for their claims, `refs` the claims as they were found.
    """

    answers: Mapping[str, ClaimAnswer]
    refs: Mapping[str, ClaimRef] = field(default_factory=dict)
    versions: Mapping[Uid, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Answer to Prepare: the claims whose devices will not become ready, or did not in time."""

    failures: Mapping[str, ClaimAnswer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """Answer to Free: the claims that hold nothing of ours for those members any more."""

    keys: frozenset[str]


Event = (
    Examined
    | Probed
    | Evicted
    | Allocated
    | Prepared
    | Written
    | Fenced
    | Freed
    | Removed
    | Rechecked
    | Withdrawn
    | Published
    | Reproposed
    | Followed
    | Ticked
)
