"""One member of a transaction, and how answers from the cluster change it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from services.core.allocations import DeviceId
from services.core.decisions import Assignment
from services.core.objects import NodeName
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_values import (
    Answer,
    Found,
    Profile,
    Reading,
    Removal,
    Stage,
    Target,
    Verdict,
)

MAX_REASONS = 20
"""Distinct reasons that a decision lists; members that failed alike share one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One pod of a transaction.

    `version` fences the next write. `is_in_doubt` means that a copy of an earlier write may still arrive late, so the
    member is fenced before anything rests on its not being bound. What is excluded grows over the transaction.
    """

    assignment: Assignment
    stage: Stage = Stage.PROMISED
    version: str = ""
    profile: Profile = ()
    has_controller: bool = True
    excluded_nodes: frozenset[NodeName] = frozenset()
    excluded_devices: frozenset[DeviceId] = frozenset()
    reason: Reason | None = None
    is_examined: bool = False
    is_probed: bool = False
    is_repaired: bool = False
    is_finished: bool = False
    is_in_doubt: bool = False
    #: On a node that other schedulers use too, and whether it was looked at after it was bound there.
    is_shared: bool = False
    is_rechecked: bool = False

    @property
    def counts(self) -> bool:
        """True where the member is on a node for good."""
        return self.stage in {Stage.BOUND, Stage.ACCEPTED}


def newcomer(assignment: Assignment, *, is_in_doubt: bool = False) -> Member:
    """Return a member as the placer promised it."""
    return Member(assignment=assignment, is_in_doubt=is_in_doubt)


def target_of(member: Member) -> Target:
    """Return the member as a write addresses it."""
    one = member.assignment
    return Target(pod=one.pod, uid=one.uid, node=one.node, version=member.version)


def assigned(member: Member, assignment: Assignment) -> Member:
    """Return the member as a later round promises it; what is bound or gone stays so."""
    if member.stage not in {Stage.PROMISED, Stage.OPEN}:
        return member
    # Time has passed since the last look: what is not bound is checked again, and tried again where it is new.
    is_same = member.stage is Stage.PROMISED and member.assignment.node == assignment.node
    return replace(
        member,
        assignment=assignment,
        stage=Stage.PROMISED,
        reason=None,
        is_examined=False,
        is_probed=member.is_probed and is_same,
        is_repaired=member.is_repaired or not is_same,
    )


def opened(member: Member, reason: Reason | None, *, is_node_excluded: bool) -> Member:
    """Return the member as one that needs another node, for ever in this transaction."""
    excluded = member.excluded_nodes | ({member.assignment.node} if is_node_excluded else frozenset())
    return replace(member, stage=Stage.OPEN, reason=reason, excluded_nodes=excluded)


def gone(member: Member, *, reason: Reason | None = None) -> Member:
    """Return the member as one that will not run. A late copy of a write to it must fail, so no doubt is left."""
    given = reason or Reason(code=ReasonCode.MEMBER_GONE, message=f"pod {member.assignment.pod} is gone", count=1)
    return replace(member, stage=Stage.GONE, reason=given, is_in_doubt=False)


def after_reading(member: Member, reading: Reading, *, is_fenced: bool) -> Member:
    """Return the member as it was read. A fence changed it first, so a copy of an earlier write is void."""
    if member.stage in {Stage.GONE, Stage.UNDONE}:
        return member
    member = replace(
        member,
        version=reading.version,
        profile=reading.profile,
        has_controller=reading.has_controller,
        is_finished=reading.is_finished,
        is_in_doubt=member.is_in_doubt and not is_fenced,
    )
    match reading.found:
        case Found.READY:
            return member
        case Found.BOUND:
            return _placed(member, Stage.BOUND, node=reading.node)
        case Found.ELSEWHERE:
            return _placed(member, Stage.ACCEPTED, node=reading.node)
        case Found.UNBINDABLE:
            text = f"pod {member.assignment.pod} carries scheduling gates or names another scheduler"
            reason = Reason(code=ReasonCode.PLACEMENT_STALE, message=text, count=1, subject=member.assignment.pod)
            return opened(member, reason, is_node_excluded=False)
        case Found.GONE:
            return gone(member)


def after_answer(member: Member, answer: Answer) -> Member:
    """Return the member after the definite answer to a write or dry run."""
    if member.stage in {Stage.GONE, Stage.UNDONE}:
        return member
    member = replace(
        member,
        version=answer.version or member.version,
        is_finished=answer.is_finished,
        is_in_doubt=member.is_in_doubt or answer.is_in_doubt,
    )
    match answer.verdict:
        case Verdict.PASSED:
            return replace(member, is_probed=True)
        case Verdict.BOUND:
            return _placed(member, Stage.BOUND, node=answer.node)
        case Verdict.ELSEWHERE:
            return _placed(member, Stage.ACCEPTED, node=answer.node)
        case Verdict.GONE:
            return gone(member, reason=answer.reason)
        case Verdict.REFUSED:
            return opened(member, answer.reason, is_node_excluded=True)
        case Verdict.FORBIDDEN:
            return opened(member, answer.reason, is_node_excluded=False)


def after_removal(member: Member, removal: Removal, *, is_repeated: bool = False) -> Member:
    """Return the member after it was taken back; `is_repeated` where that was begun before, and perhaps done."""
    match removal:
        case Removal.DELETED:
            return replace(member, stage=Stage.UNDONE)
        case Removal.GONE if is_repeated:
            return replace(member, stage=Stage.UNDONE)
        case Removal.GONE:
            return gone(member)
        case Removal.FINISHED:
            return replace(member, is_finished=True)


def reasons_of(members: Iterable[Member]) -> tuple[Reason, ...]:
    """Return why members failed: one reason for each code and subject, with the number of members."""
    found: dict[tuple[ReasonCode, str], Reason] = {}
    for member in members:
        reason = member.reason
        if reason is None or member.counts:
            continue
        key = (reason.code, reason.subject)
        known = found.get(key)
        found[key] = reason if known is None else replace(known, count=known.count + max(reason.count, 1))
    return tuple(sorted(found.values(), key=lambda one: -one.count))[:MAX_REASONS]


def _placed(member: Member, stage: Stage, *, node: NodeName) -> Member:
    """Return the member on a node; it may be another than was promised, where a write of an earlier round won."""
    assignment = replace(member.assignment, node=node or member.assignment.node)
    return replace(member, stage=stage, assignment=assignment, reason=None, is_in_doubt=False)
