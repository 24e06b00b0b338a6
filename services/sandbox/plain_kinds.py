"""Kinds that the sandbox stores and serves as they come: no controller of theirs runs here, and nothing is checked.

Whoever tests with a JobSet or a volume makes the pods, or the binding, that its controller would make.
"""

from collections.abc import Sequence

from services.sandbox.kinds import Kind

_STORAGE = "storage.k8s.io"
_TRAINING = "kubeflow.org"

PLAIN_KINDS: Sequence[Kind] = (
    Kind(kind="PersistentVolumeClaim", plural="persistentvolumeclaims", short_names=("pvc",)),
    Kind(kind="PersistentVolume", plural="persistentvolumes", is_namespaced=False, short_names=("pv",)),
    Kind(
        kind="StorageClass",
        plural="storageclasses",
        group=_STORAGE,
        is_namespaced=False,
        has_status=False,
        short_names=("sc",),
    ),
    Kind(kind="CSINode", plural="csinodes", group=_STORAGE, is_namespaced=False, has_status=False),
    Kind(kind="StatefulSet", plural="statefulsets", group="apps", short_names=("sts",), has_generation=True),
    Kind(kind="PodGroup", plural="podgroups", group="scheduling.x-k8s.io", versions=("v1alpha1",)),
    Kind(kind="PodGroup", plural="podgroups", group="scheduling.volcano.sh", versions=("v1beta1",)),
    Kind(kind="JobSet", plural="jobsets", group="jobset.x-k8s.io", versions=("v1alpha2",), has_generation=True),
    Kind(
        kind="LeaderWorkerSet",
        plural="leaderworkersets",
        group="leaderworkerset.x-k8s.io",
        short_names=("lws",),
        has_generation=True,
    ),
    Kind(kind="RayCluster", plural="rayclusters", group="ray.io", has_generation=True),
    Kind(kind="PyTorchJob", plural="pytorchjobs", group=_TRAINING, has_generation=True),
    Kind(kind="TFJob", plural="tfjobs", group=_TRAINING, has_generation=True),
    Kind(kind="MPIJob", plural="mpijobs", group=_TRAINING, versions=("v2beta1", "v1"), has_generation=True),
)
