"""Gangs with devices for the binder's tests: claims made from a template, and hands that choose the devices."""

from collections.abc import Mapping
from typing import Any

from services.core.allocations import ClaimAllocation, ClaimRef, DeviceResult
from services.core.objects import GangId, NodeName, Uid
from tests import device_checker
from tests.integration.binder.harness import Scene, pod_spec

DRIVER = "gpu.example.com"
CLASS = "gpu"
TEMPLATE = "one-gpu"
REQUESTS = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}

Manifest = dict[str, Any]


def device_gang(
    scene: Scene, name: str, *, size: int, shared: str = "", **metadata: Any
) -> tuple[GangId, tuple[str, ...]]:
    """A gang whose members each have a claim of their own, and perhaps one that all share; returns it and its pods."""
    gang = scene.gang(name, size=size)
    if (
        scene.sandbox.store.find("resourceclaimtemplates", group="resource.k8s.io", namespace="team-a", name=TEMPLATE)
        is None
    ):
        scene.create("DeviceClass", {"metadata": {"name": CLASS}, "spec": {}})
        scene.create("ResourceClaimTemplate", {"metadata": {"name": TEMPLATE}, "spec": {"spec": REQUESTS}})
    entries: list[Manifest] = [{"name": "own", "resourceClaimTemplateName": TEMPLATE}]
    entries += [{"name": "shared", "resourceClaimName": shared}] if shared else []
    names = tuple(f"{name}-{number}" for number in range(size))
    for pod in names:
        spec = pod_spec(name, gpus=0) | {"resourceClaims": entries}
        scene.create("Pod", {"metadata": {"name": pod, **metadata}, "spec": spec})
    return gang, names


def uid_of(scene: Scene, pod: str) -> Uid:
    """Return the uid of a pod."""
    found = scene.pod(pod)
    assert found is not None
    return Uid(found["metadata"]["uid"])


def device(name: str, *, node: str, **given: Any) -> DeviceResult:
    """A device of a node's pool."""
    return DeviceResult(request="gpu", driver=DRIVER, pool=node, device=name, **given)


def own_claims(scene: Scene, nodes: Mapping[str, str], **given: Any) -> tuple[ClaimAllocation, ...]:
    """What a placer gives: to each pod a device of its own on its node, named after the pod."""
    return tuple(
        ClaimAllocation(
            ref=ClaimRef(namespace="team-a", pod=uid_of(scene, pod), entry="own"),
            consumers=(uid_of(scene, pod),),
            results=(device(f"gpu-of-{pod}", node=node, **given),),
            node=NodeName(node),
        )
        for pod, node in nodes.items()
    )


def claims(scene: Scene) -> list[Manifest]:
    """Return all claims of the test's namespace."""
    return scene.sandbox.store.objects("resourceclaims", group="resource.k8s.io", namespace="team-a")


def claim_of(scene: Scene, pod: str, *, entry: str = "own") -> Manifest:
    """Return the claim that was made for a pod."""
    found = scene.pod(pod) or {}
    names = {one["name"]: one["resourceClaimName"] for one in found.get("status", {}).get("resourceClaimStatuses", ())}
    return next(one for one in claims(scene) if one["metadata"]["name"] == names[entry])


def is_free(claim: Manifest) -> bool:
    """Tell whether nothing of ours is left in a claim."""
    is_marked = "phalanx.dev/transaction" in (claim["metadata"].get("annotations") or {})
    return not claim.get("status", {}).get("allocation") and not claim["metadata"].get("finalizers") and not is_marked


def judged(scene: Scene) -> list[str]:
    """Return what is wrong with devices."""
    return device_checker.problems(claims=claims(scene), pods=scene.pod_manifests())


def set_conditions(scene: Scene, claim: Manifest, **conditions: str) -> None:
    """Play the driver: say the state of a claim's only device."""
    cluster = scene.sandbox.cluster
    kind = cluster.store.kind("resourceclaims", group="resource.k8s.io")
    stored = cluster.store.get(kind, namespace="team-a", name=claim["metadata"]["name"])
    assert stored is not None
    result = stored.obj["status"]["allocation"]["devices"]["results"][0]
    said = {name: result[name] for name in ("driver", "pool", "device")} | {
        "conditions": [{"type": name, "status": status} for name, status in conditions.items()]
    }
    cluster.writer.commit(stored, {**stored.obj, "status": {**stored.obj["status"], "devices": [said]}})
