"""The sentences of a transaction: why it ended, what it waits for, and what a person can do about it."""

from collections.abc import Iterable
from datetime import datetime

from services.core.decisions import Assignment
from services.core.reasons import Reason, ReasonCode
from services.core.transaction_members import Member, reasons_of
from services.core.transaction_state import TransactionState


def ending_reasons(state: TransactionState, *, now: datetime) -> tuple[Reason, ...]:
    """Return why a transaction is given up now."""
    found = reasons_of(state.members.values())
    if state.until is None or now < state.until:
        return found
    text = f"{state.counted} of the {state.min_count} needed pods could be had within the repair window"
    return (Reason(code=ReasonCode.REPAIR_WINDOW_EXPIRED, message=text, count=state.counted), *found)


def deadline_exceeded(state: TransactionState) -> Reason:
    """Return the reason of a transaction that wrote nothing in time."""
    text = f"nothing was bound by the deadline {state.proposal.deadline.isoformat(timespec='seconds')}"
    return Reason(code=ReasonCode.DEADLINE_EXCEEDED, message=text)


def member_gone(assignment: Assignment) -> Reason:
    """Return the reason of a member that the cluster shows as deleted, replaced or failed."""
    return Reason(code=ReasonCode.MEMBER_GONE, message=f"pod {assignment.pod} is gone", count=1)


def kept_reason(orphans: Iterable[Member], *, of: int) -> Reason:
    """Return why bound pods stay although their gang cannot be had."""
    names = [one.assignment.pod for one in orphans]
    shown = ", ".join(names[:3]) + ("" if len(names) <= 3 else ", ...")  # noqa: PLR2004 - enough to find them
    text = (
        f"{len(names)} of the {of} bound pods have no controller that would recreate them ({shown}), so they stay; "
        'delete them, make room, or set the annotation phalanx.dev/allow-delete: "true" on the PodGroup'
    )
    return Reason(code=ReasonCode.KEPT_WITHOUT_CONTROLLER, message=text, count=len(names))
