"""Going on where another process ended: what a journal entry says before an instruction, and what to do after it.

An entry is written before its instruction is carried out, so at worst the instruction has been carried out in part, and
copies of its writes are still on their way. Everything decided before it holds: the rounds, the end of the repair
window, the nodes that refused, the reasons.
"""

from dataclasses import replace
from datetime import datetime

from services.core.decisions import Repairing
from services.core.transaction import Result, end
from services.core.transaction_members import target_of
from services.core.transaction_state import Step, TransactionState
from services.core.transaction_values import Examine, Publish, Stage, Undo


def as_entry(state: TransactionState) -> TransactionState:
    """Return what a successor has to know while the state's instruction is being carried out."""
    if state.step is not Step.BINDING:
        return state
    written = {one.assignment.uid: replace(one, is_in_doubt=True) for one in state.in_stage(Stage.PROMISED)}
    return replace(state.with_members(written), may_have_written=True)


def is_behind(entry: TransactionState, repairing: Repairing | None) -> bool:
    """Tell whether the placement stream knows more than the entry: then the journal has lost something."""
    return repairing is not None and repairing.round > entry.round_published


def resume(entry: TransactionState, *, now: datetime) -> Result:
    """Go on from an entry: repeat what can be repeated as it is, and look at the members before anything else."""
    if entry.step is Step.PUBLISHING and entry.ending is not None:
        # A repeated id is stored once, and what was decided rests on nothing that can still change.
        return entry, (Publish(event=entry.ending),)
    if entry.step is Step.UNDOING:
        ours = tuple(one for one in entry.in_stage(Stage.BOUND) if not one.is_finished)
        return replace(entry, may_have_written=True), (Undo(targets=tuple(target_of(one) for one in ours)),)
    if entry.step in {Step.FENCING, Step.FREEING} and entry.is_ending:
        return end(entry, now=now)
    looked_at = tuple(
        one.assignment for stage in (Stage.PROMISED, Stage.BOUND, Stage.ACCEPTED) for one in entry.in_stage(stage)
    )
    return replace(entry, step=Step.EXAMINING), (Examine(members=looked_at, revision=entry.proposal.revision),)
