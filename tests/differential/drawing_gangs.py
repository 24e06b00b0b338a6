"""Draws gangs: how many pods there are, and which features they have."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.differential.drawing_affinity import AFFINITY_DRAWERS
from tests.differential.drawing_cluster import APPS, TAINT_KEYS, ZONE, Site, pod_manifest
from tests.differential.drawing_pods import POD_DRAWERS, Drawer, Members
from tests.differential.drawing_volumes import VOLUME_DRAWERS
from tests.differential.features import OF_THE_PODS, SHAPES, Feature
from tests.differential.scenarios import Claim, GangCase, Manifest, StandingPod

_SHARE_OF_FEATURES = 0.128
"""Chance that a gang has a feature of its pods; with one to four gangs each feature is in a fifth of the seeds."""

_SHAPES = (*SHAPES, *SHAPES, Feature.EXTRA_MEMBERS, *[None] * 5)
"""To draw from."""

DRAWERS: Mapping[Feature, Drawer] = {**POD_DRAWERS, **AFFINITY_DRAWERS, **VOLUME_DRAWERS}


@dataclass(slots=True, kw_only=True)
class Drawn:
    """The gangs of a scenario, the volumes that they ask for, and members that run before."""

    gangs: list[GangCase] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    standing: list[StandingPod] = field(default_factory=list)


def draw_gangs(site: Site, draw: random.Random, *, nodes: tuple[Manifest, ...]) -> Drawn:
    """One to four gangs."""
    drawn = Drawn()
    for index in range(draw.randint(1, 4)):
        features = {one for one in OF_THE_PODS if draw.random() < _SHARE_OF_FEATURES}
        shape = draw.choice(_SHAPES)
        _add_gang(site, draw, nodes=nodes, drawn=drawn, name=f"gang-{index}", features=features, shape=shape)
    return drawn


def _add_gang(
    site: Site,
    draw: random.Random,
    *,
    nodes: tuple[Manifest, ...],
    drawn: Drawn,
    name: str,
    features: set[Feature],
    shape: Feature | None,
) -> None:
    count = 1 if shape is Feature.LONE_POD else draw.randint(2, 5)
    if count == 1:
        features -= {Feature.UNEQUAL_MEMBERS}
    members = Members(
        site=site,
        name=name,
        nodes=nodes,
        pods=_plain_pods(site, draw, name=name, count=count),
    )
    for feature in OF_THE_PODS:
        if feature in features:
            DRAWERS[feature](draw, members)
    if not members.is_tolerant and draw.random() < 0.5:
        _tolerate_some(draw, members)
    drawn.claims.extend(members.claims)
    case = _shaped(site, members, features=features, shape=shape)
    if shape is Feature.RUNNING_MEMBER:
        case = _with_one_running(case, drawn=drawn, node=draw.choice(nodes)["metadata"]["name"])
    drawn.gangs.append(case)


def _with_one_running(case: GangCase, *, drawn: Drawn, node: str) -> GangCase:
    """The first member is bound before the others come, wherever that leaves them."""
    first, *others = case.pods
    first["spec"]["nodeName"] = node
    drawn.standing.append(StandingPod(manifest=first))
    return replace(case, pods=tuple(others), wanted=case.wanted - 1)


def _plain_pods(site: Site, draw: random.Random, *, name: str, count: int) -> list[Manifest]:
    app = draw.choice((*APPS, name))
    cpu = draw.choice(("250m", "500m", "1", "1500m"))
    memory = draw.choice(("256Mi", "512Mi", "1Gi", "2Gi"))
    return [
        pod_manifest(
            f"{name}-{index}",
            namespace=site.namespace,
            labels={**site.labels, "app": app, "gang": name, "version": "v1"},
            cpu=cpu,
            memory=memory,
        )
        for index in range(count)
    ]


def _tolerate_some(draw: random.Random, members: Members) -> None:
    """Without this, tainted clusters would mostly refuse."""
    for pod in members.pods:
        pod["spec"].setdefault("tolerations", []).append({"key": draw.choice(TAINT_KEYS), "operator": "Exists"})


def _shaped(site: Site, members: Members, *, features: set[Feature], shape: Feature | None) -> GangCase:
    pods, count = members.pods, len(members.pods)
    wanted = count
    if shape in {Feature.EXTRA_MEMBERS, Feature.GATED_EXTRA}:
        wanted = count - 1
    elif shape is Feature.MISSING_MEMBERS:
        wanted = count + 1
    if shape is Feature.GATED_EXTRA:
        pods[-1]["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    all_features = frozenset(features | ({shape} if shape else set()))
    if shape is Feature.LONE_POD:
        return GangCase(name=pods[0]["metadata"]["name"], features=all_features, pods=tuple(pods), group=None, wanted=1)
    for pod in pods:
        pod["spec"]["schedulingGroup"] = {"podGroupName": members.name}
    policy: Manifest = {"basic": {}} if shape is Feature.BASIC_POLICY else {"gang": {"minCount": wanted}}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": members.name, "namespace": site.namespace, "labels": site.labels},
        "spec": {"schedulingPolicy": policy},
    }
    return GangCase(name=members.name, features=all_features, pods=tuple(pods), group=group, wanted=wanted)


__all__ = ("DRAWERS", "ZONE", "Drawn", "draw_gangs")
