"""Judges a gang where somebody put it: is there an order in which Kubernetes would let its members in?

Rules about a node alone, capacity, ports and anti-affinity do not care about the order. Spread and affinity do: a pod
is judged when it comes, and what comes later may shift the balance, or would have been the company that it wants. So
the members are let in one after the other, in any order that works, each judged beside those before it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tests.differential.checker import rules_of_nodes, rules_of_pods, rules_of_volumes
from tests.differential.checker.view import Manifest, Placed, View, name_of, view_of

Rule = Callable[[View, Manifest, Manifest, Iterable[Placed]], str | None]

RULES: Mapping[str, Rule] = {
    "SchedulingGates": rules_of_nodes.ungated,
    "NodeName": rules_of_nodes.misnamed,
    "NodeUnschedulable": rules_of_nodes.unschedulable,
    "TaintToleration": rules_of_nodes.tainted,
    "NodeAffinity": rules_of_nodes.unwanted,
    "NodePorts": rules_of_nodes.port_taken,
    "NodeResourcesFit": rules_of_nodes.overfull,
    "NodeDeclaredFeatures": rules_of_nodes.undeclared,
    "VolumeBinding": rules_of_volumes.unbound,
    "VolumeZone": rules_of_volumes.volume_elsewhere,
    "VolumeRestrictions": rules_of_volumes.used_by_another,
    "NodeVolumeLimits": rules_of_volumes.too_many_attached,
    "PodTopologySpread": rules_of_pods.uneven,
    "InterPodAffinity": rules_of_pods.apart_or_together,
}
"""By the names of kube-scheduler's default plugins."""

_GANG = "GangScheduling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A rule that a placement breaks."""

    rule: str
    pod: str
    node: str
    message: str


def violations(
    objects: Iterable[Manifest], *, members: Iterable[Manifest], nodes: Mapping[str, str], wanted: int
) -> tuple[Violation, ...]:
    """What is wrong with members on `nodes` (by pod name) beside the objects; empty where nothing is.

    Either nobody is placed, or at least `wanted` members are.
    """
    view = view_of(objects)
    placed = [Placed(pod=pod, node=nodes[name_of(pod)]) for pod in members if name_of(pod) in nodes]
    if len(placed) != len(nodes):
        return (Violation(rule=_GANG, pod=str(dict(nodes)), node="", message="pods are placed that are no members"),)
    if placed and len(placed) < wanted:
        return (Violation(rule=_GANG, pod="", node="", message=f"{len(placed)} are placed, {wanted} are wanted"),)
    missing = [one for one in placed if one.node not in view.nodes]
    if missing:
        return tuple(_violation("NodeName", one, "the node does not exist") for one in missing)
    return _LettingIn(view=view, members=tuple(placed)).run()


def _violation(rule: str, one: Placed, message: str) -> Violation:
    return Violation(rule=rule, pod=name_of(one.pod), node=one.node, message=message)


class _LettingIn:
    """Searches the orders of a gang's members, without looking at the same set of members twice."""

    def __init__(self, *, view: View, members: tuple[Placed, ...]) -> None:
        self._view = view
        self._members = members
        self._seen: set[frozenset[int]] = set()
        self._furthest: frozenset[int] = frozenset()

    def run(self) -> tuple[Violation, ...]:
        """Nothing where an order works; else what stands against those left when it went furthest."""
        if self._goes_on(frozenset()):
            return ()
        left = [index for index in range(len(self._members)) if index not in self._furthest]
        return tuple(found for index in left for found in self._broken(index, inside=self._furthest))

    def _goes_on(self, inside: frozenset[int]) -> bool:
        if len(inside) == len(self._members):
            return True
        if inside in self._seen:
            return False
        self._seen.add(inside)
        if len(inside) > len(self._furthest):
            self._furthest = inside
        return any(
            not self._broken(index, inside=inside) and self._goes_on(inside | {index})
            for index in range(len(self._members))
            if index not in inside
        )

    def _broken(self, index: int, *, inside: frozenset[int]) -> list[Violation]:
        one = self._members[index]
        node = self._view.nodes[one.node]
        before = (*self._view.standing, *(self._members[each] for each in inside))
        return [
            _violation(name, one, message)
            for name, rule in RULES.items()
            for message in (rule(self._view, one.pod, node, before),)
            if message is not None
        ]
