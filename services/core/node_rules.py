"""Which nodes admit a pod at all: cordons, taints, node selectors, required node affinity, volumes and features.

The rules are those of kube-scheduler 1.37's filters NodeUnschedulable, TaintToleration, NodeAffinity, VolumeBinding and
VolumeZone (for bound claims), and NodeDeclaredFeatures. Amounts and other pods are not judged here:
`services.core.solving` counts how many members fit on each node that admits them, and sees to the rules among pods.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from services.core.constraints import NodeRequirement, NodeSelectorTerm, Taint, Toleration, WeightedNodeTerm
from services.core.labels import requirement_holds
from services.core.names import OWNED_TAINT
from services.core.objects import Node, Pod
from services.core.reasons import ReasonCode
from services.core.storage import NO_STORAGE, ZONE_LABELS, PodStorage, VolumeDemand

_INT64_LIMIT = 2**63
_INTEGER = re.compile(r"[+-]?0{0,400}[0-9]{1,19}")
"""What can be a number of 64 bits: whatever stands in a pod is taken to be text, and never fails."""
UNSCHEDULABLE_TAINT = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""A cordoned node admits a pod that tolerates this taint, whether or not the node carries it."""

SOFT_EFFECT = "PreferNoSchedule"
HARD_EFFECTS = frozenset({"NoSchedule", "NoExecute"})


class Verdict(IntEnum):
    """Whether a node admits a pod; the first rule that it breaks, in kube-scheduler's order."""

    ADMITTED = 0
    UNSCHEDULABLE = 1
    NOT_READY = 2
    TAINTED = 3
    SELECTOR = 4
    AFFINITY = 5
    EXCLUDED = 6
    ABSENT = 7
    """The row of a node that is gone."""
    VOLUME = 8
    FEATURE = 9


REASON_OF_VERDICT: Mapping[Verdict, ReasonCode] = {
    Verdict.UNSCHEDULABLE: ReasonCode.NODE_UNSCHEDULABLE,
    Verdict.NOT_READY: ReasonCode.NODE_NOT_READY,
    Verdict.TAINTED: ReasonCode.TAINT_NOT_TOLERATED,
    Verdict.SELECTOR: ReasonCode.NODE_SELECTOR_MISMATCH,
    Verdict.AFFINITY: ReasonCode.NODE_AFFINITY_MISMATCH,
    Verdict.VOLUME: ReasonCode.VOLUME_NODE_MISMATCH,
    Verdict.FEATURE: ReasonCode.NODE_FEATURE_MISSING,
    Verdict.EXCLUDED: ReasonCode.NODE_EXCLUDED,
}

TEXT_OF_VERDICT: Mapping[Verdict, str] = {
    Verdict.UNSCHEDULABLE: "cordoned",
    Verdict.NOT_READY: "not ready",
    Verdict.TAINTED: "tainted against these pods",
    Verdict.SELECTOR: "without the labels of nodeSelector",
    Verdict.AFFINITY: "outside the required node affinity",
    Verdict.EXCLUDED: "excluded, because the API or the kubelet refused a member there",
    Verdict.VOLUME: "out of reach of the pods' volumes",
    Verdict.FEATURE: "without a feature that the pods need",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a pod demands of a node, besides amounts. Hashable: pods with equal constraints share one judgement."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    features: tuple[str, ...] = ()
    volumes: tuple[VolumeDemand, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What a pod would rather have of a node. Hashable, as Constraints are."""

    nodes: tuple[WeightedNodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


def constraints_of(pod: Pod, *, storage: PodStorage = NO_STORAGE) -> Constraints:
    """Return the constraints of a pod, with those of its volumes."""
    return Constraints(
        node_selector=tuple(sorted(pod.node_selector.items())),
        node_affinity=pod.node_affinity,
        tolerations=pod.tolerations,
        features=pod.rules.features,
        volumes=storage.demands,
    )


def preferences_of(pod: Pod) -> Preferences:
    """Return the preferences of a pod about nodes."""
    return Preferences(nodes=pod.rules.preferred_nodes, tolerations=pod.tolerations)


def likes(node: Node, preferences: Preferences) -> tuple[int, int]:
    """Return the weights of the preferred terms that hold, and the soft taints that are not tolerated."""
    labels, name = node.metadata.labels, node.metadata.name
    weights = sum(one.weight for one in preferences.nodes if _term_holds(one.term, labels=labels, name=name))
    taints = sum(
        taint.effect == SOFT_EFFECT and not _is_tolerated(taint, preferences.tolerations) for taint in node.taints
    )
    return weights, taints


def verdict(node: Node, *, constraints: Constraints) -> Verdict:
    """Return whether the node admits pods with these constraints."""
    if node.is_unschedulable and not _is_tolerated(UNSCHEDULABLE_TAINT, constraints.tolerations):
        return Verdict.UNSCHEDULABLE
    if not tolerates_taints(node, tolerations=constraints.tolerations):
        return Verdict.TAINTED
    if not node.is_ready:
        return Verdict.NOT_READY
    labels, name = node.metadata.labels, node.metadata.name
    if any(labels.get(key) != value for key, value in constraints.node_selector):
        return Verdict.SELECTOR
    if not _any_term_holds(constraints.node_affinity, labels=labels, name=name):
        return Verdict.AFFINITY
    if not all(_reaches(one, labels=labels, name=name) for one in constraints.volumes):
        return Verdict.VOLUME
    if not set(constraints.features) <= set(node.features):
        return Verdict.FEATURE
    return Verdict.ADMITTED


def tolerates_taints(node: Node, *, tolerations: Iterable[Toleration]) -> bool:
    """Tell whether all taints that keep pods away are tolerated."""
    return not any(_keeps_off(taint, tolerations) for taint in node.taints)


def is_selected(node: Node, *, constraints: Constraints) -> bool:
    """Tell whether node selector and required node affinity hold: what a spread that honours them counts over."""
    labels, name = node.metadata.labels, node.metadata.name
    return all(labels.get(key) == value for key, value in constraints.node_selector) and _any_term_holds(
        constraints.node_affinity, labels=labels, name=name
    )


def _any_term_holds(terms: tuple[NodeSelectorTerm, ...] | None, *, labels: Mapping[str, str], name: str) -> bool:
    return terms is None or any(_term_holds(term, labels=labels, name=name) for term in terms)


def _reaches(demand: VolumeDemand, *, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether a volume can be used on a node: by its node affinity, and by its labels of zones."""
    if not _any_term_holds(demand.node_affinity, labels=labels, name=name):
        return False
    if not any(label in labels for label in ZONE_LABELS):
        return True
    return all(
        (found := labels.get(label, labels.get(ZONE_LABELS[label]))) is not None and found in values
        for label, values in demand.zones
    )


def _keeps_off(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Tell whether a taint keeps pods of ours off; the one of owned nodes is for everybody else."""
    is_owned = taint.key == OWNED_TAINT and taint.effect == "NoSchedule"
    return taint.effect in HARD_EFFECTS and not is_owned and not _is_tolerated(taint, tolerations)


def _is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether one toleration covers the taint (core/v1 Toleration.ToleratesTaint)."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case "Lt" | "Gt":
            wanted, found = _integer(toleration.value), _integer(taint.value)
            if wanted is None or found is None:
                return False
            return found < wanted if toleration.operator == "Lt" else found > wanted
        case _:
            return False


def _term_holds(term: NodeSelectorTerm, *, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether every requirement of the term holds; an empty term holds nowhere."""
    if not term.expressions and not term.fields:
        return False
    fields = {"metadata.name": name}
    return all(_requirement_holds(one, values=labels) for one in term.expressions) and all(
        _requirement_holds(one, values=fields) for one in term.fields
    )


def _requirement_holds(requirement: NodeRequirement, *, values: Mapping[str, str]) -> bool:
    if requirement.operator not in {"Gt", "Lt"}:
        return requirement_holds(requirement, values)
    found = values.get(requirement.key)
    left = None if found is None else _integer(found)
    right = _integer(requirement.values[0]) if len(requirement.values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _integer(text: str) -> int | None:
    """Return a decimal integer of 64 bits as the API compares them (Go's ParseInt), or None."""
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_INT64_LIMIT <= number < _INT64_LIMIT else None
