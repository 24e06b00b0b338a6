"""What would happen: every waiting gang placed in order on one snapshot, without effect on anything."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from services.core.gangs import Gang
from services.core.inventory import Inventory
from services.core.objects import GangId, NodeName
from services.core.reasons import Reason, ReasonCode
from services.core.solver import Placement, Refusal
from services.core.trying import constraints_of_all, try_gang


class PlanOutcome(StrEnum):
    """Outcome for one gang: placed, waiting for room or settings, or incomplete, where members are missing."""

    PLACED = "placed"
    WAITING = "waiting"
    INCOMPLETE = "incomplete"


INCOMPLETE_REASONS = frozenset(
    {ReasonCode.MEMBERS_MISSING, ReasonCode.GROUP_NOT_FOUND, ReasonCode.MEMBERS_GATED, ReasonCode.MIXED_SCHEDULERS}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlan:
    """What would become of one gang. `bound` is node by pod name, of the members that would be placed."""

    outcome: PlanOutcome
    bound: Mapping[str, NodeName] = field(default_factory=dict)
    reasons: tuple[Reason, ...] = ()


def plan(gangs: Iterable[Gang], *, inventory: Inventory) -> dict[GangId, GangPlan]:
    """Place gangs in queue order, each beside those before it. A gang that cannot be placed takes nothing."""
    ordered = sorted(gangs, key=lambda gang: gang.order)
    snapshot = inventory.snapshot(constraints_of_all(pod for gang in ordered for pod in gang.open))
    plans: dict[GangId, GangPlan] = {}
    for gang in ordered:
        if not gang.open and gang.existing >= gang.min_count:
            plans[gang.id] = GangPlan(outcome=PlanOutcome.PLACED)
            continue
        answer = try_gang(gang, snapshot)
        if isinstance(answer, Placement):
            names = {pod.metadata.uid: pod.metadata.name for pod in gang.open}
            bound = {names[uid]: node for uid, node in answer.nodes.items()}
            plans[gang.id] = GangPlan(outcome=PlanOutcome.PLACED, bound=dict(sorted(bound.items())))
        elif isinstance(answer, Refusal):
            plans[gang.id] = GangPlan(outcome=PlanOutcome.WAITING, reasons=answer.reasons)
        else:
            is_incomplete = any(reason.code in INCOMPLETE_REASONS for reason in answer.reasons)
            outcome = PlanOutcome.INCOMPLETE if is_incomplete else PlanOutcome.WAITING
            plans[gang.id] = GangPlan(outcome=outcome, reasons=answer.reasons)
    return plans
