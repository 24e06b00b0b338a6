"""What is known of one transaction at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from services.core.decisions import DecisionEvent, Proposed, Repairing, RolledBack
from services.core.objects import GangId, TransactionId, Uid
from services.core.reasons import Reason
from services.core.transaction_claims import CONDITION_PATIENCE, Claim
from services.core.transaction_members import Member
from services.core.transaction_values import Profile, Stage


class Step(StrEnum):
    """Which answer the transaction waits for."""

    EXAMINING = "examining"
    PROBING = "probing"
    EVICTING = "evicting"
    """Victims are evicted, and waited for."""
    CLAIMING = "claiming"
    PREPARING = "preparing"
    """For devices to become ready."""
    BINDING = "binding"
    FENCING = "fencing"
    FREEING = "freeing"
    """Of claims."""
    WAITING = "waiting"
    """For the next round, or for the end of the repair window."""
    UNDOING = "undoing"
    PUBLISHING = "publishing"
    OVER = "over"


LONG_WAITS = frozenset({Step.EVICTING, Step.PREPARING})
"""Steps that may take minutes: what is lost meanwhile may be what is waited for."""


class Phase(StrEnum):
    """How far a transaction is, for people; spelled as in phalanx.binding.v1."""

    RECEIVED = "received"
    CHECKED = "checked"
    EVICTING = "evicting"
    CLAIMS = "claims"
    BINDING = "binding"
    REPAIRING = "repairing"
    UNDOING = "undoing"
    COMMITTED = "committed"
    REFUSED = "refused"
    ROLLED_BACK = "rolled_back"


_PHASES: Mapping[Step, Phase] = {
    Step.EXAMINING: Phase.RECEIVED,
    Step.PROBING: Phase.CHECKED,
    Step.EVICTING: Phase.EVICTING,
    Step.CLAIMING: Phase.CLAIMS,
    Step.PREPARING: Phase.CLAIMS,
    Step.FREEING: Phase.CLAIMS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """One transaction. `proposal` is the round in hand, with minCount, window and deadline of the first."""

    id: TransactionId
    gang: GangId
    proposal: Proposed
    started_at: datetime
    members: Mapping[Uid, Member]
    step: Step = Step.EXAMINING
    #: Placed members of the gang that are not in this transaction.
    beside: int = 0
    allows_delete: bool = False
    #: End of the repair window; set once, at the first repair, and moved only for pods that must not be deleted.
    until: datetime | None = None
    #: Highest round that the placer published, that was taken, and that a Repairing named.
    round_seen: int = 0
    round_handled: int = 0
    round_published: int = -1
    #: Every binding is tried as a dry run first.
    is_cautious: bool = False
    #: An earlier process may have written, and the members have not been read since.
    may_have_written: bool = False
    #: The transaction is being ended and waits for fences only.
    is_ending: bool = False
    #: In repair only because nobody would recreate its pods.
    is_keeping: bool = False
    #: What is being published, or was published last.
    ending: DecisionEvent | None = None
    #: A round that arrived while Repairing was being published.
    reproposed: Proposed | None = None
    #: By `transaction_claims.claim_key`.
    claims: Mapping[str, Claim] = field(default_factory=dict)
    #: Until when the devices in hand may take to become ready; set when that is first waited for.
    prepare_until: datetime | None = None
    #: Until when victims may take to go; set when the first of them may have been evicted.
    evict_until: datetime | None = None
    condition_patience: timedelta = CONDITION_PATIENCE
    #: Why it is being ended.
    end_reasons: tuple[Reason, ...] = ()

    @property
    def min_count(self) -> int:
        """Members that must run, frozen at the first round."""
        return self.proposal.min_count

    @property
    def counted(self) -> int:
        """Members of the gang that are on nodes."""
        return self.beside + sum(one.counts for one in self.members.values())

    @property
    def attainable(self) -> int:
        """Members that are on nodes or have one promised."""
        return self.counted + len(self.in_stage(Stage.PROMISED))

    @property
    def written(self) -> bool:
        """True where a member of the transaction is bound."""
        return any(one.counts for one in self.members.values())

    @property
    def is_first_try(self) -> bool:
        """True where nothing is bound, nobody evicted, and nothing was asked of the placer yet."""
        is_untouched = not self.written and self.evict_until is None
        return is_untouched and self.until is None and self.round_published < 0

    @property
    def phase(self) -> Phase:
        """How far the transaction is, for people."""
        if self.step in {Step.PUBLISHING, Step.OVER} and not isinstance(self.ending, Repairing):
            name = type(self.ending).__name__
            return {"Committed": Phase.COMMITTED, "RolledBack": Phase.ROLLED_BACK}.get(name, Phase.REFUSED)
        if self.step is Step.UNDOING or isinstance(self.ending, RolledBack):
            return Phase.UNDOING
        if self.until is not None and self.step is not Step.BINDING:
            return Phase.REPAIRING
        return _PHASES.get(self.step, Phase.BINDING)

    def in_stage(self, stage: Stage) -> tuple[Member, ...]:
        """Return the members in a stage."""
        return tuple(one for one in self.members.values() if one.stage is stage)

    def untried(self, promised: tuple[Member, ...]) -> tuple[Member, ...]:
        """Return the members to try as a dry run: one of each profile, or all where something was refused before."""
        untried = tuple(one for one in promised if not one.is_probed)
        if self.is_cautious:
            return untried
        known = {one.profile for one in self.members.values() if one.is_probed}
        first: dict[Profile, Member] = {}
        for one in untried:
            if one.profile not in known:
                first.setdefault(one.profile, one)
        return tuple(first.values())

    def doubtful(self, *stages: Stage) -> tuple[Member, ...]:
        """Return the members in these stages for which a late write may still arrive."""
        return tuple(one for one in self.members.values() if one.is_in_doubt and one.stage in stages)

    def with_members(self, changed: Mapping[Uid, Member]) -> "TransactionState":
        """Return the state with some members changed or added."""
        return replace(self, members={**self.members, **changed}) if changed else self

    def with_claims(self, changed: Mapping[str, Claim]) -> "TransactionState":
        """Return the state with some claims changed."""
        return replace(self, claims={**self.claims, **changed}) if changed else self
