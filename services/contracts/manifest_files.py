"""Kubernetes manifests as people give them, turned into core objects: YAML or JSON, several documents, Lists.

What was not submitted yet is read as an API server and the controllers would complete it: `manifest_admission` and
`manifest_workloads`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from services.contracts.manifest_admission import admitted, priorities_of
from services.contracts.manifest_kinds import is_namespaced, kind_of_manifest
from services.contracts.manifest_workloads import is_workload, objects_of
from services.core.manifests import FieldError, shortened
from services.core.objects import KubernetesObject, Pod
from services.core.reduce import MalformedObject, reduce

_DEEPEST_LIST = 8


class UnreadableManifest(ValueError):
    """Text that is not manifests; the message names the object and the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """What some manifests state. `skipped` counts objects of kinds that placement does not read."""

    objects: tuple[KubernetesObject, ...]
    skipped: int = 0


def read_manifests(text: str | bytes) -> Manifests:
    """Return the objects of a manifest text, and the pods that its workloads would have.

    An object without a uid gets one from its kind and name, one without a namespace lands in `default`. Raises
    UnreadableManifest.
    """
    try:
        documents = list(_documents(text))
        priorities = priorities_of(documents)
        found = [_objects_of(document, priorities=priorities) for document in documents]
    except yaml.YAMLError as error:
        raise UnreadableManifest(f"not YAML or JSON: {_in_one_line(error)}") from error
    except MalformedObject as error:
        raise UnreadableManifest(str(error)) from error
    objects = tuple(item for one in found for item in one or ())
    _check_names(objects)
    return Manifests(objects=objects, skipped=sum(one is None for one in found))


def _in_one_line(error: yaml.YAMLError) -> str:
    """Return what is wrong and in which line. The reader's own text names a file `<byte string>`."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return " ".join(str(error).split())
    mark = error.problem_mark or error.context_mark
    where = f" (line {mark.line + 1})" if mark else ""
    return ", ".join(filter(None, (error.context, error.problem))) + where


def _objects_of(manifest: Mapping[str, Any], *, priorities: Mapping[str, int]) -> tuple[KubernetesObject, ...] | None:
    """Return what one document states, or None for a kind that placement does not read."""
    kind = kind_of_manifest(manifest)
    stands_for_pods = is_workload(manifest)
    if kind is None and not stands_for_pods:
        return None
    word = str(manifest.get("kind")) if kind is None or stands_for_pods else kind.value
    identified = _identified(manifest, word=word, is_namespaced=is_namespaced(kind))
    try:
        if kind is None or stands_for_pods:
            return objects_of(identified, priorities=priorities)
        # Whether it was admitted shows before it gets a uid.
        complete = {**admitted(kind, manifest, priorities=priorities), "metadata": identified.get("metadata")}
        return (_named(reduce(kind, complete)),)
    except FieldError as error:
        metadata = identified.get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        where = "/".join(str(named[key]) for key in ("namespace", "name") if named.get(key))
        raise UnreadableManifest(
            f"{word} {where}: {error.field}: expected {error.expected}, got {shortened(error.got)}; correct this field"
        ) from error


def _check_names(objects: tuple[KubernetesObject, ...]) -> None:
    """Refuse two pods of one name: the second would silently replace the first.

    Not where both were read from a cluster, at two moments: there the later version is the one that counts.
    """
    seen: dict[tuple[str, str], Pod] = {}
    for item in objects:
        if not isinstance(item, Pod):
            continue
        key = (item.metadata.namespace, item.metadata.name)
        other = seen.setdefault(key, item)
        has_versions = other.metadata.resource_version and item.metadata.resource_version
        if other is not item and not has_versions:
            owners = " and ".join(_origin(one) for one in (other, item))
            raise UnreadableManifest(f"pod {'/'.join(key)} is stated twice ({owners}); rename one of them")


def _origin(pod: Pod) -> str:
    return ", ".join(f"of {owner.kind} {owner.name}" for owner in pod.metadata.owners) or "as a pod"


def _documents(text: str | bytes) -> Iterator[Mapping[str, Any]]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for document in yaml.load_all(text, Loader=loader):
        if document is None:
            continue
        if not isinstance(document, dict):
            raise UnreadableManifest(f"expected a Kubernetes object, got {type(document).__name__}")
        yield from _items_of(document, depth=0)


def _items_of(document: Mapping[str, Any], *, depth: int) -> Iterator[Mapping[str, Any]]:
    """Yield a document, or what is in it where it is a list; lists may hold lists."""
    if not str(document.get("kind", "")).endswith("List"):
        yield document
        return
    items = document.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise UnreadableManifest(f"{document['kind']}: expected a list of objects in items")
    if depth > _DEEPEST_LIST:
        raise UnreadableManifest(f"{document['kind']}: expected lists at most {_DEEPEST_LIST} deep in one another")
    for item in items:
        yield from _items_of(item, depth=depth + 1)


def _identified(manifest: Mapping[str, Any], *, word: str, is_namespaced: bool) -> Mapping[str, Any]:
    """Return the manifest with what an API server would add to identify it."""
    given = manifest.get("metadata") or {}
    if not isinstance(given, dict):
        return manifest
    metadata = dict(given)
    if is_namespaced:
        metadata["namespace"] = metadata.get("namespace") or "default"
    metadata["uid"] = metadata.get("uid") or f"{word}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    for name in ("creationTimestamp", "deletionTimestamp"):
        if hasattr(metadata.get(name), "isoformat"):
            # YAML reads unquoted timestamps as times.
            metadata[name] = metadata[name].isoformat() + ("" if metadata[name].tzinfo else "+00:00")
    return {**manifest, "metadata": metadata}


def _named(item: KubernetesObject) -> KubernetesObject:
    """Return the object, whose names an API server would have checked. Raises FieldError."""
    names = {"metadata.name": item.metadata.name, "metadata.namespace": item.metadata.namespace}
    if isinstance(item, Pod):
        names["spec.schedulingGroup.podGroupName"] = item.group
    for field, name in names.items():
        if "/" in name:
            raise FieldError(field=field, expected="a name without '/'", got=name)
    return item
