"""Draws nodes and what already runs on them."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.differential.features import OF_THE_CLUSTER, Feature
from tests.differential.scenarios import SEED_LABEL, Fate, Manifest, StandingPod

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
GPU = "example.com/gpu"
CSI_DRIVER = "csi.example.com"
NODE_FEATURE = "RestartAllContainersOnContainerExits"
TAINT_KEYS = ("dedicated", "maintenance")
OTHER_SCHEDULER = "other-scheduler"

APPS = ("web", "db", "cache")
"""Labels that several gangs and standing pods share, so that their rules are about one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The names of a scenario, for those who draw its parts."""

    seed: int
    features: frozenset[Feature]

    @property
    def namespace(self) -> str:
        """Where the gangs are."""
        return f"seed-{self.seed}"

    @property
    def neighbour(self) -> str:
        """Another namespace, with pods that rules may be about."""
        return f"seed-{self.seed}-neighbour"

    @property
    def labels(self) -> dict[str, str]:
        """What every object carries."""
        return {SEED_LABEL: str(self.seed)}

    def node_name(self, index: int) -> str:
        """Name of a node."""
        return f"s{self.seed}-n{index}"


def draw_site(seed: int, draw: random.Random) -> Site:
    """What is special about the cluster."""
    return Site(seed=seed, features=frozenset(one for one in OF_THE_CLUSTER if draw.random() < 0.3))


def namespaces(site: Site) -> tuple[Manifest, ...]:
    """The namespaces with the labels that selectors are about."""
    teams = {site.namespace: "red", site.neighbour: "blue"}
    return tuple(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {**site.labels, "team": team}},
        }
        for name, team in teams.items()
    )


def draw_nodes(site: Site, draw: random.Random) -> tuple[Manifest, ...]:
    """Two to eight nodes of unequal size in up to three zones."""
    count = draw.randint(2, 8)
    nodes = [_node(site, draw, index=index, zones=draw.choice((2, 2, 3))) for index in range(count)]
    if Feature.TAINT in site.features:
        for node in draw.sample(nodes, k=max(1, draw.randint(0, count // 2))):
            node["spec"]["taints"] = _taints(draw)
    if Feature.CORDON in site.features:
        draw.choice(nodes)["spec"]["unschedulable"] = True
    return tuple(nodes)


def _taints(draw: random.Random) -> list[Manifest]:
    keys = draw.sample(TAINT_KEYS, k=draw.choice((1, 1, 2)))
    effects = ("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule")
    return [{"key": key, "value": draw.choice("ab"), "effect": draw.choice(effects)} for key in keys]


def _node(site: Site, draw: random.Random, *, index: int, zones: int) -> Manifest:
    name = site.node_name(index)
    slots = draw.randint(2, 5) if Feature.POD_SLOTS in site.features else 20
    resources = {
        "cpu": str(draw.randint(3, 9)),
        "memory": f"{draw.randint(4, 14)}Gi",
        "ephemeral-storage": "20Gi",
        "pods": str(slots),
    }
    if draw.random() < 0.5:
        resources[GPU] = str(draw.choice((1, 2, 4)))
    labels = {
        **site.labels,
        HOST: name,
        "disk": draw.choice(("ssd", "hdd")),
        "generation": str(draw.randint(1, 4)),
    }
    if draw.random() < 0.9:
        labels[ZONE] = f"zone-{index % zones}"
    if draw.random() < 0.4:
        labels["pool"] = draw.choice("ab")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "declaredFeatures": [NODE_FEATURE] if draw.random() < 0.6 else [],
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "there"}],
        },
    }


def pod_manifest(
    name: str, *, namespace: str, labels: dict[str, str], cpu: str, memory: str, scheduler: str = "default-scheduler"
) -> Manifest:
    """A pod of one container."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 3600,
            "containers": [
                {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
            ],
        },
    }


def draw_standing(site: Site, draw: random.Random, *, nodes: tuple[Manifest, ...]) -> tuple[StandingPod, ...]:
    """The pods that are bound before the first gang arrives."""
    names = [node["metadata"]["name"] for node in nodes]
    return tuple(_daemons(site, names)) + tuple(
        pod
        for feature, fates in _FATES.items()
        if feature in site.features
        for number in range(draw.randint(1, 3))
        for pod in (_standing(site, draw, names=names, feature=feature, number=number, fate=draw.choice(fates)),)
    )


_FATES = {
    Feature.FOREIGN_POD: (Fate.RUNNING,),
    Feature.TERMINATING_POD: (Fate.TERMINATING,),
    Feature.FINISHED_POD: (Fate.SUCCEEDED, Fate.FAILED),
    Feature.RESIZED_POD: (Fate.RUNNING,),
    Feature.RUNNING_ANTI_AFFINITY: (Fate.RUNNING,),
}


def _daemons(site: Site, names: list[str]) -> Iterator[StandingPod]:
    if Feature.DAEMON_POD not in site.features:
        return
    for name in names:
        pod = pod_manifest(
            f"daemon-{name}",
            namespace=site.neighbour,
            labels={**site.labels, "app": "daemon"},
            cpu="500m",
            memory="512Mi",
        )
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "daemon",
            "uid": "5c1f0c2e-0000-4000-8000-000000000001",
            "controller": True,
        }
        pod["metadata"]["ownerReferences"] = [owner]
        pod["spec"]["nodeName"] = name
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
        yield StandingPod(manifest=pod)


def _standing(
    site: Site, draw: random.Random, *, names: list[str], feature: Feature, number: int, fate: Fate
) -> StandingPod:
    labels = {**site.labels, "app": draw.choice(APPS), "version": draw.choice(("v1", "v2"))}
    name = f"{feature.value.replace(' ', '-')}-{number}"
    pod = pod_manifest(
        name,
        namespace=draw.choice((site.namespace, site.neighbour)),
        labels=labels,
        # What is finished would fill a node if it still counted; what terminates does.
        cpu="2" if fate is not Fate.RUNNING else draw.choice(("500m", "1", "1500m")),
        memory="2Gi" if fate is not Fate.RUNNING else draw.choice(("512Mi", "1Gi")),
        scheduler=OTHER_SCHEDULER,
    )
    pod["spec"]["nodeName"] = draw.choice(names)
    status = None
    if feature is Feature.RUNNING_ANTI_AFFINITY:
        pod["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [_against(site, draw)]}}
    if feature is Feature.RESIZED_POD:
        status = _resized_status(draw)
    return StandingPod(manifest=pod, fate=fate, status=status)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _against(site: Site, draw: random.Random) -> Manifest:
    return {
        "topologyKey": draw.choice((HOST, ZONE)),
        "labelSelector": {"matchLabels": {"app": draw.choice(APPS)}},
        "namespaces": [site.namespace],
    }


def _resized_status(draw: random.Random) -> Manifest:
    """A pod whose kubelet has not given back yet, or not got yet, what a resize is about."""
    allocated = {"cpu": draw.choice(("250m", "2")), "memory": draw.choice(("256Mi", "2Gi"))}
    actual = {"cpu": draw.choice(("250m", "2500m")), "memory": draw.choice(("256Mi", "3Gi"))}
    container = {
        "name": "main",
        "image": "none",
        "imageID": "none",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": "2026-07-01T12:00:00Z"}},
        "allocatedResources": allocated,
        "resources": {"requests": actual},
    }
    status: Manifest = {"phase": "Running", "containerStatuses": [container]}
    if draw.random() < 0.3:
        # A node that says so will never give more than it has allocated.
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    return status
