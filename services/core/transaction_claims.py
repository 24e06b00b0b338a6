"""The claims of a transaction: which are to be allocated, which have to be freed, and what answers change.

Claims are written after the last dry run and before the first binding, and freed before the transaction asks for other
nodes or ends: of every member that was never bound, and of no other, for a bound pod's claims are freed by the claim
controller when the pod is gone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from services.core.allocations import ClaimAllocation, ClaimRef
from services.core.decisions import Assignment
from services.core.objects import Uid
from services.core.transaction_members import Member, opened
from services.core.transaction_values import (
    Allocate,
    Allocated,
    ClaimTarget,
    ClaimVerdict,
    Free,
    FreeTarget,
    Prepare,
    Prepared,
    Stage,
)

if TYPE_CHECKING:
    from services.core.transaction_state import TransactionState

CONDITION_PATIENCE = timedelta(seconds=600)
"""How long binding conditions are waited for where nothing else is said, as kube-scheduler does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of a transaction.

    `is_in_doubt`: something of it may have been written, or may still arrive, so that it is looked at and freed before
    anything rests on its being free. `is_ready`: the binding conditions of its devices are true.
    """

    allocation: ClaimAllocation
    is_held: bool = False
    is_in_doubt: bool = False
    is_ready: bool = False

    @property
    def is_touched(self) -> bool:
        """True where something of it may be ours."""
        return self.is_held or self.is_in_doubt

    @property
    def waits(self) -> bool:
        """True where devices have to become ready first."""
        return not self.is_ready and any(one.binding_conditions for one in self.allocation.results)


_BOUND_ONCE = (Stage.BOUND, Stage.ACCEPTED, Stage.UNDONE)


def claim_key(ref: ClaimRef) -> str:
    """Return what identifies a claim within a gang, the same before and after it exists."""
    return f"{ref.pod}/{ref.entry}" if ref.pod else ref.name


def proposed_claims(
    known: Mapping[str, Claim], allocations: Iterable[ClaimAllocation], *, is_in_doubt: bool
) -> dict[str, Claim]:
    """Return the claims as a round proposes them, beside those of rounds before.

    What is held as it is proposed stays held. A claim that is allocated already, and only has to be reserved, is looked
    at again.
    """
    found = dict(known)
    for one in allocations:
        key = claim_key(one.ref)
        before = found.get(key)
        if before is None:
            found[key] = Claim(allocation=one, is_in_doubt=is_in_doubt)
        elif before.is_held and one.results and _gives_the_same(before.allocation, one):
            is_covered = frozenset(one.consumers) <= frozenset(before.allocation.consumers)
            found[key] = replace(before, allocation=one, is_held=is_covered, is_in_doubt=True)
        else:
            found[key] = replace(before, allocation=one, is_held=False, is_ready=False)
    return found


def _gives_the_same(one: ClaimAllocation, other: ClaimAllocation) -> bool:
    return (one.results, one.node, one.node_selector_json) == (other.results, other.node, other.node_selector_json)


def claiming(state: "TransactionState", *, until: datetime) -> tuple["TransactionState", Allocate] | None:
    """Have the claims of promised members allocated and reserved; None where all are."""
    owed = {
        key: one
        for key, one in state.claims.items()
        if not one.is_held
        and _consumers(state, one, Stage.PROMISED, Stage.BOUND, Stage.ACCEPTED, wanted=Stage.PROMISED)
    }
    if not owed:
        return None
    targets = tuple(
        ClaimTarget(
            key=key,
            allocation=one.allocation,
            consumers=_consumers(state, one, Stage.PROMISED, Stage.BOUND, Stage.ACCEPTED, wanted=Stage.PROMISED),
            is_movable=not _consumers(state, one, Stage.BOUND, Stage.ACCEPTED),
        )
        for key, one in owed.items()
    )
    marked = {key: replace(one, is_in_doubt=True) for key, one in owed.items()}
    return state.with_claims(marked), Allocate(targets=targets, until=until)


def preparing(state: "TransactionState", *, now: datetime) -> tuple["TransactionState", Prepare] | None:
    """Have the binding conditions of promised members' devices waited for; None where there are none left."""
    waiting = {
        key: one
        for key, one in state.claims.items()
        if one.is_held and one.waits and _consumers(state, one, Stage.PROMISED)
    }
    if not waiting:
        return None
    until = state.prepare_until or now + state.condition_patience
    targets = tuple(
        ClaimTarget(
            key=key, allocation=one.allocation, consumers=_consumers(state, one, Stage.PROMISED), is_movable=False
        )
        for key, one in waiting.items()
    )
    return replace(state, prepare_until=until), Prepare(targets=targets, until=until)


def allocated(state: "TransactionState", event: Allocated) -> "TransactionState":
    """Return the state after answers about claims: promised consumers of a refused one need another placement."""
    claims: dict[str, Claim] = {}
    members: dict[Uid, Member] = {
        uid: replace(state.members[uid], version=version) for uid, version in event.versions.items()
    }
    for key, answer in event.answers.items():
        claim = state.claims[key]
        ref = event.refs.get(key, claim.allocation.ref)
        claim = replace(claim, allocation=replace(claim.allocation, ref=ref))
        is_held = answer.verdict is ClaimVerdict.HELD
        claims[key] = replace(claim, is_held=is_held, is_in_doubt=is_held or not answer.is_untouched)
        if is_held:
            continue
        for member in _refused(state.with_members(members), claim):
            turned = replace(member, excluded_devices=member.excluded_devices | frozenset(answer.devices))
            reason = answer.reason
            members[member.assignment.uid] = opened(turned, reason, is_node_excluded=answer.is_node_excluded)
    return state.with_members(members).with_claims(claims)


def prepared(state: "TransactionState", event: Prepared) -> "TransactionState":
    """Return the state after the wait for devices: time has passed, and what is still promised is checked again."""
    claims = {
        key: replace(one, is_ready=True)
        for key, one in state.claims.items()
        if one.is_held and one.waits and key not in event.failures
    }
    members: dict[Uid, Member] = {}
    for key, answer in event.failures.items():
        for member in _refused(state.with_members(members), state.claims[key]):
            turned = replace(member, excluded_devices=member.excluded_devices | frozenset(answer.devices))
            members[member.assignment.uid] = opened(turned, answer.reason, is_node_excluded=False)
    state = state.with_members(members).with_claims(claims)
    stale = {one.assignment.uid: replace(one, is_examined=False) for one in state.in_stage(Stage.PROMISED)}
    # The next wait, of another placement, has a time of its own.
    return replace(state.with_members(stale), prepare_until=None)


def freeing(state: "TransactionState", *, is_final: bool) -> Free | None:
    """Have claims freed of which members that were never bound hold something; None where there are none.

    While the transaction goes on, a claim that others of its members use stays as it is; at its end their reservations
    alone are taken back. What members that are gone held is freed by the claim controller, as they are; but not what
    belongs to their group, which is still there.
    """
    unbound = (Stage.OPEN, Stage.PROMISED) if is_final else (Stage.OPEN,)
    others = _BOUND_ONCE if is_final else (*_BOUND_ONCE, Stage.PROMISED)
    targets = []
    for key, one in state.claims.items():
        leaving = _consumers(state, one, *unbound)
        if one.allocation.is_of_group:
            leaving += tuple(each for each in _consumers(state, one, Stage.GONE) if not _was_bound(state, each.uid))
        is_used = bool(_consumers(state, one, *others))
        is_kept = is_used and (one.allocation.is_of_group or not is_final)
        if one.is_touched and leaving and not is_kept:
            targets.append(FreeTarget(key=key, allocation=one.allocation, leaving=leaving))
    return Free(targets=tuple(targets)) if targets else None


def _was_bound(state: "TransactionState", uid: Uid) -> bool:
    """Tell whether a member that is gone was one that gave way on a shared node: it may still be ending there."""
    return state.members[uid].is_rechecked


def freed(state: "TransactionState", keys: Iterable[str]) -> "TransactionState":
    """Return the state after claims were freed; writes of before that arrive later meet a conflict."""
    return state.with_claims(
        {
            key: replace(state.claims[key], is_held=False, is_in_doubt=False, is_ready=False)
            for key in keys
            if key in state.claims
        }
    )


def _refused(state: "TransactionState", claim: Claim) -> tuple[Member, ...]:
    users = frozenset(claim.allocation.consumers)
    return tuple(one for one in state.in_stage(Stage.PROMISED) if one.assignment.uid in users)


def _consumers(
    state: "TransactionState", claim: Claim, *stages: Stage, wanted: Stage | None = None
) -> tuple[Assignment, ...]:
    """Return the consumers in these stages; none where nobody of them is in the `wanted` one."""
    found = [
        member
        for uid in claim.allocation.consumers
        if (member := state.members.get(uid)) is not None and member.stage in stages
    ]
    if wanted is not None and all(one.stage is not wanted for one in found):
        return ()
    return tuple(one.assignment for one in found)
