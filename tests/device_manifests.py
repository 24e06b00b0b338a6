"""Manifests of devices for tests that talk to an API server: what drivers and people create."""

from collections.abc import Iterable
from typing import Any

DRIVER, DEVICE_CLASS, TEMPLATE = "gpu.example.com", "gpu", "one-gpu"

Manifest = dict[str, Any]


def class_manifest() -> Manifest:
    """Return the DeviceClass of every device of the driver."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return _object("DeviceClass", {"name": DEVICE_CLASS}, {"selectors": [selector]})


def slice_manifest(node: str, *, count: int, first: int = 0) -> Manifest:
    """Return the pool of a node, with so many devices."""
    spec = {
        "driver": DRIVER,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "nodeName": node,
        "devices": [{"name": f"gpu-{first + number}"} for number in range(count)],
    }
    return _object("ResourceSlice", {"name": f"{DRIVER}-{node}"}, spec)


def template_manifest(*, namespace: str) -> Manifest:
    """Return the template of claims for one device."""
    return _object("ResourceClaimTemplate", {"name": TEMPLATE, "namespace": namespace}, {"spec": _one_device()})


def claim_manifest(name: str, *, namespace: str) -> Manifest:
    """Return a claim for one device, which pods name themselves."""
    return _object("ResourceClaim", {"name": name, "namespace": namespace}, _one_device())


def taint_rule_manifest(name: str, *, pool: str, device: str = "", effect: str = "NoExecute") -> Manifest:
    """Return a rule that taints a pool, or one device of it."""
    selector = {"driver": DRIVER, "pool": pool} | ({"device": device} if device else {})
    spec = {"deviceSelector": selector, "taint": {"key": "example.com/broken", "effect": effect}}
    return _object("DeviceTaintRule", {"name": name}, spec)


def with_template(pod: Manifest) -> Manifest:
    """Return a pod with a claim of its own, made from the template."""
    return _with_claim(pod, {"name": "gpu", "resourceClaimTemplateName": TEMPLATE})


def with_claim(pod: Manifest, claim: str) -> Manifest:
    """Return a pod that names a claim."""
    return _with_claim(pod, {"name": "gpu", "resourceClaimName": claim})


def pools(nodes: Iterable[str], *, count: int) -> list[Manifest]:
    """Return the class, and a pool for each node."""
    return [class_manifest(), *(slice_manifest(node, count=count) for node in nodes)]


def _with_claim(pod: Manifest, entry: Manifest) -> Manifest:
    first, *others = pod["spec"]["containers"]
    container = {**first, "resources": {**first.get("resources", {}), "claims": [{"name": "gpu"}]}}
    return {**pod, "spec": {**pod["spec"], "resourceClaims": [entry], "containers": [container, *others]}}


def _one_device() -> Manifest:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DEVICE_CLASS}}]}}


def _object(kind: str, metadata: Manifest, spec: Manifest) -> Manifest:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
