"""Kubernetes objects reduced to what placement needs: the values that flow from watcher to placer and binder.

They mirror `proto/phalanx/cluster/v1`; `services.contracts.cluster_codec` converts both ways, `services.core.reduce`
makes them from the API's JSON. All are immutable and compare by value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NewType

from services.core.constraints import NO_RULES, NodeSelectorTerm, PodRules, Taint, Toleration
from services.core.pod_devices import NO_DEVICES, PodClaim, PodDevices
from services.core.quantities import Resources

Uid = NewType("Uid", str)
NodeName = NewType("NodeName", str)
GangId = NewType("GangId", str)
"""`<kind>/<namespace>/<name>`."""
TransactionId = NewType("TransactionId", str)


def namespace_of(gang: GangId) -> str:
    """Return the namespace of a gang."""
    return gang.split("/")[1]


EPOCH_START = datetime.fromtimestamp(0, tz=UTC)
"""Stands for a missing timestamp, so that times always compare."""


class Kind(StrEnum):
    """Kinds of the cluster stream, spelled as in its subjects."""

    NODE = "node"
    POD = "pod"
    POD_GROUP = "podgroup"
    WORKLOAD = "workload"
    PRIORITY_CLASS = "priorityclass"
    NAMESPACE = "namespace"
    RESOURCE_SLICE = "resourceslice"
    RESOURCE_CLAIM = "resourceclaim"
    RESOURCE_CLAIM_TEMPLATE = "resourceclaimtemplate"
    DEVICE_CLASS = "deviceclass"
    DEVICE_TAINT_RULE = "devicetaintrule"
    JOB = "job"
    PERSISTENT_VOLUME_CLAIM = "persistentvolumeclaim"
    PERSISTENT_VOLUME = "persistentvolume"
    STORAGE_CLASS = "storageclass"
    CSI_NODE = "csinode"
    STATEFUL_SET = "statefulset"
    COSCHEDULING_GROUP = "coschedulinggroup"
    VOLCANO_GROUP = "volcanogroup"
    JOB_SET = "jobset"
    LEADER_WORKER_SET = "leaderworkerset"
    RAY_CLUSTER = "raycluster"
    PYTORCH_JOB = "pytorchjob"
    TF_JOB = "tfjob"
    MPI_JOB = "mpijob"
    WATCH = "watch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One entry of metadata.ownerReferences."""

    kind: str
    name: str
    uid: Uid
    is_controller: bool = False
    api_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """Identity and version of an object."""

    name: str
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    created_at: datetime = EPOCH_START
    deleted_at: datetime | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What a node offers and whom it admits."""

    metadata: Metadata
    allocatable: Resources = field(default_factory=dict)
    is_unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    features: tuple[str, ...] = ()
    """status.declaredFeatures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What a pod asks for and where it is. `node_affinity` None means that none is required."""

    metadata: Metadata
    scheduler_name: str = "default-scheduler"
    group: str = ""
    node: NodeName = NodeName("")
    phase: str = "Pending"
    is_gated: bool = False
    requests: Resources = field(default_factory=dict)
    priority: int = 0
    never_preempts: bool = False
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()
    unsupported: tuple[str, ...] = ()
    has_started: bool = False
    unscheduled_reason: str = ""
    rules: PodRules = NO_RULES
    devices: PodDevices = NO_DEVICES
    unreadable: str = ""
    #: status.reason of a failed pod, and when its kubelet rejected it, where no container of it ever started.
    failure: str = ""
    rejected_at: datetime | None = None
    """What of the pod cannot be read: the field, what it should be, and what it is. Such a pod is not placed."""

    @property
    def is_finished(self) -> bool:
        """True once the pod has ended and holds nothing."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def is_terminating(self) -> bool:
        """True from the deletion request on; a bound pod still holds its resources."""
        return self.metadata.deleted_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroup:
    """A gang as declared (KEP-4671). `min_count` is 0 for the basic policy.

    `topology_keys` are labels of nodes: all members share one value of each.
    """

    metadata: Metadata
    min_count: int = 0
    is_gang: bool = True
    priority: int = 0
    priority_class: str = ""
    workload: str = ""
    template: str = ""
    disrupts_all: bool = False
    initially_scheduled: str = ""
    topology_keys: tuple[str, ...] = ()
    #: spec.resourceClaims of the group: a pod with an equal entry shares the group's claim (KEP-5729).
    claims: tuple[PodClaim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Names of the templates from which groups are made."""

    metadata: Metadata
    templates: tuple[str, ...] = ()
    controller_kind: str = ""
    controller_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityClass:
    """A named priority."""

    metadata: Metadata
    value: int = 0
    is_global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace; what matters are its labels."""

    metadata: Metadata
    phase: str = "Active"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a batch Job asks for as a whole, and what becomes of it when pods of it are deleted.

    The `..._disruption_target` say what its podFailurePolicy does with a pod that has that condition; rules about exit
    codes are not judged. None in a limit means that the field is not set.
    """

    metadata: Metadata
    parallelism: int = 1
    completions: int | None = None
    is_suspended: bool = False
    is_indexed: bool = False
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    ignores_disruption_target: bool = False
    fails_on_disruption_target: bool = False
    pod_replacement_policy: str = "TerminatingOrFailed"
    restart_policy: str = "Never"
    failed: int = 0
    is_finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceObject:
    """An object of resource.k8s.io, whole: its selectors are judged on it as it was written (UTF-8 JSON)."""

    metadata: Metadata
    kind: Kind
    spec_json: bytes = b"{}"
    status_json: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim. `is_bound` once the volume controller has completed the binding to `volume`."""

    metadata: Metadata
    volume: str = ""
    storage_class: str = ""
    phase: str = "Pending"
    is_bound: bool = False
    is_single_pod: bool = False
    """Access mode ReadWriteOncePod: one pod of the whole cluster at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A PersistentVolume: where it can be reached. `node_affinity` None means everywhere.

    Its topology labels, which stand in the metadata, restrict nodes too. `driver` and `handle` are those of CSI.
    """

    metadata: Metadata
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    driver: str = ""
    handle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClass:
    """When volumes of a class are bound: Immediate or WaitForFirstConsumer."""

    metadata: Metadata
    binding_mode: str = "Immediate"
    provisioner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiNode:
    """How many volumes of each CSI driver can be attached to the node of the same name; unlimited where not stated."""

    metadata: Metadata
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One part of a group whose pods are alike, as a JobSet's replicatedJob or a Ray worker group.

    `count` is how many of its pods must run at once. A role that `is_late` gets its pods only when others run, so it
    counts from the moment that one of them exists.
    """

    name: str
    count: int
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSource:
    """An object of another platform that says which pods run together, or that stands between such an object and pods.

    `min_count` is None where the counts of its roles are what is needed. `size` is how many pods there are when all
    have come, 0 where that is not known. A coscheduling PodGroup has no roles, a StatefulSet tells its owner alone.
    """

    metadata: Metadata
    kind: Kind
    min_count: int | None = None
    size: int = 0
    roles: tuple[Role, ...] = ()
    is_suspended: bool = False


class WatchPhase(StrEnum):
    """State of one kind's watch."""

    LISTING = "listing"
    SYNCED = "synced"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchState:
    """How far the watcher has followed one kind; its metadata's name is the kind."""

    metadata: Metadata
    phase: WatchPhase
    api_version: str = ""
    resource_version: str = ""
    object_count: int = 0


StorageObject = VolumeClaim | Volume | StorageClass | CsiNode
GroupingObject = Job | GroupSource
KubernetesObject = (
    Node | Pod | PodGroup | Workload | PriorityClass | Namespace | DeviceObject | GroupingObject | StorageObject
)
ClusterObject = KubernetesObject | WatchState

_KINDS: Mapping[type, Kind] = {
    Node: Kind.NODE,
    Pod: Kind.POD,
    PodGroup: Kind.POD_GROUP,
    Workload: Kind.WORKLOAD,
    PriorityClass: Kind.PRIORITY_CLASS,
    Namespace: Kind.NAMESPACE,
    Job: Kind.JOB,
    VolumeClaim: Kind.PERSISTENT_VOLUME_CLAIM,
    Volume: Kind.PERSISTENT_VOLUME,
    StorageClass: Kind.STORAGE_CLASS,
    CsiNode: Kind.CSI_NODE,
    WatchState: Kind.WATCH,
}


def kind_of(item: ClusterObject) -> Kind:
    """Return the kind of an object."""
    return item.kind if isinstance(item, DeviceObject | GroupSource) else _KINDS[type(item)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The object was created or changed; this is its new form."""

    object: ClusterObject

    @property
    def kind(self) -> Kind:
        """The object's kind."""
        return kind_of(self.object)

    @property
    def metadata(self) -> Metadata:
        """The object's identity."""
        return self.object.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """The object is gone: a tombstone."""

    kind: Kind
    metadata: Metadata


ClusterChange = Applied | Deleted
