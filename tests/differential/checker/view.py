"""The objects of a cluster as rules look them up, and pods where they stand."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A pod on a node."""

    pod: Manifest
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Objects by what they are found by. `standing` are the pods that hold something: bound, and not finished."""

    nodes: Mapping[str, Manifest]
    namespace_labels: Mapping[str, Mapping[str, str]]
    claims: Mapping[tuple[str, str], Manifest]
    volumes: Mapping[str, Manifest]
    csi_nodes: Mapping[str, Manifest]
    standing: tuple[Placed, ...]


def view_of(objects: Iterable[Manifest]) -> View:
    """Sort the objects."""
    by_kind: dict[str, list[Manifest]] = {}
    for item in objects:
        by_kind.setdefault(item["kind"], []).append(item)
    return View(
        nodes={name_of(node): node for node in by_kind.get("Node", ())},
        namespace_labels={name_of(item): labels_of(item) for item in by_kind.get("Namespace", ())},
        claims={(namespace_of(item), name_of(item)): item for item in by_kind.get("PersistentVolumeClaim", ())},
        volumes={name_of(item): item for item in by_kind.get("PersistentVolume", ())},
        csi_nodes={name_of(item): item for item in by_kind.get("CSINode", ())},
        standing=tuple(
            Placed(pod=pod, node=pod["spec"]["nodeName"])
            for pod in by_kind.get("Pod", ())
            if pod["spec"].get("nodeName") and not is_finished(pod)
        ),
    )


def name_of(item: Manifest) -> str:
    """The object's name."""
    return str(item["metadata"]["name"])


def namespace_of(item: Manifest) -> str:
    """The object's namespace."""
    return str(item["metadata"]["namespace"])


def labels_of(item: Manifest) -> Mapping[str, str]:
    """The object's labels."""
    labels: Mapping[str, str] = item["metadata"].get("labels") or {}
    return labels


def is_finished(pod: Manifest) -> bool:
    """A pod that has ended holds nothing; one that is terminating does, until it has ended."""
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def is_terminating(pod: Manifest) -> bool:
    """Whether its deletion was asked for."""
    return bool(pod["metadata"].get("deletionTimestamp"))
