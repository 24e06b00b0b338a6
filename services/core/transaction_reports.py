"""What Kubernetes shows of a decision: conditions of the group and its members, and one event.

Pure: the shell compares these with the live objects, so that telling the same twice writes nothing.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.core.decisions import (
    Committed,
    Decision,
    Degraded,
    DegradedPolicy,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Victim,
    Waiting,
)
from services.core.names import (
    CONDITION_COMMITTED,
    CONDITION_DEGRADED,
    CONDITION_INITIALLY_SCHEDULED,
    CONDITION_REPAIRING,
)
from services.core.objects import GangId, Owner
from services.core.reasons import Reason, ReasonCode, codes, summary

POD_SCHEDULED = "PodScheduled"
UNSCHEDULABLE = "Unschedulable"
"""The reason at which node autoscalers act."""
HELPED_BY_ROOM = frozenset({ReasonCode.INSUFFICIENT_CAPACITY, ReasonCode.INSUFFICIENT_RESOURCE, ReasonCode.NO_NODES})
"""Reasons that new nodes can end."""

MAX_MESSAGE_CHARACTERS = 1024
"""Events take no more."""

MAX_VICTIMS_SHOWN = 5
MAX_VICTIMS_TOLD = 512
"""Victims that get an event of their own."""

Condition = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWrite:
    """A condition as it should stand.

    `only_if_present` is for conditions whose absence says the same; `never_from_true` for those that stay true.
    """

    type: str
    is_true: bool
    reason: str
    message: str = ""
    only_if_present: bool = False
    never_from_true: bool = False

    @property
    def status(self) -> str:
        """The status as the API spells it."""
        return "True" if self.is_true else "False"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNote:
    """An event about the gang. Equal `key`s are the same event happening again."""

    reason: str
    message: str
    is_warning: bool
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that one decision shows. `of_members` goes to each member that waits for a node."""

    gang: GangId
    decided_at: datetime
    event: EventNote
    of_group: tuple[ConditionWrite, ...] = ()
    of_members: ConditionWrite | None = None
    revision: int = 0
    #: What pods are told that make room for the gang.
    of_victims: EventNote | None = None
    victims: tuple[Victim, ...] = ()


def report_of(decision: Decision) -> Report | None:
    """Return what a decision shows, or None where it shows nothing."""
    match decision.event:
        case Proposed(victims=victims) as event if victims:
            return _preempting(decision, event)
        case Proposed(warnings=warnings) if warnings:
            return _warned(decision, warnings)
        case Waiting() as event:
            return _waiting(decision, event)
        case Committed() as event:
            return _committed(decision, event)
        case Repairing() as event:
            return _repairing(decision, event)
        case Degraded() as event:
            return _degraded(decision, event)
        case Refused(reasons=reasons) | RolledBack(reasons=reasons):
            return _failed(decision, reasons)
        case _:
            return None


def changed_conditions(
    wanted: Iterable[ConditionWrite], *, present: Iterable[Condition], now: str
) -> tuple[dict[str, Any], ...]:
    """Return the conditions to write, as the API takes them; empty where all stand as they should."""
    by_type = {str(one.get("type")): one for one in present}
    changed = []
    for one in wanted:
        known = by_type.get(one.type)
        if known is None and one.only_if_present:
            continue
        if known is not None and one.never_from_true and known.get("status") == "True":
            continue
        if known is not None and _says(known) == (one.status, one.reason, one.message):
            continue
        is_same_status = known is not None and known.get("status") == one.status
        since = known.get("lastTransitionTime") if known is not None and is_same_status else None
        changed.append(
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "lastTransitionTime": since or now,
            }
        )
    return tuple(changed)


def event_name(note: EventNote, *, about: str, uid: str) -> str:
    """Return the event's name: the same for the same event about the same object, so that it is never told twice."""
    digest = hashlib.blake2s(f"{uid} {note.key}".encode()).hexdigest()[:16]
    return f"{about[:200].rstrip('.-')}.{digest}"


def controllers_of(owners: Iterable[Owner], *, most: int = 3) -> tuple[Owner, ...]:
    """Return the distinct controlling owners; a gang has one, rarely more."""
    found = {owner.uid: owner for owner in owners if owner.is_controller}
    return tuple(found.values())[:most]


def _waiting(decision: Decision, event: Waiting) -> Report:
    text = _shortened(summary(event.reasons))
    return Report(
        gang=decision.gang,
        decided_at=decision.decided_at,
        event=EventNote(
            reason=_first_code(event.reasons, otherwise=UNSCHEDULABLE),
            message=text,
            is_warning=True,
            key=f"waiting {sorted(codes(event.reasons))}",
        ),
        of_group=(
            ConditionWrite(
                type=CONDITION_INITIALLY_SCHEDULED,
                is_true=False,
                reason=UNSCHEDULABLE,
                message=text,
                never_from_true=True,
            ),
        ),
        of_members=ConditionWrite(
            type=POD_SCHEDULED, is_true=False, reason=_member_reason(event.reasons), message=text
        ),
        revision=event.revision,
    )


def _member_reason(reasons: tuple[Reason, ...]) -> str:
    """Return the reason of members' PodScheduled: Unschedulable only where more room would help.

    At that word node autoscalers add nodes, which are of no use to a gang that lacks members or a readable setting.
    """
    if any(reason.code in HELPED_BY_ROOM for reason in reasons):
        return UNSCHEDULABLE
    return _first_code(reasons, otherwise=UNSCHEDULABLE)


def _preempting(decision: Decision, event: Proposed) -> Report:
    """Return what is told of victims, which need a word about why they end; the warnings are told in the same event."""
    names = [f"{one.namespace}/{one.pod}" for one in event.victims]
    shown = ", ".join(names[:MAX_VICTIMS_SHOWN]) + (", ..." if len(names) > MAX_VICTIMS_SHOWN else "")
    text = f"{len(names)} pods of lower priority are to make room: {shown}"
    warnings = f"; {summary(event.warnings)}" if event.warnings else ""
    return Report(
        gang=decision.gang,
        decided_at=decision.decided_at,
        event=EventNote(
            reason="Preempting",
            message=_shortened(text + warnings),
            is_warning=bool(event.warnings),
            key=f"preempting {decision.transaction} {event.round}",
        ),
        of_victims=EventNote(
            reason="Preempted",
            message=f"to be evicted: {decision.gang}, which has a higher priority, gets its place",
            is_warning=True,
            key=f"preempted {decision.transaction}",
        ),
        victims=event.victims[:MAX_VICTIMS_TOLD],
    )


def _warned(decision: Decision, warnings: tuple[Reason, ...]) -> Report:
    return Report(
        gang=decision.gang,
        decided_at=decision.decided_at,
        event=EventNote(
            reason=warnings[0].code.value,
            message=_shortened(summary(warnings)),
            is_warning=True,
            key=f"warned {sorted(codes(warnings))}",
        ),
    )


def _committed(decision: Decision, event: Committed) -> Report:
    extras = [f"{event.repaired} repaired"] if event.repaired else []
    extras += [f"{event.accepted} bound by others"] if event.accepted else []
    extras += [f"{event.open} still open"] if event.open else []
    text = f"{len(event.members)} pods are bound" + (f" ({', '.join(extras)})" if extras else "")
    return Report(
        gang=decision.gang,
        decided_at=decision.decided_at,
        event=EventNote(reason="Committed", message=text, is_warning=False, key=f"committed {decision.transaction}"),
        of_group=(
            ConditionWrite(type=CONDITION_INITIALLY_SCHEDULED, is_true=True, reason="Scheduled"),
            ConditionWrite(type=CONDITION_COMMITTED, is_true=True, reason="Committed", message=text),
            _not_repairing("Committed"),
            ConditionWrite(type=CONDITION_DEGRADED, is_true=False, reason="Committed", only_if_present=True),
        ),
    )


def _repairing(decision: Decision, event: Repairing) -> Report:
    reasons = tuple(one.reason for one in event.open if one.reason is not None)
    why = f": {reasons[0].message}" if reasons else ""
    text = f"Repairing, {len(event.bound)} of {event.min_count}"
    code = _first_code(reasons, otherwise="Repairing")
    return Report(
        gang=decision.gang,
        decided_at=decision.decided_at,
        event=EventNote(
            reason=code,
            message=_shortened(text + why),
            is_warning=True,
            key=f"repairing {decision.transaction} {sorted({one.code.value for one in reasons})}",
        ),
        of_group=(ConditionWrite(type=CONDITION_REPAIRING, is_true=True, reason=code, message=_shortened(text + why)),),
    )


def _degraded(decision: Decision, event: Degraded) -> Report:
    if event.is_over:
        note = f"{event.placed} of the {event.min_count} needed pods are there"
        reason, is_warning, key = "Recovered", False, f"recovered {event.until}"
    else:
        after = "released" if event.policy is DegradedPolicy.RELEASE else "kept as it is"
        until = f"; repaired ahead of others until {event.until:%H:%M:%S} UTC, then {after}"
        is_late = any(one.code is ReasonCode.DEGRADED_TOO_LONG for one in event.reasons)
        note = summary(event.reasons) + ("" if is_late else until)
        reason, is_warning = _first_code(event.reasons, otherwise="QuorumLost"), True
        key = f"degraded {event.until} {sorted(codes(event.reasons))}"
    return Report(
        gang=decision.gang,
        decided_at=decision.decided_at,
        event=EventNote(reason=reason, message=_shortened(note), is_warning=is_warning, key=key),
        of_group=(
            ConditionWrite(type=CONDITION_DEGRADED, is_true=not event.is_over, reason=reason, message=_shortened(note)),
        ),
        revision=event.revision,
    )


def _failed(decision: Decision, reasons: tuple[Reason, ...]) -> Report:
    text = _shortened(summary(reasons))
    name = "rolled back" if isinstance(decision.event, RolledBack) else "refused"
    code = _first_code(reasons, otherwise="RolledBack" if name == "rolled back" else "Refused")
    return Report(
        gang=decision.gang,
        decided_at=decision.decided_at,
        event=EventNote(
            reason=code,
            message=_shortened(f"the placement was {name}: {text}"),
            is_warning=True,
            key=f"{name} {sorted(codes(reasons))}",
        ),
        of_group=(
            ConditionWrite(type=CONDITION_COMMITTED, is_true=False, reason=code, message=text),
            _not_repairing(code),
        ),
    )


def _not_repairing(reason: str) -> ConditionWrite:
    return ConditionWrite(type=CONDITION_REPAIRING, is_true=False, reason=reason, only_if_present=True)


def _says(condition: Condition) -> tuple[object, object, object]:
    return condition.get("status"), condition.get("reason") or "", condition.get("message") or ""


def _first_code(reasons: tuple[Reason, ...], *, otherwise: str) -> str:
    return reasons[0].code.value if reasons else otherwise


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 3] + "..."
