"""A placement as it is proposed, and whether one may be proposed at all."""

from datetime import datetime

from services.core.attention import DecisionPolicy
from services.core.cluster import Cluster
from services.core.decisions import Proposed
from services.core.gangs import Gang
from services.core.repairing import assignments_of
from services.core.solver import Placement
from services.core.trying import repair_window
from services.core.undo_cost import undo_warnings


def proposal_of(
    gang: Gang, placement: Placement, *, cluster: Cluster, policy: DecisionPolicy, now: datetime
) -> Proposed:
    """Return the first round of a transaction that binds the gang's open members where they were placed."""
    return Proposed(
        revision=cluster.revision,
        deadline=now + policy.deadline,
        min_count=gang.min_count,
        assignments=assignments_of(placement.nodes, pods=gang.open),
        already_placed=len(gang.placed),
        repair_window=repair_window(gang, default=policy.repair_window),
        warnings=undo_warnings(gang, job_of=cluster.job),
        claims=placement.claims,
        victims=placement.victims,
    )


def is_unseen(cluster: Cluster, gang: Gang) -> bool:
    """Tell whether members are bound, or promised, and still look open.

    They must not be placed twice. Nor may another transaction begin before they are seen: of each subject the stream's
    last message alone tells a successor where they are.
    """
    promises = cluster.promises()
    return any(pod.metadata.uid in promises for pod in gang.open)
