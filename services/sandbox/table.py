"""The table of kinds that the sandbox serves. Serving one more is one more row."""

from collections.abc import Sequence

from services.sandbox.kinds import Kind
from services.sandbox.validation import claims, devices, events, groups, pods, workloads

SCHEDULING = "scheduling.k8s.io"
RESOURCE = "resource.k8s.io"

POD = Kind(
    kind="Pod",
    plural="pods",
    subresources=("binding", "eviction"),
    short_names=("po",),
    categories=("all",),
    selectable=frozenset({"spec.nodeName", "spec.schedulerName", "spec.restartPolicy", "status.phase"}),
    has_generation=True,
    returns_deleted=True,
    default=pods.default_pod,
    validate=pods.validate_pod,
    validate_status=pods.validate_pod_status,
)
NODE = Kind(
    kind="Node",
    plural="nodes",
    is_namespaced=False,
    short_names=("no",),
    selectable=frozenset({"spec.unschedulable"}),
    accepts_initial_status=True,
    default=workloads.default_node,
)
NAMESPACE = Kind(
    kind="Namespace",
    plural="namespaces",
    is_namespaced=False,
    short_names=("ns",),
    selectable=frozenset({"status.phase"}),
    subresources=("finalize",),
    names_are_labels=True,
    default=workloads.default_namespace,
)
POD_GROUP = Kind(
    kind="PodGroup",
    plural="podgroups",
    group=SCHEDULING,
    versions=("v1beta1", "v1alpha3"),
    allows_blind_update=False,
    status_keeps_metadata=False,
    schema=groups.GROUP_SCHEMA,
    default=groups.default_group,
    validate=groups.validate_group,
    validate_status=groups.validate_group_status,
)
WORKLOAD = Kind(
    kind="Workload",
    plural="workloads",
    group=SCHEDULING,
    versions=("v1beta1", "v1alpha3"),
    has_status=False,
    allows_blind_update=False,
    schema=groups.WORKLOAD_SCHEMA,
    default=groups.default_workload,
    validate=groups.validate_workload,
)
PRIORITY_CLASS = Kind(
    kind="PriorityClass",
    plural="priorityclasses",
    group=SCHEDULING,
    is_namespaced=False,
    has_status=False,
    short_names=("pc",),
    has_generation=True,
    default=workloads.default_priority_class,
    validate=workloads.validate_priority_class,
)
RESOURCE_CLAIM = Kind(
    kind="ResourceClaim",
    plural="resourceclaims",
    group=RESOURCE,
    status_keeps_metadata=False,
    returns_deleted=True,
    default=claims.default_claim,
    validate=claims.validate_claim,
    validate_status=claims.validate_claim_status,
)
RESOURCE_CLAIM_TEMPLATE = Kind(
    kind="ResourceClaimTemplate",
    plural="resourceclaimtemplates",
    group=RESOURCE,
    has_status=False,
    returns_deleted=True,
    default=claims.default_template,
    validate=claims.validate_template,
)
JOB = Kind(
    kind="Job",
    plural="jobs",
    group="batch",
    categories=("all",),
    selectable=frozenset({"status.successful"}),
    default_propagation="Orphan",
    has_generation=True,
    status_keeps_metadata=False,
    default=workloads.default_job,
    validate=workloads.validate_job,
)
DEPLOYMENT = Kind(
    kind="Deployment",
    plural="deployments",
    group="apps",
    has_scale=True,
    short_names=("deploy",),
    categories=("all",),
    has_generation=True,
    default=workloads.default_deployment,
    validate=workloads.validate_selected,
)
REPLICA_SET = Kind(
    kind="ReplicaSet",
    plural="replicasets",
    group="apps",
    has_scale=True,
    short_names=("rs",),
    categories=("all",),
    has_generation=True,
    default=workloads.default_replica_set,
    validate=workloads.validate_selected,
)

KINDS: Sequence[Kind] = (
    NAMESPACE,
    NODE,
    POD,
    Kind(kind="ConfigMap", plural="configmaps", has_status=False, short_names=("cm",)),
    Kind(
        kind="Event",
        plural="events",
        has_status=False,
        short_names=("ev",),
        selectable=frozenset({"reason", "type", "involvedObject.kind", "involvedObject.name", "involvedObject.uid"}),
        validate=events.validate_event,
    ),
    Kind(
        kind="ResourceQuota",
        plural="resourcequotas",
        short_names=("quota",),
        default=workloads.default_quota,
    ),
    PRIORITY_CLASS,
    POD_GROUP,
    WORKLOAD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    Kind(
        kind="ResourceSlice",
        plural="resourceslices",
        group=RESOURCE,
        is_namespaced=False,
        has_status=False,
        selectable=frozenset({"spec.nodeName", "spec.driver"}),
        has_generation=True,
        returns_deleted=True,
    ),
    Kind(
        kind="DeviceClass",
        plural="deviceclasses",
        group=RESOURCE,
        is_namespaced=False,
        has_status=False,
        has_generation=True,
        returns_deleted=True,
    ),
    Kind(
        kind="DeviceTaintRule",
        plural="devicetaintrules",
        group=RESOURCE,
        is_namespaced=False,
        has_generation=True,
        status_keeps_metadata=False,
        returns_deleted=True,
        stamp=devices.stamp_taint,
    ),
    Kind(kind="Lease", plural="leases", group="coordination.k8s.io", has_status=False),
    JOB,
    DEPLOYMENT,
    REPLICA_SET,
    Kind(
        kind="HorizontalPodAutoscaler",
        plural="horizontalpodautoscalers",
        group="autoscaling",
        versions=("v2",),
        short_names=("hpa",),
        categories=("all",),
        status_keeps_metadata=False,
        default=workloads.default_autoscaler,
        validate=workloads.validate_autoscaler,
    ),
)
