"""Members that ask for the same are one class: the cost of a decision grows with classes, not with members."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from services.core.constraints import PodRules
from services.core.devices.demands import NO_DEMAND, DeviceDemand
from services.core.inventory import Snapshot
from services.core.labels import keys_of, keys_read
from services.core.node_rules import Constraints, constraints_of
from services.core.objects import NodeName, Pod, Uid
from services.core.quantities import PODS
from services.core.storage import PodStorage

Requests = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberClass:
    """Members that ask for exactly the same. `requests` includes one pod slot; members are in name order.

    `labels` are those on which somebody's rules look. `excluded_nodes` refused a binding of these members. `demand` is
    what they ask for of devices, the same for all.
    """

    requests: Requests
    constraints: Constraints
    excluded_nodes: frozenset[NodeName]
    namespace: str
    labels: Mapping[str, str]
    rules: PodRules
    storage: PodStorage
    subgroup: str
    members: tuple[Pod, ...]
    demand: DeviceDemand = NO_DEMAND

    @property
    def size(self) -> int:
        """How many members there are."""
        return len(self.members)


def classes_of(
    members: Iterable[Pod],
    *,
    snapshot: Snapshot,
    excluded_nodes: Mapping[Uid, frozenset[NodeName]],
    subgroups: Mapping[Uid, str],
) -> tuple[MemberClass, ...]:
    """Group members that ask for the same, hardest class first.

    A class is harder where one member takes the larger part of any resource; amounts compare by resource name, so that
    the order does not depend on the members' order.
    """
    pods = sorted(members, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
    keys = _keys_that_matter(pods, snapshot)
    grouped: dict[object, list[Pod]] = {}
    made: dict[object, MemberClass] = {}
    for pod, demand in zip(pods, snapshot.devices.demands(pods), strict=True):
        uid, namespace = pod.metadata.uid, pod.metadata.namespace
        storage = snapshot.storage.of_pod(pod)
        requests = tuple(sorted((name, amount) for name, amount in pod.requests.items() if amount > 0))
        constraints = constraints_of(pod, storage=storage)
        rules = replace(pod.rules, claims=(), features=()) if pod.rules.claims else pod.rules
        labels = {key: pod.metadata.labels[key] for key in keys if key in pod.metadata.labels}
        excluded, subgroup = excluded_nodes.get(uid, frozenset()), subgroups.get(uid, "")
        asked = (requests, rules, storage, demand)
        key = (asked, constraints, excluded, namespace, tuple(sorted(labels.items())), subgroup)
        if key not in made:
            made[key] = MemberClass(
                requests=requests,
                constraints=constraints,
                excluded_nodes=excluded,
                namespace=namespace,
                labels=labels,
                rules=rules,
                storage=storage,
                subgroup=subgroup,
                members=(),
                demand=demand,
            )
        grouped.setdefault(key, []).append(pod)
    classes = [replace(made[key], members=tuple(pods)) for key, pods in grouped.items()]
    return tuple(
        sorted(
            classes,
            key=lambda one: (weight(one.demand), difficulty(one.requests), one.members[0].metadata.name),
            reverse=True,
        )
    )


def weight(demand: DeviceDemand) -> int:
    """Return about how many devices a member needs: those that need most are placed first."""
    return sum(
        max(ask.count or 1 for ask in request.alternatives)
        for claim in demand.claims
        if claim.pinned is None
        for request in claim.spec.requests
    )


def difficulty(requests: Requests) -> tuple[tuple[int, str, int], ...]:
    """Order classes: extended resources before memory, CPU and slots, larger amounts first."""
    rank = {PODS: 0, "cpu": 1, "memory": 2, "ephemeral-storage": 2}
    return tuple(sorted(((rank.get(name, 3), name, amount) for name, amount in requests), reverse=True))


def scarcest(requests: Requests) -> str:
    """Return the resource by which nodes are filled up: an extended one where the class asks for one."""
    return max(requests, key=lambda item: difficulty((item,)), default=("", 0))[0]


def _keys_that_matter(pods: list[Pod], snapshot: Snapshot) -> frozenset[str]:
    """Return the label keys on which a member's rules look, or the anti-affinity of somebody who is there.

    Members of a Job differ in the label of their index: without this each would be a class of its own.
    """
    own = {key for rules in {pod.rules for pod in pods} for key in keys_read(rules)}
    return frozenset(own.union(*(keys_of(terms) for terms, there in snapshot.apart() if there)))
