"""The victims of a transaction: evicted after the last dry run and before the first claim, and waited for.

Nothing is evicted before everything that can be tried was tried. A victim that stays (its PodDisruptionBudget keeps it,
or it does not end in time) leaves the members on its node without their place, and they are placed elsewhere.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from services.core.decisions import Victim
from services.core.transaction_members import opened
from services.core.transaction_values import Evict, Evicted, Stage

if TYPE_CHECKING:
    from services.core.objects import NodeName
    from services.core.reasons import Reason
    from services.core.transaction_state import TransactionState

VICTIM_PATIENCE = timedelta(seconds=600)
"""How long victims may take to go: training jobs write a checkpoint in their grace period."""


def evicting(state: "TransactionState", *, now: datetime) -> tuple["TransactionState", Evict] | None:
    """Have the victims evicted; None where there are none left."""
    victims = needed_victims(state)
    if not victims:
        return None
    until = state.evict_until or now + VICTIM_PATIENCE
    # What the journal says is being done may have been done in part: from now on it counts as begun.
    changed = replace(state, evict_until=until)
    return changed, Evict(victims=victims, until=until, is_begun=state.evict_until is not None)


def needed_victims(state: "TransactionState") -> tuple[Victim, ...]:
    """Return the victims whose places, or places of whose gang, are still promised to members."""
    nodes = {one.assignment.node for one in state.in_stage(Stage.PROMISED)}
    gangs = {one.gang for one in state.proposal.victims if one.gang and one.node in nodes}
    return tuple(one for one in state.proposal.victims if one.node in nodes or one.gang in gangs)


def evicted(state: "TransactionState", event: Evicted) -> "TransactionState":
    """Return the state after evictions: whoever was promised a place that is not free needs another one.

    Time has passed, so what is still promised is checked again, now without regard to victims.
    """
    staying: dict[NodeName, Reason] = {
        one.node: event.staying[one.uid] for one in state.proposal.victims if one.uid in event.staying
    }
    members = {
        one.assignment.uid: (
            opened(one, staying[one.assignment.node], is_node_excluded=True)
            if one.assignment.node in staying
            else replace(one, is_examined=False)
        )
        for one in state.in_stage(Stage.PROMISED)
    }
    return replace(
        state.with_members(members),
        proposal=replace(state.proposal, victims=()),
        evict_until=None if event.is_untouched else state.evict_until,
    )
