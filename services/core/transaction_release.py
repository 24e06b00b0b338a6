"""Taking back what is left of a gang that was degraded for too long: a transaction that binds nothing."""

from dataclasses import replace

from services.core.reasons import Reason, ReasonCode
from services.core.transaction_reasons import kept_reason
from services.core.transaction_state import TransactionState
from services.core.transaction_values import Stage


def released(state: TransactionState) -> TransactionState:
    """Return the state to be ended: with all that is left of the gang to be taken back, or with nothing.

    Nothing is taken back where the gang has recovered meanwhile, or where nobody would recreate some of its pods.
    """
    left = tuple(one for one in state.members.values() if one.counts and not one.is_finished)
    orphans = tuple(one for one in left if not one.has_controller)
    if state.counted >= state.min_count:
        text = f"{state.counted} of the {state.min_count} needed pods are there again"
        reason, stage = Reason(code=ReasonCode.PLACEMENT_STALE, message=text, count=state.counted), Stage.ACCEPTED
    elif orphans and not state.allows_delete:
        reason, stage = kept_reason(orphans, of=len(left)), Stage.ACCEPTED
    else:
        text = (
            f"{state.counted} of the {state.min_count} needed pods were left, and the others could not be had in time"
        )
        reason, stage = Reason(code=ReasonCode.DEGRADED_TOO_LONG, message=text, count=state.counted), Stage.BOUND
    # Whoever bound them, also an earlier transaction: an undo takes back what counts as bound.
    members = {one.assignment.uid: replace(one, stage=stage) for one in left}
    return replace(state.with_members(members), end_reasons=state.end_reasons or (reason,))
