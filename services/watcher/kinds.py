"""The watched kinds: one table. A new kind is a row here and a reducer in `services.core.reduce`."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.core.objects import Kind

SMALL_PAGE = 500
LARGE_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedKind:
    """Where a kind is found. `versions` are in order of preference: the first that the server serves is followed.

    A kind that is not `is_required` may be absent: then readers are told so, and it is looked for again.
    """

    kind: Kind
    plural: str
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    is_required: bool = False
    page_size: int = SMALL_PAGE
    field_selector: str = ""

    @property
    def resource(self) -> str:
        """The resource as RBAC rules name it, as `podgroups.scheduling.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        """Return group and version as manifests state them."""
        return f"{self.group}/{version}" if self.group else version

    def path(self, version: str) -> str:
        """Return the path of the list over all namespaces."""
        prefix = f"/apis/{self.group}" if self.group else "/api"
        return f"{prefix}/{version}/{self.plural}"

    def query(self) -> Mapping[str, str]:
        """Return the query that limits list and watch."""
        return {"fieldSelector": self.field_selector} if self.field_selector else {}


_SCHEDULING = "scheduling.k8s.io"
_GROUP_VERSIONS = ("v1beta1", "v1alpha3")
"""Both have the same schema in 1.37, and either may be the only one that is served."""
_RESOURCE = "resource.k8s.io"
_STORAGE = "storage.k8s.io"
_TRAINING = "kubeflow.org"
"""MPIJobs are those of the MPI operator (v2beta1) or of the training operator (v1); their replicas are stated alike."""

WATCHED_KINDS: tuple[WatchedKind, ...] = (
    WatchedKind(kind=Kind.NODE, plural="nodes", is_required=True),
    WatchedKind(kind=Kind.POD, plural="pods", is_required=True, page_size=LARGE_PAGE),
    WatchedKind(kind=Kind.POD_GROUP, plural="podgroups", group=_SCHEDULING, versions=_GROUP_VERSIONS),
    WatchedKind(kind=Kind.WORKLOAD, plural="workloads", group=_SCHEDULING, versions=_GROUP_VERSIONS),
    WatchedKind(kind=Kind.PRIORITY_CLASS, plural="priorityclasses", group=_SCHEDULING, is_required=True),
    WatchedKind(kind=Kind.NAMESPACE, plural="namespaces", is_required=True),
    WatchedKind(kind=Kind.RESOURCE_SLICE, plural="resourceslices", group=_RESOURCE, page_size=100),
    WatchedKind(kind=Kind.RESOURCE_CLAIM, plural="resourceclaims", group=_RESOURCE),
    WatchedKind(kind=Kind.RESOURCE_CLAIM_TEMPLATE, plural="resourceclaimtemplates", group=_RESOURCE),
    WatchedKind(kind=Kind.DEVICE_CLASS, plural="deviceclasses", group=_RESOURCE),
    WatchedKind(kind=Kind.DEVICE_TAINT_RULE, plural="devicetaintrules", group=_RESOURCE),
    WatchedKind(kind=Kind.JOB, plural="jobs", group="batch"),
    WatchedKind(kind=Kind.PERSISTENT_VOLUME_CLAIM, plural="persistentvolumeclaims"),
    WatchedKind(kind=Kind.PERSISTENT_VOLUME, plural="persistentvolumes"),
    WatchedKind(kind=Kind.STORAGE_CLASS, plural="storageclasses", group=_STORAGE),
    WatchedKind(kind=Kind.CSI_NODE, plural="csinodes", group=_STORAGE),
    WatchedKind(kind=Kind.STATEFUL_SET, plural="statefulsets", group="apps"),
    WatchedKind(kind=Kind.COSCHEDULING_GROUP, plural="podgroups", group="scheduling.x-k8s.io", versions=("v1alpha1",)),
    WatchedKind(kind=Kind.VOLCANO_GROUP, plural="podgroups", group="scheduling.volcano.sh", versions=("v1beta1",)),
    WatchedKind(kind=Kind.JOB_SET, plural="jobsets", group="jobset.x-k8s.io", versions=("v1alpha2",)),
    WatchedKind(kind=Kind.LEADER_WORKER_SET, plural="leaderworkersets", group="leaderworkerset.x-k8s.io"),
    WatchedKind(kind=Kind.RAY_CLUSTER, plural="rayclusters", group="ray.io"),
    WatchedKind(kind=Kind.PYTORCH_JOB, plural="pytorchjobs", group=_TRAINING),
    WatchedKind(kind=Kind.TF_JOB, plural="tfjobs", group=_TRAINING),
    WatchedKind(kind=Kind.MPI_JOB, plural="mpijobs", group=_TRAINING, versions=("v2beta1", "v1")),
)
