"""Kubernetes' rules once more, the slow and plain way: one pod, one node, one look at everybody, no counters.

It shares the objects with the solver, and nothing else: what it says is held against the solver's answers on clusters
that are small enough to try every placement.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from services.core.constraints import LabelSelector, PodTerm
from services.core.node_rules import Verdict, constraints_of, verdict
from services.core.objects import Node, Pod, Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Nodes by name, the pods on them, and the labels of namespaces."""

    nodes: Mapping[str, Node]
    there: tuple[tuple[Pod, str], ...]
    namespaces: Mapping[str, Mapping[str, str]]

    def with_pod(self, pod: Pod, node: str) -> "World":
        """The same with one pod more."""
        return World(nodes=self.nodes, there=(*self.there, (pod, node)), namespaces=self.namespaces)


def most(world: World, members: Sequence[Pod], *, domain: tuple[str, str] | None = None) -> int:
    """The most members that can be placed, in the best order; within one domain of a node label where that is given."""
    best = 0
    seen: set[frozenset[tuple[Uid, str]]] = set()
    stack: list[tuple[World, frozenset[tuple[Uid, str]]]] = [(world, frozenset())]
    while stack:
        here, placed = stack.pop()
        if placed in seen:
            continue
        seen.add(placed)
        best = max(best, len(placed))
        if best == len(members):
            return best
        done = {uid for uid, _ in placed}
        for pod in members:
            if pod.metadata.uid in done:
                continue
            for name, node in world.nodes.items():
                outside = domain is not None and node.metadata.labels.get(domain[0]) != domain[1]
                if not outside and fits(here, pod, node):
                    stack.append((here.with_pod(pod, name), placed | {(pod.metadata.uid, name)}))
    return best


def fits(world: World, pod: Pod, node: Node) -> bool:
    """Whether all filters let the pod onto the node."""
    return (
        verdict(node, constraints=constraints_of(pod)) is Verdict.ADMITTED
        and _amounts(world, pod, node)
        and _ports(world, pod, node)
        and _disks(world, pod, node)
        and _spread(world, pod, node)
        and _affinity(world, pod, node)
    )


def _on(world: World, node: Node) -> Iterable[Pod]:
    return (other for other, name in world.there if name == node.metadata.name)


def _amounts(world: World, pod: Pod, node: Node) -> bool:
    for resource, amount in pod.requests.items():
        used = sum(other.requests.get(resource, 0) for other in _on(world, node))
        if amount > 0 and used + amount > node.allocatable.get(resource, 0):
            return False
    return True


def _ports(world: World, pod: Pod, node: Node) -> bool:
    anywhere = "0.0.0.0"
    for other in _on(world, node):
        for mine in pod.rules.host_ports:
            for theirs in other.rules.host_ports:
                same_address = mine.address == theirs.address or anywhere in {mine.address, theirs.address}
                if (mine.port, mine.protocol) == (theirs.port, theirs.protocol) and same_address:
                    return False
    return True


def _disks(world: World, pod: Pod, node: Node) -> bool:
    return not any(
        mine.name == theirs.name and not (mine.is_read_only and theirs.is_read_only)
        for other in _on(world, node)
        for mine in pod.rules.disks
        for theirs in other.rules.disks
    )


def _selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    for one in selector.requirements:
        value = labels.get(one.key)
        holds = {
            "In": value in one.values if value is not None else False,
            "NotIn": value not in one.values if value is not None else True,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }[one.operator]
        if not holds:
            return False
    return True


def _meant(world: World, term: PodTerm, pod: Pod) -> bool:
    namespace = pod.metadata.namespace
    in_namespace = namespace in term.namespaces or _selected(term.namespace_selector, world.namespaces[namespace])
    return in_namespace and _selected(term.selector, pod.metadata.labels)


def _share(world: World, key: str, one: str, other: Node) -> bool:
    value = world.nodes[one].metadata.labels.get(key) if one in world.nodes else None
    return value is not None and value == other.metadata.labels.get(key)


def _spread(world: World, pod: Pod, node: Node) -> bool:
    hard = [one for one in pod.rules.spread if one.is_hard]
    for one in hard:
        value = node.metadata.labels.get(one.topology_key)
        if value is None:
            return False
        counts: dict[str, int] = {}
        for other in world.nodes.values():
            labels = other.metadata.labels
            if any(constraint.topology_key not in labels for constraint in hard):
                continue
            selected = verdict_of_selection(pod, other)
            tolerated = not any(
                taint.effect in {"NoSchedule", "NoExecute"} and not pod.tolerations for taint in other.taints
            )
            if (one.honors_affinity and not selected) or (one.honors_taints and not tolerated):
                continue
            matching = sum(
                there.metadata.namespace == pod.metadata.namespace
                and not there.is_terminating
                and _selected(one.selector, there.metadata.labels)
                for there in _on(world, other)
            )
            if one.selector is not None and not one.selector.requirements:
                # kube-scheduler counts nobody for an empty selector, though it selects the pod itself.
                matching = 0
            counts[labels[one.topology_key]] = counts.get(labels[one.topology_key], 0) + matching
        emptiest = min(counts.values(), default=2**40)
        if len(counts) < one.min_domains:
            emptiest = 0
        own = int(_selected(one.selector, pod.metadata.labels))
        if counts.get(value, 0) + own - emptiest > one.max_skew:
            return False
    return True


def verdict_of_selection(pod: Pod, node: Node) -> bool:
    """Whether the node selector holds; the clusters here have no node affinity."""
    return all(node.metadata.labels.get(key) == value for key, value in pod.node_selector.items())


def _affinity(world: World, pod: Pod, node: Node) -> bool:
    for term in pod.rules.anti_affinity:
        if any(
            _meant(world, term, other) and _share(world, term.topology_key, name, node) for other, name in world.there
        ):
            return False
    for other, name in world.there:
        for term in other.rules.anti_affinity:
            if _meant(world, term, pod) and _share(world, term.topology_key, name, node):
                return False
    terms = pod.rules.affinity
    if not terms:
        return True
    if any(term.topology_key not in node.metadata.labels for term in terms):
        return False
    meant = [(other, name) for other, name in world.there if all(_meant(world, term, other) for term in terms)]
    if all(any(_share(world, term.topology_key, name, node) for _, name in meant) for term in terms):
        return True
    in_any_domain = any(
        name in world.nodes and any(term.topology_key in world.nodes[name].metadata.labels for term in terms)
        for _, name in meant
    )
    return not in_any_domain and all(_meant(world, term, pod) for term in terms)
