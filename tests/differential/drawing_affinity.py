"""Draws what pods say about other pods: affinity, anti-affinity and topology spread."""

import random
from collections.abc import Mapping

from tests.differential.drawing_cluster import APPS, HOST, PREFERRED, REQUIRED, ZONE
from tests.differential.drawing_pods import Drawer, Members, branch
from tests.differential.features import Feature
from tests.differential.scenarios import Manifest


def _terms(pod: Manifest, kind: str) -> list[Manifest]:
    terms: list[Manifest] = branch(pod["spec"], "affinity", kind).setdefault(REQUIRED, [])
    return terms


def _own(members: Members) -> Manifest:
    """Selects the gang's own pods."""
    return {"matchLabels": {"gang": members.name}}


def _somebody(draw: random.Random, members: Members) -> Manifest:
    return draw.choice(
        (
            _own(members),
            {"matchLabels": {"app": members.pods[0]["metadata"]["labels"]["app"]}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": draw.sample(APPS, k=2)}]},
        )
    )


def _pod_affinity(draw: random.Random, members: Members) -> None:
    term = {"topologyKey": draw.choice((ZONE, ZONE, HOST)), "labelSelector": _somebody(draw, members)}
    for pod in members.some(draw):
        _terms(pod, "podAffinity").append(dict(term))


def _anti_affinity_by(key: str) -> Drawer:
    def drawer(draw: random.Random, members: Members) -> None:
        term = {"topologyKey": key, "labelSelector": _somebody(draw, members)}
        # By zone hardly a whole gang fits: one or two of its pods keep away from the others.
        chosen = members.pods[: draw.choice((1, 2))] if key == ZONE else members.some(draw)
        for pod in chosen:
            _terms(pod, "podAntiAffinity").append(dict(term))

    return drawer


def _pod_preference(draw: random.Random, members: Members) -> None:
    term = {"topologyKey": ZONE, "labelSelector": _own(members)}
    kind = draw.choice(("podAffinity", "podAntiAffinity"))
    for pod in members.pods:
        branch(pod["spec"], "affinity", kind)[PREFERRED] = [{"weight": 50, "podAffinityTerm": dict(term)}]


def _namespace_selector(draw: random.Random, members: Members) -> None:
    """About the neighbour's pods, or about those of all namespaces."""
    term = {
        "topologyKey": draw.choice((HOST, ZONE)),
        "labelSelector": {"matchLabels": {"app": draw.choice((*APPS, "daemon"))}},
        "namespaceSelector": draw.choice(({"matchLabels": {"team": "blue"}}, {})),
    }
    kind = draw.choice(("podAntiAffinity", "podAntiAffinity", "podAffinity"))
    for pod in members.some(draw):
        _terms(pod, kind).append(dict(term))


def _affinity_label_keys(draw: random.Random, members: Members) -> None:
    """Only pods of the same version keep away from one another, or only those of another one."""
    kind = draw.choice(("matchLabelKeys", "mismatchLabelKeys"))
    for pod in members.pods:
        term = {"topologyKey": HOST, "labelSelector": _own(members), kind: ["version"]}
        _terms(pod, "podAntiAffinity").append(term)


def _spread(draw: random.Random, members: Members, **more: object) -> None:
    constraint = {
        "topologyKey": draw.choice((ZONE, HOST)),
        "maxSkew": draw.choice((1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": draw.choice((_own(members), _somebody(draw, members))),
        **more,
    }
    _constrain(members, constraint)


def _constrain(members: Members, constraint: Manifest) -> None:
    """Add it; the API allows one constraint for each topology key and effect."""
    for pod in members.pods:
        constraints = pod["spec"].setdefault("topologySpreadConstraints", [])
        taken = {(one["topologyKey"], one["whenUnsatisfiable"]) for one in constraints}
        free = [key for key in (constraint["topologyKey"], ZONE, HOST, "disk") if (key, DO_NOT) not in taken]
        if free:
            constraints.append({**constraint, "topologyKey": free[0]})


DO_NOT = "DoNotSchedule"


def _spread_soft(_draw: random.Random, members: Members) -> None:
    for pod in members.pods:
        pod["spec"].setdefault("topologySpreadConstraints", []).append(
            {
                "topologyKey": ZONE,
                "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": _own(members),
            }
        )


def _spread_min_domains(draw: random.Random, members: Members) -> None:
    _spread(draw, members, minDomains=draw.choice((2, 3, 4)))


def _spread_label_keys(draw: random.Random, members: Members) -> None:
    _spread(draw, members, matchLabelKeys=["version"])


def _spread_policies(draw: random.Random, members: Members) -> None:
    _spread(
        draw,
        members,
        nodeAffinityPolicy=draw.choice(("Honor", "Ignore", "Ignore")),
        nodeTaintsPolicy=draw.choice(("Honor", "Honor", "Ignore")),
    )


AFFINITY_DRAWERS: Mapping[Feature, Drawer] = {
    Feature.POD_AFFINITY: _pod_affinity,
    Feature.ANTI_AFFINITY_HOST: _anti_affinity_by(HOST),
    Feature.ANTI_AFFINITY_ZONE: _anti_affinity_by(ZONE),
    Feature.POD_PREFERENCE: _pod_preference,
    Feature.NAMESPACE_SELECTOR: _namespace_selector,
    Feature.AFFINITY_LABEL_KEYS: _affinity_label_keys,
    Feature.SPREAD: _spread,
    Feature.SPREAD_SOFT: _spread_soft,
    Feature.SPREAD_MIN_DOMAINS: _spread_min_domains,
    Feature.SPREAD_LABEL_KEYS: _spread_label_keys,
    Feature.SPREAD_POLICIES: _spread_policies,
}
