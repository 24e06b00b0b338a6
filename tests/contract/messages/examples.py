"""One example of each message, with every field set: what the stored bytes mean."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from services.core.constraints import (
    Claim,
    Disk,
    HostPort,
    LabelSelector,
    NodeRequirement,
    NodeSelectorTerm,
    PodRules,
    PodTerm,
    SpreadConstraint,
    Taint,
    Toleration,
    WeightedNodeTerm,
    WeightedPodTerm,
)
from services.core.decisions import (
    Assignment,
    Committed,
    Decision,
    DecisionEvent,
    Degraded,
    DegradedPolicy,
    OpenMember,
    Proposed,
    Refused,
    Repairing,
    RolledBack,
    Waiting,
)
from services.core.objects import (
    Applied,
    ClusterChange,
    CsiNode,
    Deleted,
    DeviceObject,
    GangId,
    GroupSource,
    Job,
    Kind,
    KubernetesObject,
    Metadata,
    Namespace,
    Node,
    NodeName,
    Owner,
    Pod,
    PodGroup,
    PriorityClass,
    Role,
    StorageClass,
    TransactionId,
    Uid,
    Volume,
    VolumeClaim,
    WatchPhase,
    WatchState,
    Workload,
)
from services.core.pod_devices import ContainerResource, PodClaim, PodDevices
from services.core.reasons import Reason, ReasonCode

MOMENT = datetime(2026, 3, 4, 5, 6, 7, 891011, tzinfo=UTC)

_UID = Uid("0f8fad5b-d9cb-469f-a165-70867728950e")
_NAMESPACED = Metadata(
    name="train-0.a",
    namespace="team-a",
    uid=_UID,
    resource_version="4711",
    created_at=MOMENT,
    deleted_at=MOMENT + timedelta(seconds=30),
    labels={"app": "train", "batch.kubernetes.io/job-name": "train"},
    annotations={"phalanx.dev/repair-window": "45s"},
    owners=(Owner(kind="Job", name="train", uid=Uid("uid-of-job"), is_controller=True, api_version="batch/v1"),),
)
_CLUSTER_SCOPED = replace(_NAMESPACED, namespace="", owners=(), deleted_at=None, annotations={})
_RESOURCES = {"cpu": 96_000, "memory": 2**40, "nvidia.com/gpu": 8, "pods": 110}

_NODE = Node(
    metadata=replace(_CLUSTER_SCOPED, name="gpu-1.rack-2.example"),
    allocatable=_RESOURCES,
    is_unschedulable=True,
    taints=(Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule"),),
    is_ready=True,
)
_SELECTOR = LabelSelector(requirements=(NodeRequirement(key="app", operator="In", values=("train",)),))
_TERM = PodTerm(
    topology_key="topology.kubernetes.io/zone",
    selector=_SELECTOR,
    namespaces=("team-a",),
    namespace_selector=LabelSelector(),
)
_RULES = PodRules(
    affinity=(_TERM,),
    anti_affinity=(PodTerm(topology_key="kubernetes.io/hostname", namespaces=("team-a",)),),
    spread=(
        SpreadConstraint(
            topology_key="topology.kubernetes.io/zone",
            max_skew=1,
            is_hard=True,
            selector=_SELECTOR,
            min_domains=2,
            honors_affinity=True,
            honors_taints=True,
        ),
    ),
    preferred_nodes=(
        WeightedNodeTerm(
            weight=50,
            term=NodeSelectorTerm(expressions=(NodeRequirement(key="pool", operator="Exists"),)),
        ),
    ),
    preferred_pods=(WeightedPodTerm(weight=-7, term=_TERM),),
    host_ports=(HostPort(port=8080, protocol="UDP", address="10.0.0.1"),),
    disks=(Disk(name="iscsi/iqn.2001-04.com.example:storage", is_read_only=True),),
    claims=(Claim(name="data"), Claim(name="train-0.a-scratch", is_ephemeral=True)),
    features=("UserNamespacesHostNetworkSupport",),
)
_POD = Pod(
    metadata=_NAMESPACED,
    scheduler_name="phalanx",
    group="train",
    node=NodeName("gpu-1.rack-2.example"),
    phase="Failed",
    is_gated=True,
    requests={"cpu": 7_500, "nvidia.com/gpu": 2, "pods": 1},
    priority=-10,
    node_selector={"pool": "h100"},
    node_affinity=(
        NodeSelectorTerm(
            expressions=(NodeRequirement(key="zone", operator="In", values=("a", "b")),),
            fields=(NodeRequirement(key="metadata.name", operator="NotIn", values=("n9",)),),
        ),
        NodeSelectorTerm(),
    ),
    tolerations=(
        Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"),
        Toleration(key="team", operator="Equal", value="a"),
    ),
    unsupported=("spec.resourceClaims",),
    has_started=True,
    unscheduled_reason="Unschedulable",
)
_POD_DEVICES = PodDevices(
    claims=(
        PodClaim(entry="gpu", claim="w-0-gpu-x7k2p", template="one-gpu"),
        PodClaim(entry="nothing", template="empty", is_unneeded=True),
    ),
    extended=(
        ContainerResource(index=1, position=2, container="main", resource="nvidia.com/gpu", amount=2, is_initial=True),
    ),
    extended_claim="w-0-extended-resources-b4c8d",
)
_UNREADABLE = "spec.containers[0].resources.requests.cpu: expected a quantity such as 500m, 8 or 16Gi, got 'lots'"
_GROUP = PodGroup(
    metadata=replace(_NAMESPACED, name="train"),
    min_count=8,
    is_gang=True,
    priority=100,
    priority_class="high",
    workload="train",
    template="workers",
    disrupts_all=True,
    initially_scheduled="False",
)


def _device(kind: Kind, *, namespace: str = "") -> DeviceObject:
    return DeviceObject(
        metadata=replace(_CLUSTER_SCOPED, name="gpus", namespace=namespace),
        kind=kind,
        spec_json=b'{"driver":"gpu.example.com"}',
        status_json=b'{"conditions":[]}',
    )


def _source(kind: Kind) -> GroupSource:
    return GroupSource(
        metadata=_NAMESPACED,
        kind=kind,
        min_count=5,
        size=9,
        roles=(Role(name="driver", count=1), Role(name="workers", count=8, is_late=True)),
        is_suspended=True,
    )


_SOURCE_KINDS = (
    Kind.STATEFUL_SET,
    Kind.COSCHEDULING_GROUP,
    Kind.VOLCANO_GROUP,
    Kind.JOB_SET,
    Kind.LEADER_WORKER_SET,
    Kind.RAY_CLUSTER,
    Kind.PYTORCH_JOB,
    Kind.TF_JOB,
    Kind.MPI_JOB,
)

_OBJECTS: tuple[tuple[str, KubernetesObject | WatchState], ...] = (
    ("node", _NODE),
    ("pod", _POD),
    ("podgroup", _GROUP),
    ("podgroup-topology", replace(_GROUP, topology_keys=("example.com/rack",))),
    ("podgroup-claims", replace(_GROUP, claims=(PodClaim(entry="nics", claim="train-nics-x7k2p", template="nics"),))),
    (
        "workload",
        Workload(
            metadata=replace(_NAMESPACED, name="train"),
            templates=("workers", "servers"),
            controller_kind="Job",
            controller_name="train",
        ),
    ),
    (
        "priorityclass",
        PriorityClass(
            metadata=replace(_CLUSTER_SCOPED, name="high"), value=100, is_global_default=True, preemption_policy="Never"
        ),
    ),
    ("namespace", Namespace(metadata=replace(_CLUSTER_SCOPED, name="team-a"), phase="Terminating")),
    ("resourceslice", _device(Kind.RESOURCE_SLICE)),
    ("resourceclaim", _device(Kind.RESOURCE_CLAIM, namespace="team-a")),
    ("resourceclaimtemplate", _device(Kind.RESOURCE_CLAIM_TEMPLATE, namespace="team-a")),
    ("deviceclass", _device(Kind.DEVICE_CLASS)),
    ("devicetaintrule", _device(Kind.DEVICE_TAINT_RULE)),
    (
        "job",
        Job(
            metadata=replace(_NAMESPACED, name="train"),
            parallelism=64,
            completions=64,
            is_suspended=True,
            is_indexed=True,
            backoff_limit=3,
            backoff_limit_per_index=0,
            max_failed_indexes=5,
            ignores_disruption_target=True,
            fails_on_disruption_target=True,
            pod_replacement_policy="Failed",
            restart_policy="OnFailure",
            failed=2,
            is_finished=True,
        ),
    ),
    (
        "persistentvolumeclaim",
        VolumeClaim(
            metadata=replace(_NAMESPACED, name="data"),
            volume="pv-1",
            storage_class="fast",
            phase="Bound",
            is_bound=True,
            is_single_pod=True,
        ),
    ),
    (
        "persistentvolume",
        Volume(
            metadata=replace(_CLUSTER_SCOPED, name="pv-1"),
            node_affinity=(NodeSelectorTerm(expressions=(NodeRequirement(key="zone", operator="In", values=("a",)),)),),
            driver="disk.example.com",
            handle="disk-1",
        ),
    ),
    (
        "storageclass",
        StorageClass(
            metadata=replace(_CLUSTER_SCOPED, name="fast"),
            binding_mode="WaitForFirstConsumer",
            provisioner="disk.example.com",
        ),
    ),
    ("csinode", CsiNode(metadata=replace(_CLUSTER_SCOPED, name="gpu-1"), limits={"disk.example.com": 24})),
    (
        "watch",
        WatchState(
            metadata=Metadata(name="pod"),
            phase=WatchPhase.SYNCED,
            api_version="v1",
            resource_version="4711",
            object_count=50_000,
        ),
    ),
)

CHANGES: Mapping[str, ClusterChange] = {
    **{f"cluster-{name}-applied": Applied(object=item) for name, item in _OBJECTS},
    **{f"cluster-{kind.value}-applied": Applied(object=_source(kind)) for kind in _SOURCE_KINDS},
    "cluster-node-features-applied": Applied(object=replace(_NODE, features=("RestartAllContainersOnContainerExits",))),
    "cluster-pod-rules-applied": Applied(object=replace(_POD, rules=_RULES, unreadable=_UNREADABLE)),
    "cluster-pod-devices-applied": Applied(object=replace(_POD, unsupported=(), devices=_POD_DEVICES)),
    "cluster-pod-rejected-applied": Applied(
        object=replace(_POD, has_started=False, failure="OutOfcpu", rejected_at=MOMENT)
    ),
    "cluster-pod-deleted": Deleted(kind=Kind.POD, metadata=_NAMESPACED),
}

_FIRST = Assignment(pod="train-0", uid=_UID, node=NodeName("n1"))
_SECOND = Assignment(pod="train-1", uid=Uid("uid-of-train-1"), node=NodeName("n2"))
_REASON = Reason(
    code=ReasonCode.INSUFFICIENT_RESOURCE,
    message="no node has 8 free nvidia.com/gpu (largest free is 4)",
    count=12,
    subject="nvidia.com/gpu",
)
_REFUSAL = Reason(code=ReasonCode.BINDING_REFUSED, message="admission webhook denied the request", count=1)


def _decision(event: DecisionEvent, *, transaction: str = "01J9ZK3N7M0Q4T6V8W2X5Y1Z3A") -> Decision:
    return Decision(
        gang=GangId("podgroup/team-a/train"),
        event=event,
        decided_at=MOMENT,
        transaction=TransactionId(transaction),
        epoch=17,
    )


DECISIONS: Mapping[str, Decision] = {
    "placement-proposed": _decision(
        Proposed(
            revision=123_456,
            deadline=MOMENT + timedelta(seconds=60),
            min_count=8,
            assignments=(_FIRST, _SECOND),
            round=1,
            already_placed=6,
            repair_window=timedelta(seconds=45, milliseconds=500),
        )
    ),
    "placement-proposed-warned": _decision(
        Proposed(
            revision=123_456,
            deadline=MOMENT + timedelta(seconds=60),
            min_count=2,
            assignments=(_FIRST, _SECOND),
            warnings=(
                Reason(code=ReasonCode.UNDO_FATAL, message="it would fail", count=1, subject="spec.backoffLimit"),
                Reason(code=ReasonCode.UNDO_SLOW, message="Job train would wait", count=1),
            ),
        )
    ),
    "placement-waiting": _decision(
        Waiting(revision=123_456, min_count=8, existing=8, placeable=5, reasons=(_REASON,)), transaction=""
    ),
    "placement-committed": _decision(Committed(members=(_FIRST, _SECOND), repaired=1, accepted=1, open=2)),
    "placement-refused": _decision(Refused(reasons=(_REFUSAL,))),
    "placement-rolled_back": _decision(RolledBack(reasons=(_REFUSAL,), undone=(_FIRST,), kept=(_SECOND,))),
    "placement-repairing": _decision(
        Repairing(
            round=1,
            bound=(_FIRST,),
            open=(
                OpenMember(pod="train-1", uid=Uid("uid-of-train-1"), excluded_nodes=(NodeName("n2"),), reason=_REFUSAL),
                OpenMember(pod="train-2", uid=Uid("uid-of-train-2")),
            ),
            until=MOMENT + timedelta(seconds=30),
            min_count=8,
        )
    ),
    "placement-release": _decision(
        Proposed(
            revision=123_456,
            deadline=MOMENT + timedelta(seconds=60),
            min_count=8,
            assignments=(_FIRST, _SECOND),
            is_release=True,
        )
    ),
    "placement-reopened": _decision(
        Proposed(
            revision=123_456,
            deadline=MOMENT + timedelta(seconds=60),
            min_count=8,
            assignments=(_FIRST, _SECOND),
            is_reopened=True,
        )
    ),
    "placement-degraded": _decision(
        Degraded(
            revision=123_456,
            min_count=8,
            placed=5,
            until=MOMENT + timedelta(minutes=5),
            policy=DegradedPolicy.RELEASE,
            is_over=True,
            reasons=(Reason(code=ReasonCode.QUORUM_LOST, message="5 of the 8 needed pods are left", count=3),),
        ),
        transaction="",
    ),
}
