"""The node selector of an allocation: what all its devices demand of a node, merged into one term."""

import json
from collections.abc import Iterable
from typing import Any

from services.core.devices.reading import decoded, encoded
from services.core.devices.values import NodeRule


def merged_selector(rules: Iterable[NodeRule]) -> bytes:
    """Return a NodeSelector with the requirements of all rules, empty where none demands anything.

    A selector of a slice has one term (the API server sees to it), and a requirement that is there is not repeated.
    """
    term: dict[str, list[Any]] = {"matchExpressions": [], "matchFields": []}
    for rule in rules:
        terms = decoded(rule.selector_json, at="nodeSelector").get("nodeSelectorTerms") or ()
        for one in terms[:1]:
            for key, known in term.items():
                for requirement in one.get(key) or ():
                    if _same(requirement) not in [_same(other) for other in known]:
                        known.append(requirement)
    found = {key: requirements for key, requirements in term.items() if requirements}
    return encoded({"nodeSelectorTerms": [found]}) if found else b""


def _same(requirement: dict[str, Any]) -> str:
    values = sorted(requirement.get("values") or ())
    return json.dumps([requirement.get("key"), requirement.get("operator"), values])
