"""Draws claims that are bound to volumes already, and the limits of nodes for attaching them."""

import random
from collections.abc import Mapping

from tests.differential.drawing_cluster import CSI_DRIVER, HOST, ZONE, Site
from tests.differential.drawing_pods import Drawer, Members
from tests.differential.features import Feature
from tests.differential.scenarios import Claim, Manifest

_DONE = {"pv.kubernetes.io/bind-completed": "yes"}


def bound_claim(site: Site, name: str, *, mode: str, terms: list[Manifest] | None = None) -> Claim:
    """A claim with its volume; `terms` are the node selector terms of the volume."""
    volume_name = f"{site.namespace}-{name}"
    source: Manifest = {"csi": {"driver": CSI_DRIVER, "volumeHandle": volume_name}}
    specification: Manifest = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "claimRef": {"namespace": site.namespace, "name": name},
        **source,
    }
    if terms is not None:
        specification["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return Claim(
        claim={
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": site.namespace,
                "labels": site.labels,
                "annotations": dict(_DONE),
            },
            "spec": {
                "accessModes": [mode],
                "storageClassName": "",
                "volumeName": volume_name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
        volume={
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume_name, "labels": site.labels},
            "spec": specification,
        },
    )


def _mount(pod: Manifest, claim: Claim) -> None:
    name = claim.claim["metadata"]["name"]
    pod["spec"].setdefault("volumes", []).append({"name": name, "persistentVolumeClaim": {"claimName": name}})


def _volume_affinity(draw: random.Random, members: Members) -> None:
    node = draw.choice(members.nodes)["metadata"]
    by_host = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [node["name"]]}]}]
    by_zone = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["zone-0", "zone-2"]}]}]
    claim = bound_claim(
        members.site, f"{members.name}-data", mode="ReadWriteMany", terms=draw.choice((by_host, by_zone, by_zone))
    )
    if draw.random() < 0.4:
        claim.volume["metadata"]["labels"] = {**members.site.labels, ZONE: "zone-0"}
    members.claims.append(claim)
    for pod in members.some(draw):
        _mount(pod, claim)


def _volume_once_pod(draw: random.Random, members: Members) -> None:
    """One pod may use it: a second one never starts."""
    claim = bound_claim(members.site, f"{members.name}-once", mode="ReadWriteOncePod")
    members.claims.append(claim)
    for pod in members.pods[: draw.choice((1, 1, 1, 2))]:
        _mount(pod, claim)


def _volume_limit(draw: random.Random, members: Members) -> None:
    """Each pod has a volume of its own, and one volume that all share counts once for each node."""
    shared = bound_claim(members.site, f"{members.name}-shared", mode="ReadWriteMany")
    is_shared = draw.random() < 0.4
    for index, pod in enumerate(members.some(draw)):
        claim = shared if is_shared else bound_claim(members.site, f"{members.name}-{index}", mode="ReadWriteOnce")
        if claim not in members.claims:
            members.claims.append(claim)
        _mount(pod, claim)


def attach_limits(site: Site, draw: random.Random, *, nodes: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
    """A CSINode for most of the nodes, with room for few volumes."""
    return tuple(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": node["metadata"]["name"], "labels": site.labels},
            "spec": {
                "drivers": [
                    {
                        "name": CSI_DRIVER,
                        "nodeID": node["metadata"]["name"],
                        "allocatable": {"count": draw.choice((1, 2, 3))},
                        "topologyKeys": [],
                    }
                ]
            },
        }
        for node in nodes
        if draw.random() < 0.9
    )


VOLUME_DRAWERS: Mapping[Feature, Drawer] = {
    Feature.VOLUME_AFFINITY: _volume_affinity,
    Feature.VOLUME_ONCE_POD: _volume_once_pod,
    Feature.VOLUME_LIMIT: _volume_limit,
}
