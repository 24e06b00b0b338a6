"""What would happen: every waiting gang placed in order on one snapshot, without effect on anything."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from services.core.allocations import ClaimAllocation, DeviceResult
from services.core.cluster import Cluster
from services.core.gangs import Gang
from services.core.inventory import Inventory
from services.core.kin import KinOf
from services.core.names import SCHEDULER_NAME
from services.core.objects import Applied, DeviceObject, GangId, KubernetesObject, Node, NodeName, Pod, Uid
from services.core.policy import TopologyPolicy
from services.core.quorum import trusted_owners
from services.core.reasons import Reason, ReasonCode
from services.core.solver import Placement, Refusal
from services.core.trying import try_gang

EXTENDED = "extended resources"
"""Stands for the entry of a claim that will be made for a pod's extended resources."""


class PlanOutcome(StrEnum):
    """Outcome for one gang: placed, waiting for room or settings, or incomplete, where members are missing."""

    PLACED = "placed"
    WAITING = "waiting"
    INCOMPLETE = "incomplete"


INCOMPLETE_REASONS = frozenset(
    {
        ReasonCode.MEMBERS_MISSING,
        ReasonCode.GROUP_NOT_FOUND,
        ReasonCode.MEMBERS_GATED,
        ReasonCode.MIXED_SCHEDULERS,
        ReasonCode.OWNER_NOT_SEEN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlan:
    """What would become of one gang. `bound` is node by pod name, of the members that would be placed.

    `devices` are those that claims would get, by the claim's name, or by pod and entry where it has none yet.
    Where pods of lower priority have to `evict` first, as `<namespace>/<name>`, the members are in `nominate` instead.
    """

    outcome: PlanOutcome
    bound: Mapping[str, NodeName] = field(default_factory=dict)
    devices: Mapping[str, tuple[DeviceResult, ...]] = field(default_factory=dict)
    nominate: Mapping[str, NodeName] = field(default_factory=dict)
    evict: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()


def imagine(cluster: Cluster, objects: Iterable[KubernetesObject], *, takes_all_schedulers: bool) -> None:
    """Let objects be seen by a cluster that is only imagined; pods of every scheduler as ours, where that is wanted."""
    for item in objects:
        # Not as a change: it may be that of an object which exists, in whatever version.
        if isinstance(item, Node):
            cluster.inventory.put_node(item)
        elif isinstance(item, DeviceObject):
            cluster.inventory.devices.put(item)
        elif isinstance(item, Pod) and takes_all_schedulers and not item.node:
            cluster.apply(Applied(object=replace(item, scheduler_name=SCHEDULER_NAME)), revision=0)
        else:
            cluster.apply(Applied(object=item), revision=0)


def gangs_of(cluster: Cluster) -> list[Gang]:
    """Return the gangs of a cluster."""
    return [gang for gang_id in cluster.gang_ids() if (gang := cluster.gang(gang_id)) is not None]


def joined(gang: Gang, *, live: Gang | None, promised: Mapping[Uid, NodeName]) -> Gang:
    """Return a gang with the members that it has already; `promised` are nodes of members that wait to be bound.

    What is said of it stands in the live cluster alone: without its own objects a plan cannot mean another gang.
    """
    if live is None:
        return gang
    names = {pod.metadata.name for pod in (*gang.open, *gang.gated)}
    there = [pod for pod in live.open if pod.metadata.name not in names]
    settled = tuple(replace(pod, node=promised[pod.metadata.uid]) for pod in there if pod.metadata.uid in promised)
    waiting = tuple(pod for pod in there if pod.metadata.uid not in promised)
    return replace(
        live,
        min_count=max(live.min_count, gang.min_count),
        open=tuple(sorted((*gang.open, *waiting), key=lambda pod: pod.metadata.name)),
        gated=(*gang.gated, *live.gated),
        placed=(*live.placed, *settled),
    )


def devices_by_claim(
    claims: Iterable[ClaimAllocation], *, names: Mapping[Uid, str]
) -> dict[str, tuple[DeviceResult, ...]]:
    """Return the devices of claims that get some; `names` are those of the pods."""
    found = {
        one.ref.name or f"{names.get(one.ref.pod, one.ref.pod)}/{one.ref.entry or EXTENDED}": one.results
        for one in claims
        if one.results
    }
    return dict(sorted(found.items()))


def plan(
    gangs: Iterable[Gang],
    *,
    inventory: Inventory,
    topology: TopologyPolicy | None = None,
    kin_of: KinOf | None = None,
) -> dict[GangId, GangPlan]:
    """Place gangs in queue order, each beside those before it. A gang that cannot be placed takes nothing.

    Where `kin_of` says who goes with whom, pods of lower priority make room.
    """
    ordered = sorted(gangs, key=lambda gang: gang.order)
    snapshot = inventory.snapshot(pod for gang in ordered for pod in gang.open)
    plans: dict[GangId, GangPlan] = {}
    for gang in ordered:
        notes = trusted_owners(gang)
        if not gang.open and gang.existing >= gang.min_count:
            plans[gang.id] = GangPlan(outcome=PlanOutcome.PLACED, reasons=notes)
            continue
        answer = try_gang(gang, snapshot, topology=topology, kin_of=kin_of)
        if isinstance(answer, Placement):
            names = {pod.metadata.uid: pod.metadata.name for pod in gang.open}
            nodes = dict(sorted((names[uid], node) for uid, node in answer.nodes.items()))
            plans[gang.id] = GangPlan(
                outcome=PlanOutcome.PLACED,
                bound={} if answer.victims else nodes,
                nominate=nodes if answer.victims else {},
                evict=tuple(f"{one.namespace}/{one.pod}" for one in answer.victims),
                devices=devices_by_claim(answer.claims, names=names),
                reasons=notes,
            )
        elif isinstance(answer, Refusal):
            plans[gang.id] = GangPlan(outcome=PlanOutcome.WAITING, reasons=(*answer.reasons, *notes))
        else:
            is_incomplete = any(reason.code in INCOMPLETE_REASONS for reason in answer.reasons)
            outcome = PlanOutcome.INCOMPLETE if is_incomplete else PlanOutcome.WAITING
            plans[gang.id] = GangPlan(outcome=outcome, reasons=(*answer.reasons, *notes))
    return plans
