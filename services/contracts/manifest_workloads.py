"""The pods that a controller would make of a workload, so that a plan can be asked for the files that people have.

Only workloads that no API server has stored yet are read: of the others, the pods themselves are what counts.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from services.contracts.manifest_admission import admitted, is_admitted
from services.core.manifests import FieldError, integer_at, mapping_at, text_at
from services.core.objects import Kind, Owner, Pod, Uid
from services.core.reduce import MalformedObject, reduce

MAX_IMAGINED_PODS = 4096
"""Pods that one workload may stand for."""

_GROUPS = {"Job": "batch", "Deployment": "apps", "ReplicaSet": "apps", "StatefulSet": "apps"}


def is_workload(manifest: Mapping[str, Any]) -> bool:
    """Tell whether this is a workload of Kubernetes itself that does not run yet.

    Other platforms have kinds of the same names in groups of their own, such as the Jobs of Volcano.
    """
    group, slash, _ = str(manifest.get("apiVersion") or "").partition("/")
    wanted = _GROUPS.get(str(manifest.get("kind")))
    return wanted is not None and (group == wanted if slash else not group) and not is_admitted(manifest)


def pods_of(manifest: Mapping[str, Any], *, priorities: Mapping[str, int]) -> tuple[Pod, ...]:
    """Return the pods of a workload, whose metadata has name, namespace and uid. Raises FieldError.

    They are named `<workload>-<index>`. A suspended Job counts as if it were resumed: that is what one asks about.
    """
    metadata = mapping_at(manifest, "metadata", at="metadata")
    name = text_at(metadata, "name", at="metadata.name")
    if not name:
        raise FieldError(field="metadata.name", expected="a name", got=name)
    spec = mapping_at(manifest, "spec", at="spec")
    template = mapping_at(spec, "template", at="spec.template")
    if not template.get("spec"):
        raise FieldError(field="spec.template.spec", expected="the pods' spec", got=template.get("spec"))
    owner = Owner(
        kind=str(manifest["kind"]),
        name=name,
        uid=Uid(str(metadata["uid"])),
        is_controller=True,
        api_version=str(manifest.get("apiVersion") or ""),
    )
    pod = _first_pod(template, name=name, namespace=str(metadata["namespace"]), priorities=priorities)
    return tuple(_replica(pod, name=f"{name}-{index}", owner=owner) for index in range(_count(manifest, spec)))


def _count(manifest: Mapping[str, Any], spec: Mapping[str, Any]) -> int:
    """Return how many pods there would be at once."""
    key = "parallelism" if manifest["kind"] == "Job" else "replicas"
    count = integer_at(spec, key, at=f"spec.{key}", default=1)
    if key == "parallelism":
        count = min(count, integer_at(spec, "completions", at="spec.completions", default=count))
    if not 0 <= count <= MAX_IMAGINED_PODS:
        raise FieldError(field=f"spec.{key}", expected=f"0 to {MAX_IMAGINED_PODS} pods", got=count)
    return count


def _first_pod(template: Mapping[str, Any], *, name: str, namespace: str, priorities: Mapping[str, int]) -> Pod:
    """Return the template as a pod; what is wrong is told by its path in the workload."""
    metadata = mapping_at(template, "metadata", at="spec.template.metadata")
    given = {key: metadata.get(key) for key in ("labels", "annotations")}
    manifest = {"metadata": {**given, "name": name, "namespace": namespace}, "spec": template["spec"]}
    try:
        pod = reduce(Kind.POD, admitted(Kind.POD, manifest, priorities=priorities))
    except (FieldError, MalformedObject) as error:
        raise FieldError(field=f"spec.template.{error.field}", expected=error.expected, got=error.got) from error
    if not isinstance(pod, Pod):
        raise TypeError(f"a template of {name} became {pod}")
    if "/" in pod.group:
        field = "spec.template.spec.schedulingGroup.podGroupName"
        raise FieldError(field=field, expected="a name without '/'", got=pod.group)
    return pod


def _replica(pod: Pod, *, name: str, owner: Owner) -> Pod:
    uid = Uid(f"{owner.uid}/{name}")
    return replace(pod, metadata=replace(pod.metadata, name=name, uid=uid, owners=(owner,)))
