"""Kubernetes manifests as people give them, turned into core objects: YAML or JSON, several documents, Lists."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from services.core.objects import Kind, KubernetesObject, Pod
from services.core.reduce import MalformedObject, reduce

KINDS: Mapping[str, Kind] = {
    "Node": Kind.NODE,
    "Pod": Kind.POD,
    "PodGroup": Kind.POD_GROUP,
    "Workload": Kind.WORKLOAD,
    "PriorityClass": Kind.PRIORITY_CLASS,
    "Namespace": Kind.NAMESPACE,
    "ResourceSlice": Kind.RESOURCE_SLICE,
    "ResourceClaim": Kind.RESOURCE_CLAIM,
    "ResourceClaimTemplate": Kind.RESOURCE_CLAIM_TEMPLATE,
    "DeviceClass": Kind.DEVICE_CLASS,
    "DeviceTaintRule": Kind.DEVICE_TAINT_RULE,
}

_NAMESPACED = {Kind.POD, Kind.POD_GROUP, Kind.WORKLOAD, Kind.RESOURCE_CLAIM, Kind.RESOURCE_CLAIM_TEMPLATE}


class UnreadableManifest(ValueError):
    """Text that is not manifests; the message names the object and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """What some manifests state. `skipped` counts objects of kinds that placement does not read."""

    objects: tuple[KubernetesObject, ...]
    skipped: int = 0


def read_manifests(text: str | bytes) -> Manifests:
    """Return the objects of a manifest text.

    An object without a uid gets one from its kind and name, one without a namespace lands in `default`. Raises
    UnreadableManifest.
    """
    objects = []
    skipped = 0
    try:
        for manifest in _documents(text):
            kind = KINDS.get(str(manifest.get("kind")))
            if kind is None:
                skipped += 1
            else:
                objects.append(_named(kind, reduce(kind, _identified(kind, manifest))))
    except yaml.YAMLError as error:
        raise UnreadableManifest(f"not YAML or JSON: {error}") from error
    except MalformedObject as error:
        raise UnreadableManifest(str(error)) from error
    return Manifests(objects=tuple(objects), skipped=skipped)


def _documents(text: str | bytes) -> Iterator[Mapping[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for document in yaml.load_all(text, Loader=loader):
        if document is None:
            continue
        if not isinstance(document, dict):
            raise UnreadableManifest(f"expected a Kubernetes object, got {type(document).__name__}")
        if str(document.get("kind", "")).endswith("List"):
            items = document.get("items")
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise UnreadableManifest(f"{document['kind']}: expected a list of objects in items")
            yield from items
        else:
            yield document


def _identified(kind: Kind, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the manifest with what an API server would add to identify it."""
    given = manifest.get("metadata") or {}
    if not isinstance(given, dict):
        return manifest
    metadata = dict(given)
    if kind in _NAMESPACED:
        metadata.setdefault("namespace", "default")
    metadata.setdefault("uid", f"{kind.value}/{metadata.get('namespace', '')}/{metadata.get('name', '')}")
    for name in ("creationTimestamp", "deletionTimestamp"):
        if hasattr(metadata.get(name), "isoformat"):
            # YAML reads unquoted timestamps as times.
            metadata[name] = metadata[name].isoformat() + ("" if metadata[name].tzinfo else "+00:00")
    return {**manifest, "metadata": metadata}


def _named(kind: Kind, item: KubernetesObject) -> KubernetesObject:
    """Return the object, whose names an API server would have checked. Raises UnreadableManifest."""
    metadata = item.metadata
    names = {"metadata.name": metadata.name, "metadata.namespace": metadata.namespace}
    if isinstance(item, Pod):
        names["spec.schedulingGroup.podGroupName"] = item.group
    for field, name in names.items():
        if "/" in name:
            where = f"{kind.value} {metadata.namespace}/{metadata.name}"
            raise UnreadableManifest(f"{where}: {field}: expected a name without '/', got {name!r}; correct this field")
    return item
