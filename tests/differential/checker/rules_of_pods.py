"""Rules about other pods: affinity, anti-affinity, topology spread."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.differential.checker.selectors import is_node_wanted, selects, untolerated
from tests.differential.checker.view import Manifest, Placed, View, is_terminating, labels_of, name_of, namespace_of

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _terms(pod: Manifest, kind: str) -> list[Manifest]:
    terms: list[Manifest] = ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(_REQUIRED) or []
    return terms


def _is_about(view: View, term: Manifest, *, owner: Manifest, pod: Manifest) -> bool:
    """Whether a PodAffinityTerm of the owner is about the pod: by its namespace and its labels."""
    namespaces = set(term.get("namespaces") or ())
    selector = term.get("namespaceSelector")
    if selector is None and not namespaces:
        namespaces = {namespace_of(owner)}
    by_labels = selector is not None and selects(selector, view.namespace_labels.get(namespace_of(pod), {}))
    if namespace_of(pod) not in namespaces and not by_labels:
        return False
    return selects(term.get("labelSelector"), labels_of(pod)) and _agrees(term, owner=owner, pod=pod)


def _agrees(term: Manifest, *, owner: Manifest, pod: Manifest) -> bool:
    """What matchLabelKeys and mismatchLabelKeys add; a key that the owner does not carry adds nothing."""
    mine, theirs = labels_of(owner), labels_of(pod)
    return all(theirs.get(key) == mine[key] for key in term.get("matchLabelKeys") or () if key in mine) and all(
        theirs.get(key) != mine[key] for key in term.get("mismatchLabelKeys") or () if key in mine
    )


def _are_together(view: View, key: str, one: str, other: str) -> bool:
    """Whether two nodes carry the label with the same value."""
    if one not in view.nodes or other not in view.nodes:
        return False
    left, right = labels_of(view.nodes[one]), labels_of(view.nodes[other])
    return key in left and left.get(key) == right.get(key)


def apart_or_together(view: View, pod: Manifest, node: Manifest, others: Iterable[Placed]) -> str | None:
    """Both kinds of affinity."""
    beside = tuple(others)
    return _too_near(view, pod, node, beside) or _too_far(view, pod, node, beside)


def _too_near(view: View, pod: Manifest, node: Manifest, others: Iterable[Placed]) -> str | None:
    """Anti-affinity holds both ways: that of the pod, and that of every pod that is there."""
    for other in others:
        for owner, about, whose in ((pod, other.pod, "its own"), (other.pod, pod, f"that of {name_of(other.pod)}")):
            for term in _terms(owner, "podAntiAffinity"):
                if _is_about(view, term, owner=owner, pod=about) and _are_together(
                    view, term["topologyKey"], name_of(node), other.node
                ):
                    return f"too near {name_of(other.pod)} by {term['topologyKey']}: anti-affinity, {whose}"
    return None


def _too_far(view: View, pod: Manifest, node: Manifest, others: Iterable[Placed]) -> str | None:
    """Affinity: each term needs a pod in the same domain, and such a pod is one that all the terms are about.

    Where there is none in any domain and the terms are about the pod itself, it is the first of its kind and may be
    wherever the domains exist.
    """
    terms = _terms(pod, "podAffinity")
    if not terms:
        return None
    lacking = [term["topologyKey"] for term in terms if term["topologyKey"] not in labels_of(node)]
    if lacking:
        return f"the node has no label {lacking[0]}, which affinity is about"
    friends = [one for one in others if all(_is_about(view, term, owner=pod, pod=one.pod) for term in terms)]
    alone = [
        term["topologyKey"]
        for term in terms
        if not any(_are_together(view, term["topologyKey"], name_of(node), one.node) for one in friends)
    ]
    if not alone:
        return None
    has_domains = any(
        term["topologyKey"] in labels_of(view.nodes[one.node])
        for one in friends
        if one.node in view.nodes
        for term in terms
    )
    if not has_domains and all(_is_about(view, term, owner=pod, pod=pod) for term in terms):
        return None
    return f"no pod that its affinity is about in the same {alone[0]}"


def uneven(view: View, pod: Manifest, node: Manifest, others: Iterable[Placed]) -> str | None:
    """Topology spread with DoNotSchedule: with the pod, its domain exceeds the emptiest one by at most maxSkew."""
    constraints = [
        one
        for one in pod["spec"].get("topologySpreadConstraints") or ()
        if one.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ]
    keys = [one["topologyKey"] for one in constraints]
    beside = list(others)
    for constraint in constraints:
        key = constraint["topologyKey"]
        domain = labels_of(node).get(key)
        if domain is None:
            return f"the node has no label {key}, which spread is about"
        counts = _counts(view, constraint, pod=pod, keys=keys, others=beside)
        least = min(counts.values(), default=0)
        if len(counts) < (constraint.get("minDomains") or 1):
            least = 0
        here = counts.get(domain, 0) + _counts_itself(constraint, pod)
        if here - least > constraint["maxSkew"]:
            return f"{here} pods in {key} {domain}, {least} in the emptiest, maxSkew {constraint['maxSkew']}"
    return None


def _counts_itself(constraint: Manifest, pod: Manifest) -> bool:
    return selects(constraint.get("labelSelector"), labels_of(pod))


def _counts(
    view: View, constraint: Manifest, *, pod: Manifest, keys: list[str], others: Iterable[Placed]
) -> dict[str, int]:
    """Matching pods by domain, of the domains that count.

    A node counts where it has the labels of all constraints, and where the policies let it: by default only nodes that
    the pod's selector and affinity want, tainted or not. Pods that are terminating do not count.
    """
    domain_of = {
        name: labels_of(node)[constraint["topologyKey"]]
        for name, node in view.nodes.items()
        if all(key in labels_of(node) for key in keys) and _is_included(constraint, pod, node)
    }
    counts: dict[str, int] = dict.fromkeys(domain_of.values(), 0)
    for other in others:
        is_counted = namespace_of(other.pod) == namespace_of(pod) and not is_terminating(other.pod)
        if is_counted and other.node in domain_of and _is_counted(constraint, pod=pod, other=other.pod):
            counts[domain_of[other.node]] += 1
    return counts


def _is_counted(constraint: Manifest, *, pod: Manifest, other: Manifest) -> bool:
    if not selects(constraint.get("labelSelector"), labels_of(other)):
        return False
    mine, theirs = labels_of(pod), labels_of(other)
    keys: Iterable[Any] = constraint.get("matchLabelKeys") or ()
    return all(theirs.get(key) == mine[key] for key in keys if key in mine)


def _is_included(constraint: Mapping[str, Any], pod: Manifest, node: Manifest) -> bool:
    if (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor" and not is_node_wanted(pod, node):
        return False
    return (constraint.get("nodeTaintsPolicy") or "Ignore") == "Ignore" or not untolerated(pod, node)
