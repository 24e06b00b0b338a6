"""Label selectors, node selectors, taints and tolerations, as the API documents them."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.differential.checker.view import Manifest, labels_of, name_of


def selects(selector: Manifest | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector: nothing where it is null, everything where it is empty."""
    if selector is None:
        return False
    wanted: Mapping[str, str] = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        meets(requirement, labels) for requirement in selector.get("matchExpressions") or ()
    )


def meets(requirement: Manifest, labels: Mapping[str, str]) -> bool:
    """One requirement of a label or node selector."""
    key, values = requirement["key"], requirement.get("values") or []
    match requirement["operator"]:
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case "Gt" | "Lt" as operator:
            return key in labels and _compares(operator, labels[key], values[0])
    raise ValueError(f"operator {requirement['operator']}")


def _compares(operator: str, label: str, value: str) -> bool:
    """A label that is no integer is neither greater nor less."""
    try:
        left, right = int(label), int(value)
    except ValueError:
        return False
    return left > right if operator == "Gt" else left < right


def matches_terms(terms: Iterable[Manifest], node: Manifest) -> bool:
    """NodeSelectorTerms: one of them is enough; an empty term matches no node."""
    fields = {"metadata.name": name_of(node)}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(meets(one, labels_of(node)) for one in term.get("matchExpressions") or ())
        and all(meets(one, fields) for one in term.get("matchFields") or ())
        for term in terms
    )


def is_node_wanted(pod: Manifest, node: Manifest) -> bool:
    """What nodeSelector and required node affinity say together."""
    labels = labels_of(node)
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or matches_terms(required["nodeSelectorTerms"], node)


def untolerated(pod: Manifest, node: Manifest) -> list[Any]:
    """The taints that keep the pod away. PreferNoSchedule keeps nobody away."""
    return [
        taint
        for taint in node["spec"].get("taints") or ()
        if taint["effect"] in {"NoSchedule", "NoExecute"} and not is_tolerated(pod, taint)
    ]


def is_tolerated(pod: Manifest, taint: Manifest) -> bool:
    """Whether one of the pod's tolerations is about the taint."""
    return any(_tolerates(one, taint) for one in pod["spec"].get("tolerations") or ())


def _tolerates(toleration: Manifest, taint: Manifest) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    # An empty key goes with Exists only.
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
