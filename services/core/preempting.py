"""What pre-emption could do for a gang that was refused: told, never done, for nobody is evicted in this release.

A gang that still does not fit without any of the pods of lower priority is told so. Whoever evicts by hand, or in a
later release, then knows when it would be in vain.
"""

from collections.abc import Mapping

from services.core.devices.demands import NO_DEMAND
from services.core.gangs import Gang
from services.core.inventory import Snapshot
from services.core.objects import NodeName, Uid
from services.core.policy import TopologyPolicy
from services.core.reasons import Reason, ReasonCode
from services.core.solver import estimate


def preemption_reasons(
    gang: Gang,
    snapshot: Snapshot,
    *,
    excluded_nodes: Mapping[Uid, frozenset[NodeName]] | None,
    topology: TopologyPolicy,
) -> tuple[Reason, ...]:
    """Return how many members could be placed were all pods of lower priority gone; empty where there are none.

    Empty also where a member's `preemptionPolicy` is Never, or where members claim devices: whose claims would be freed
    is not followed by priority. No search is made for this: where neither filling nor
    counting says it, the message says what was found.
    """
    if any(pod.never_preempts for pod in gang.open):
        return ()
    if any(snapshot.devices.demand(pod) is not NO_DEMAND for pod in gang.open):
        return ()
    roomier = snapshot.without_lower_than(gang.priority)
    if roomier is None:
        return ()
    without, count = roomier
    answer = estimate(
        without,
        members=gang.open,
        needed=gang.needed,
        excluded_nodes=excluded_nodes,
        wish=gang.topology.wish,
        levels=topology.levels,
        placed=gang.placed,
    )
    victims = f"the {count} pods of lower priority" if count > 1 else "the one pod of lower priority"
    if answer.found >= gang.needed:
        text = f"all {gang.needed} needed pods could be placed after pre-emption of {victims}; nobody is evicted"
        return (Reason(code=ReasonCode.PREEMPTION_WOULD_HELP, message=text, count=answer.found),)
    if answer.most is None:
        text = (
            f"{answer.found} of the {gang.needed} needed pods were found a place even after pre-emption of {victims}, "
            "without a search for more"
        )
    else:
        text = f"at most {answer.most} of the {gang.needed} needed pods placeable even after pre-emption of {victims}"
    return (Reason(code=ReasonCode.PREEMPTION_NOT_ENOUGH, message=text, count=answer.most or answer.found),)
