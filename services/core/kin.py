"""Who runs together with whom, as far as it matters when one of them has to go."""

from collections.abc import Callable
from dataclasses import dataclass

from services.core.cluster import Cluster
from services.core.objects import GangId, Kind, Pod, PodGroup, Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class Kin:
    """The pods on nodes that run together with a pod, itself among them.

    `spare` of them may go without the others: those that are more than their gang needs.
    """

    gang: GangId
    pods: tuple[Pod, ...]
    spare: int


KinOf = Callable[[Pod], Kin | None]
"""None for a pod that must not go now."""


def alone(pod: Pod) -> Kin:
    """Return a pod as one that nobody runs together with."""
    return Kin(gang=GangId(f"pod/{pod.metadata.namespace}/{pod.metadata.name}"), pods=(pod,), spare=1)


def kin_in(cluster: Cluster, *, is_busy: Callable[[GangId], bool] = lambda _gang: False) -> KinOf:
    """Return who runs together with the pods of a cluster, whoever places them; nobody of a gang that `is_busy` may go.

    A PodGroup with `disruptionMode: PodGroup` (KEP-4671) goes whole. What pods of another scheduler need of each other
    is known where they name a PodGroup. A gang is looked at once, however many of its pods are asked about: for one
    decision, while the cluster stays as it is.
    """
    known: dict[GangId, tuple[Kin, frozenset[Uid]]] = {}

    def kin_of(pod: Pod) -> Kin | None:
        gang_id = cluster.gang_id_of(pod)
        if is_busy(gang_id):
            return None
        if gang_id not in known:
            kin = _kin(cluster, gang_id)
            known[gang_id] = kin, frozenset(one.metadata.uid for one in kin.pods)
        kin, uids = known[gang_id]
        return kin if pod.metadata.uid in uids else alone(pod)

    return kin_of


def _kin(cluster: Cluster, gang_id: GangId) -> Kin:
    pods = tuple(one for one in cluster.members(gang_id) if one.node and not one.is_finished and not one.is_terminating)
    named = next((one for one in pods if one.group), None)
    declared = cluster.declaration((Kind.POD_GROUP, named.metadata.namespace, named.group)) if named else None
    group = declared if isinstance(declared, PodGroup) else None
    if group is not None and group.disrupts_all:
        return Kin(gang=gang_id, pods=pods, spare=0)
    gang = cluster.gang(gang_id)
    needed = gang.min_count if gang is not None else group.min_count if group is not None else 0
    # One that needs no other leaves no gang behind.
    return Kin(gang=gang_id, pods=pods, spare=max(len(pods) - needed, 0) if needed > 1 else len(pods))
