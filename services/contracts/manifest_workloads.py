"""The pods that a controller would make of a workload, so that a plan can be asked for the files that people have.

Only workloads that no API server has stored yet are read so: of the others, the pods themselves are what counts. Pods
get the labels and owners that their controller would give them, and are grouped by these as live ones are.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from services.contracts.manifest_admission import admitted, is_admitted
from services.contracts.manifest_kinds import group_of
from services.contracts.manifest_templates import MAX_IMAGINED_PODS, TEMPLATES, ImaginedPods
from services.core.manifests import FieldError, mapping_at, text_at
from services.core.objects import GroupSource, Job, Kind, KubernetesObject, Metadata, Owner, Pod, Uid
from services.core.reduce import MalformedObject, reduce

_SOURCES: Mapping[str, Kind] = {
    "Job": Kind.JOB,
    "JobSet": Kind.JOB_SET,
    "LeaderWorkerSet": Kind.LEADER_WORKER_SET,
    "RayCluster": Kind.RAY_CLUSTER,
    "PyTorchJob": Kind.PYTORCH_JOB,
    "TFJob": Kind.TF_JOB,
    "MPIJob": Kind.MPI_JOB,
}
"""Workloads that are objects of placement themselves."""

_WRAPPERS = {"RayJob": "rayClusterSpec", "RayService": "rayClusterConfig"}
"""Kinds that make a RayCluster of a part of their spec."""


def is_workload(manifest: Mapping[str, Any]) -> bool:
    """Tell whether this is a workload that does not run yet.

    Other platforms have kinds of the same names in groups of their own, such as the Jobs of Volcano.
    """
    kind = str(manifest.get("kind"))
    found = TEMPLATES.get("RayCluster" if kind in _WRAPPERS else kind)
    group = group_of(manifest)
    return found is not None and group in {None, found.group} and not is_admitted(manifest)


def objects_of(manifest: Mapping[str, Any], *, priorities: Mapping[str, int]) -> tuple[KubernetesObject, ...]:
    """Return a workload whose metadata has name, namespace and uid, and its pods. Raises FieldError.

    A suspended one counts as if it were resumed: that is what one asks about.
    """
    manifest = _unwrapped(manifest)
    metadata = mapping_at(manifest, "metadata", at="metadata")
    name = text_at(metadata, "name", at="metadata.name")
    if not name:
        raise FieldError(field="metadata.name", expected="a name", got=name)
    word = str(manifest["kind"])
    kind = _SOURCES.get(word)
    sources: list[KubernetesObject] = []
    if kind is not None:
        sources.append(_resumed(_reduced(kind, manifest)))
    root = Owner(
        kind=word,
        name=name,
        uid=Uid(str(metadata["uid"])),
        is_controller=True,
        api_version=str(manifest.get("apiVersion") or f"{TEMPLATES[word].group}/v1"),
    )
    making = _Making(namespace=str(metadata["namespace"]), root=root, priorities=priorities)
    for imagined in TEMPLATES[word].read(name, mapping_at(manifest, "spec", at="spec")):
        making.add(imagined)
    return (*sources, *making.between.values(), *making.pods)


def _unwrapped(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the RayCluster that a RayJob or RayService would make, under the name of its maker."""
    key = _WRAPPERS.get(str(manifest["kind"]))
    if key is None:
        return manifest
    spec = mapping_at(mapping_at(manifest, "spec", at="spec"), key, at=f"spec.{key}")
    if not spec:
        raise FieldError(field=f"spec.{key}", expected="the spec of a RayCluster", got=None)
    return {**manifest, "kind": "RayCluster", "spec": spec}


def _reduced(kind: Kind, manifest: Mapping[str, Any]) -> KubernetesObject:
    """Return an object as placement reads it. Raises FieldError: whoever asks names the object as people write it."""
    try:
        return reduce(kind, manifest)
    except MalformedObject as error:
        raise FieldError(field=error.field, expected=error.expected, got=error.got) from error


def _resumed(item: KubernetesObject) -> KubernetesObject:
    return replace(item, is_suspended=False) if isinstance(item, Job | GroupSource) else item


@dataclass(slots=True, kw_only=True)
class _Making:
    """The pods of one workload as they are made, and the objects between them and it."""

    namespace: str
    root: Owner
    priorities: Mapping[str, int]
    pods: list[Pod] = field(default_factory=list)
    between: dict[Uid, KubernetesObject] = field(default_factory=dict)

    def add(self, imagined: ImaginedPods) -> None:
        """Make the pods of one template. Raises FieldError."""
        if not imagined.template.get("spec"):
            got = imagined.template.get("spec")
            raise FieldError(field=f"{imagined.at}.spec", expected="the pods' spec", got=got)
        count = len(imagined.names) + len(self.pods)
        if count > MAX_IMAGINED_PODS:
            raise FieldError(field=imagined.counted_by, expected=f"at most {MAX_IMAGINED_PODS} pods", got=count)
        if not imagined.names:
            return
        first = _first_pod(imagined, namespace=self.namespace, priorities=self.priorities)
        owner = self.root if imagined.owner is None else self._between(imagined.owner)
        for name, own in zip(imagined.names, imagined.labels or ({},) * len(imagined.names), strict=True):
            metadata = replace(
                first.metadata,
                name=name,
                uid=Uid(f"{owner.uid}/{name}"),
                owners=(owner,),
                labels={**first.metadata.labels, **own},
            )
            self.pods.append(replace(first, metadata=metadata))

    def _between(self, given: tuple[str, str]) -> Owner:
        """Return an owner between pods and workload, as kind and name, which is made where it was not yet."""
        word, name = given
        uid = Uid(f"{self.root.uid}/{word}/{name}")
        metadata = Metadata(name=name, namespace=self.namespace, uid=uid, owners=(self.root,))
        if word == "Job":
            self.between[uid] = Job(metadata=metadata)
            return Owner(kind=word, name=name, uid=uid, is_controller=True, api_version="batch/v1")
        self.between[uid] = GroupSource(metadata=metadata, kind=Kind.STATEFUL_SET)
        return Owner(kind=word, name=name, uid=uid, is_controller=True, api_version="apps/v1")


def _first_pod(imagined: ImaginedPods, *, namespace: str, priorities: Mapping[str, int]) -> Pod:
    """Return the template as a pod; what is wrong is told by its path in the workload."""
    metadata = mapping_at(imagined.template, "metadata", at=f"{imagined.at}.metadata")
    at = f"{imagined.at}.metadata"
    labels = {**mapping_at(metadata, "labels", at=f"{at}.labels"), **imagined.common_labels}
    annotations = {**mapping_at(metadata, "annotations", at=f"{at}.annotations"), **imagined.common_annotations}
    named = {"labels": labels, "annotations": annotations, "name": imagined.names[0], "namespace": namespace}
    manifest = {"metadata": named, "spec": imagined.template["spec"]}
    try:
        pod = reduce(Kind.POD, admitted(Kind.POD, manifest, priorities=priorities))
    except (FieldError, MalformedObject) as error:
        raise FieldError(field=f"{imagined.at}.{error.field}", expected=error.expected, got=error.got) from error
    if not isinstance(pod, Pod):
        raise TypeError(f"a template of {imagined.names[0]} became {pod}")
    if "/" in pod.group:
        field_path = f"{imagined.at}.spec.schedulingGroup.podGroupName"
        raise FieldError(field=field_path, expected="a name without '/'", got=pod.group)
    return pod
