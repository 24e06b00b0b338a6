"""Whether selectors select: labels of pods and of namespaces, as apimachinery compares them."""

from collections.abc import Iterable, Mapping

from services.core.constraints import LabelSelector, NodeRequirement, PodRules, PodTerm

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The API server sets it on every namespace."""

NamespaceLabels = Mapping[str, Mapping[str, str]]
"""Labels of namespaces, by name."""


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a selector selects something with these labels; None selects nothing, an empty one everything."""
    return selector is not None and all(requirement_holds(one, labels) for one in selector.requirements)


def means(term: PodTerm, *, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
    """Tell whether a term means a pod: by its namespace, or that namespace's labels, and by its own labels."""
    is_here = namespace in term.namespaces or selects(term.namespace_selector, namespace_labels)
    return is_here and selects(term.selector, labels)


def labels_of_namespace(namespaces: NamespaceLabels, name: str) -> Mapping[str, str]:
    """Return a namespace's labels; of one that is not known, those that every namespace has."""
    return namespaces.get(name) or {NAMESPACE_NAME_LABEL: name}


def keys_read(rules: PodRules) -> frozenset[str]:
    """Return the label keys of pods on which the rules of a pod look."""
    return frozenset(
        requirement.key
        for selector in _selectors(rules)
        if selector is not None
        for requirement in selector.requirements
    )


def keys_of(terms: Iterable[PodTerm]) -> frozenset[str]:
    """Return the label keys of pods on which terms look."""
    return frozenset(
        requirement.key for term in terms if term.selector is not None for requirement in term.selector.requirements
    )


def _selectors(rules: PodRules) -> Iterable[LabelSelector | None]:
    yield from (term.selector for term in (*rules.affinity, *rules.anti_affinity))
    yield from (one.selector for one in rules.spread)
    yield from (one.term.selector for one in rules.preferred_pods)


def requirement_holds(requirement: NodeRequirement, labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet a requirement of a label selector, which knows no comparison of numbers."""
    found = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return found is not None and found in requirement.values
        case "NotIn":
            return found is None or found not in requirement.values
        case "Exists":
            return found is not None
        case "DoesNotExist":
            return found is None
        case _:
            return False
