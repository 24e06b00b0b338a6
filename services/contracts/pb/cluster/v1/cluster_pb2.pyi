import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WatchPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WATCH_PHASE_UNSPECIFIED: _ClassVar[WatchPhase]
    WATCH_PHASE_LISTING: _ClassVar[WatchPhase]
    WATCH_PHASE_SYNCED: _ClassVar[WatchPhase]
    WATCH_PHASE_ABSENT: _ClassVar[WatchPhase]
WATCH_PHASE_UNSPECIFIED: WatchPhase
WATCH_PHASE_LISTING: WatchPhase
WATCH_PHASE_SYNCED: WatchPhase
WATCH_PHASE_ABSENT: WatchPhase

class ClusterEvent(_message.Message):
    __slots__ = ("metadata", "deleted", "node", "pod", "pod_group", "workload", "priority_class", "namespace", "device_object", "watch_state", "volume_claim", "volume", "storage_class", "csi_node", "job", "group_source")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    POD_GROUP_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_OBJECT_FIELD_NUMBER: _ClassVar[int]
    WATCH_STATE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_CLAIM_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    CSI_NODE_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    GROUP_SOURCE_FIELD_NUMBER: _ClassVar[int]
    metadata: Metadata
    deleted: bool
    node: Node
    pod: Pod
    pod_group: PodGroup
    workload: Workload
    priority_class: PriorityClass
    namespace: Namespace
    device_object: DeviceObject
    watch_state: WatchState
    volume_claim: VolumeClaim
    volume: Volume
    storage_class: StorageClass
    csi_node: CsiNode
    job: Job
    group_source: GroupSource
    def __init__(self, metadata: _Optional[_Union[Metadata, _Mapping]] = ..., deleted: _Optional[bool] = ..., node: _Optional[_Union[Node, _Mapping]] = ..., pod: _Optional[_Union[Pod, _Mapping]] = ..., pod_group: _Optional[_Union[PodGroup, _Mapping]] = ..., workload: _Optional[_Union[Workload, _Mapping]] = ..., priority_class: _Optional[_Union[PriorityClass, _Mapping]] = ..., namespace: _Optional[_Union[Namespace, _Mapping]] = ..., device_object: _Optional[_Union[DeviceObject, _Mapping]] = ..., watch_state: _Optional[_Union[WatchState, _Mapping]] = ..., volume_claim: _Optional[_Union[VolumeClaim, _Mapping]] = ..., volume: _Optional[_Union[Volume, _Mapping]] = ..., storage_class: _Optional[_Union[StorageClass, _Mapping]] = ..., csi_node: _Optional[_Union[CsiNode, _Mapping]] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., group_source: _Optional[_Union[GroupSource, _Mapping]] = ...) -> None: ...

class Metadata(_message.Message):
    __slots__ = ("uid", "resource_version", "name", "namespace", "created_at", "deleted_at", "labels", "annotations", "owners")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    UID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    DELETED_AT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    OWNERS_FIELD_NUMBER: _ClassVar[int]
    uid: str
    resource_version: str
    name: str
    namespace: str
    created_at: _timestamp_pb2.Timestamp
    deleted_at: _timestamp_pb2.Timestamp
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    owners: _containers.RepeatedCompositeFieldContainer[Owner]
    def __init__(self, uid: _Optional[str] = ..., resource_version: _Optional[str] = ..., name: _Optional[str] = ..., namespace: _Optional[str] = ..., created_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deleted_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., owners: _Optional[_Iterable[_Union[Owner, _Mapping]]] = ...) -> None: ...

class Owner(_message.Message):
    __slots__ = ("kind", "name", "uid", "controller", "api_version")
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    kind: str
    name: str
    uid: str
    controller: bool
    api_version: str
    def __init__(self, kind: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., controller: _Optional[bool] = ..., api_version: _Optional[str] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("allocatable", "unschedulable", "taints", "ready", "features")
    class AllocatableEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    allocatable: _containers.ScalarMap[str, int]
    unschedulable: bool
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    ready: bool
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, allocatable: _Optional[_Mapping[str, int]] = ..., unschedulable: _Optional[bool] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., ready: _Optional[bool] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...

class Pod(_message.Message):
    __slots__ = ("scheduler_name", "group", "node", "phase", "gated", "requests", "priority", "node_selector", "node_affinity", "tolerations", "unsupported", "started", "unscheduled_reason", "has_node_affinity", "rules", "unreadable", "never_preempts", "failure", "rejected_at", "devices")
    class RequestsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class NodeSelectorEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SCHEDULER_NAME_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    GATED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    NODE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    UNSUPPORTED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    UNSCHEDULED_REASON_FIELD_NUMBER: _ClassVar[int]
    HAS_NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    NEVER_PREEMPTS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REJECTED_AT_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    scheduler_name: str
    group: str
    node: str
    phase: str
    gated: bool
    requests: _containers.ScalarMap[str, int]
    priority: int
    node_selector: _containers.ScalarMap[str, str]
    node_affinity: _containers.RepeatedCompositeFieldContainer[NodeSelectorTerm]
    tolerations: _containers.RepeatedCompositeFieldContainer[Toleration]
    unsupported: _containers.RepeatedScalarFieldContainer[str]
    started: bool
    unscheduled_reason: str
    has_node_affinity: bool
    rules: PodRules
    unreadable: str
    never_preempts: bool
    failure: str
    rejected_at: _timestamp_pb2.Timestamp
    devices: PodDevices
    def __init__(self, scheduler_name: _Optional[str] = ..., group: _Optional[str] = ..., node: _Optional[str] = ..., phase: _Optional[str] = ..., gated: _Optional[bool] = ..., requests: _Optional[_Mapping[str, int]] = ..., priority: _Optional[int] = ..., node_selector: _Optional[_Mapping[str, str]] = ..., node_affinity: _Optional[_Iterable[_Union[NodeSelectorTerm, _Mapping]]] = ..., tolerations: _Optional[_Iterable[_Union[Toleration, _Mapping]]] = ..., unsupported: _Optional[_Iterable[str]] = ..., started: _Optional[bool] = ..., unscheduled_reason: _Optional[str] = ..., has_node_affinity: _Optional[bool] = ..., rules: _Optional[_Union[PodRules, _Mapping]] = ..., unreadable: _Optional[str] = ..., never_preempts: _Optional[bool] = ..., failure: _Optional[str] = ..., rejected_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., devices: _Optional[_Union[PodDevices, _Mapping]] = ...) -> None: ...

class PodDevices(_message.Message):
    __slots__ = ("claims", "extended", "extended_claim")
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_CLAIM_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[PodClaim]
    extended: _containers.RepeatedCompositeFieldContainer[ContainerResource]
    extended_claim: str
    def __init__(self, claims: _Optional[_Iterable[_Union[PodClaim, _Mapping]]] = ..., extended: _Optional[_Iterable[_Union[ContainerResource, _Mapping]]] = ..., extended_claim: _Optional[str] = ...) -> None: ...

class PodClaim(_message.Message):
    __slots__ = ("entry", "claim", "template", "unneeded")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    UNNEEDED_FIELD_NUMBER: _ClassVar[int]
    entry: str
    claim: str
    template: str
    unneeded: bool
    def __init__(self, entry: _Optional[str] = ..., claim: _Optional[str] = ..., template: _Optional[str] = ..., unneeded: _Optional[bool] = ...) -> None: ...

class ContainerResource(_message.Message):
    __slots__ = ("index", "position", "container", "resource", "amount", "initial")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    index: int
    position: int
    container: str
    resource: str
    amount: int
    initial: bool
    def __init__(self, index: _Optional[int] = ..., position: _Optional[int] = ..., container: _Optional[str] = ..., resource: _Optional[str] = ..., amount: _Optional[int] = ..., initial: _Optional[bool] = ...) -> None: ...

class PodRules(_message.Message):
    __slots__ = ("affinity", "anti_affinity", "spread", "preferred_nodes", "preferred_pods", "host_ports", "disks", "claims", "features")
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    ANTI_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_NODES_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_PODS_FIELD_NUMBER: _ClassVar[int]
    HOST_PORTS_FIELD_NUMBER: _ClassVar[int]
    DISKS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    affinity: _containers.RepeatedCompositeFieldContainer[PodTerm]
    anti_affinity: _containers.RepeatedCompositeFieldContainer[PodTerm]
    spread: _containers.RepeatedCompositeFieldContainer[SpreadConstraint]
    preferred_nodes: _containers.RepeatedCompositeFieldContainer[WeightedNodeTerm]
    preferred_pods: _containers.RepeatedCompositeFieldContainer[WeightedPodTerm]
    host_ports: _containers.RepeatedCompositeFieldContainer[HostPort]
    disks: _containers.RepeatedCompositeFieldContainer[Disk]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    features: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, affinity: _Optional[_Iterable[_Union[PodTerm, _Mapping]]] = ..., anti_affinity: _Optional[_Iterable[_Union[PodTerm, _Mapping]]] = ..., spread: _Optional[_Iterable[_Union[SpreadConstraint, _Mapping]]] = ..., preferred_nodes: _Optional[_Iterable[_Union[WeightedNodeTerm, _Mapping]]] = ..., preferred_pods: _Optional[_Iterable[_Union[WeightedPodTerm, _Mapping]]] = ..., host_ports: _Optional[_Iterable[_Union[HostPort, _Mapping]]] = ..., disks: _Optional[_Iterable[_Union[Disk, _Mapping]]] = ..., claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., features: _Optional[_Iterable[str]] = ...) -> None: ...

class LabelSelector(_message.Message):
    __slots__ = ("requirements",)
    REQUIREMENTS_FIELD_NUMBER: _ClassVar[int]
    requirements: _containers.RepeatedCompositeFieldContainer[NodeRequirement]
    def __init__(self, requirements: _Optional[_Iterable[_Union[NodeRequirement, _Mapping]]] = ...) -> None: ...

class PodTerm(_message.Message):
    __slots__ = ("topology_key", "selector", "namespaces", "namespace_selector")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_SELECTOR_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    selector: LabelSelector
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    namespace_selector: LabelSelector
    def __init__(self, topology_key: _Optional[str] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., namespaces: _Optional[_Iterable[str]] = ..., namespace_selector: _Optional[_Union[LabelSelector, _Mapping]] = ...) -> None: ...

class WeightedPodTerm(_message.Message):
    __slots__ = ("weight", "term")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    weight: int
    term: PodTerm
    def __init__(self, weight: _Optional[int] = ..., term: _Optional[_Union[PodTerm, _Mapping]] = ...) -> None: ...

class WeightedNodeTerm(_message.Message):
    __slots__ = ("weight", "term")
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    weight: int
    term: NodeSelectorTerm
    def __init__(self, weight: _Optional[int] = ..., term: _Optional[_Union[NodeSelectorTerm, _Mapping]] = ...) -> None: ...

class SpreadConstraint(_message.Message):
    __slots__ = ("topology_key", "max_skew", "hard", "selector", "min_domains", "honors_affinity", "honors_taints")
    TOPOLOGY_KEY_FIELD_NUMBER: _ClassVar[int]
    MAX_SKEW_FIELD_NUMBER: _ClassVar[int]
    HARD_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    MIN_DOMAINS_FIELD_NUMBER: _ClassVar[int]
    HONORS_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    HONORS_TAINTS_FIELD_NUMBER: _ClassVar[int]
    topology_key: str
    max_skew: int
    hard: bool
    selector: LabelSelector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    def __init__(self, topology_key: _Optional[str] = ..., max_skew: _Optional[int] = ..., hard: _Optional[bool] = ..., selector: _Optional[_Union[LabelSelector, _Mapping]] = ..., min_domains: _Optional[int] = ..., honors_affinity: _Optional[bool] = ..., honors_taints: _Optional[bool] = ...) -> None: ...

class HostPort(_message.Message):
    __slots__ = ("port", "protocol", "address")
    PORT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    port: int
    protocol: str
    address: str
    def __init__(self, port: _Optional[int] = ..., protocol: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class Disk(_message.Message):
    __slots__ = ("name", "read_only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    read_only: bool
    def __init__(self, name: _Optional[str] = ..., read_only: _Optional[bool] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("name", "ephemeral")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    ephemeral: bool
    def __init__(self, name: _Optional[str] = ..., ephemeral: _Optional[bool] = ...) -> None: ...

class VolumeClaim(_message.Message):
    __slots__ = ("volume", "storage_class", "phase", "bound", "single_pod")
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    STORAGE_CLASS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    SINGLE_POD_FIELD_NUMBER: _ClassVar[int]
    volume: str
    storage_class: str
    phase: str
    bound: bool
    single_pod: bool
    def __init__(self, volume: _Optional[str] = ..., storage_class: _Optional[str] = ..., phase: _Optional[str] = ..., bound: _Optional[bool] = ..., single_pod: _Optional[bool] = ...) -> None: ...

class Volume(_message.Message):
    __slots__ = ("node_affinity", "has_node_affinity", "driver", "handle")
    NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    HAS_NODE_AFFINITY_FIELD_NUMBER: _ClassVar[int]
    DRIVER_FIELD_NUMBER: _ClassVar[int]
    HANDLE_FIELD_NUMBER: _ClassVar[int]
    node_affinity: _containers.RepeatedCompositeFieldContainer[NodeSelectorTerm]
    has_node_affinity: bool
    driver: str
    handle: str
    def __init__(self, node_affinity: _Optional[_Iterable[_Union[NodeSelectorTerm, _Mapping]]] = ..., has_node_affinity: _Optional[bool] = ..., driver: _Optional[str] = ..., handle: _Optional[str] = ...) -> None: ...

class StorageClass(_message.Message):
    __slots__ = ("binding_mode", "provisioner")
    BINDING_MODE_FIELD_NUMBER: _ClassVar[int]
    PROVISIONER_FIELD_NUMBER: _ClassVar[int]
    binding_mode: str
    provisioner: str
    def __init__(self, binding_mode: _Optional[str] = ..., provisioner: _Optional[str] = ...) -> None: ...

class CsiNode(_message.Message):
    __slots__ = ("limits",)
    class LimitsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    limits: _containers.ScalarMap[str, int]
    def __init__(self, limits: _Optional[_Mapping[str, int]] = ...) -> None: ...

class NodeSelectorTerm(_message.Message):
    __slots__ = ("expressions", "fields")
    EXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    expressions: _containers.RepeatedCompositeFieldContainer[NodeRequirement]
    fields: _containers.RepeatedCompositeFieldContainer[NodeRequirement]
    def __init__(self, expressions: _Optional[_Iterable[_Union[NodeRequirement, _Mapping]]] = ..., fields: _Optional[_Iterable[_Union[NodeRequirement, _Mapping]]] = ...) -> None: ...

class NodeRequirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class Toleration(_message.Message):
    __slots__ = ("key", "operator", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    value: str
    effect: str
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...

class PodGroup(_message.Message):
    __slots__ = ("min_count", "is_gang", "priority", "workload", "template", "disrupts_all", "initially_scheduled", "priority_class", "topology_keys", "claims")
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    IS_GANG_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    DISRUPTS_ALL_FIELD_NUMBER: _ClassVar[int]
    INITIALLY_SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_CLASS_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGY_KEYS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    min_count: int
    is_gang: bool
    priority: int
    workload: str
    template: str
    disrupts_all: bool
    initially_scheduled: str
    priority_class: str
    topology_keys: _containers.RepeatedScalarFieldContainer[str]
    claims: _containers.RepeatedCompositeFieldContainer[PodClaim]
    def __init__(self, min_count: _Optional[int] = ..., is_gang: _Optional[bool] = ..., priority: _Optional[int] = ..., workload: _Optional[str] = ..., template: _Optional[str] = ..., disrupts_all: _Optional[bool] = ..., initially_scheduled: _Optional[str] = ..., priority_class: _Optional[str] = ..., topology_keys: _Optional[_Iterable[str]] = ..., claims: _Optional[_Iterable[_Union[PodClaim, _Mapping]]] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("templates", "controller_kind", "controller_name")
    TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_KIND_FIELD_NUMBER: _ClassVar[int]
    CONTROLLER_NAME_FIELD_NUMBER: _ClassVar[int]
    templates: _containers.RepeatedScalarFieldContainer[str]
    controller_kind: str
    controller_name: str
    def __init__(self, templates: _Optional[_Iterable[str]] = ..., controller_kind: _Optional[str] = ..., controller_name: _Optional[str] = ...) -> None: ...

class PriorityClass(_message.Message):
    __slots__ = ("value", "global_default", "preemption_policy")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_POLICY_FIELD_NUMBER: _ClassVar[int]
    value: int
    global_default: bool
    preemption_policy: str
    def __init__(self, value: _Optional[int] = ..., global_default: _Optional[bool] = ..., preemption_policy: _Optional[str] = ...) -> None: ...

class Namespace(_message.Message):
    __slots__ = ("phase",)
    PHASE_FIELD_NUMBER: _ClassVar[int]
    phase: str
    def __init__(self, phase: _Optional[str] = ...) -> None: ...

class DeviceObject(_message.Message):
    __slots__ = ("kind", "spec_json", "status_json")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    STATUS_JSON_FIELD_NUMBER: _ClassVar[int]
    kind: str
    spec_json: bytes
    status_json: bytes
    def __init__(self, kind: _Optional[str] = ..., spec_json: _Optional[bytes] = ..., status_json: _Optional[bytes] = ...) -> None: ...

class WatchState(_message.Message):
    __slots__ = ("kind", "phase", "api_version", "resource_version", "object_count")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    API_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    OBJECT_COUNT_FIELD_NUMBER: _ClassVar[int]
    kind: str
    phase: WatchPhase
    api_version: str
    resource_version: str
    object_count: int
    def __init__(self, kind: _Optional[str] = ..., phase: _Optional[_Union[WatchPhase, str]] = ..., api_version: _Optional[str] = ..., resource_version: _Optional[str] = ..., object_count: _Optional[int] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("parallelism", "completions", "suspend", "indexed", "backoff_limit", "backoff_limit_per_index", "max_failed_indexes", "ignores_disruption_target", "fails_on_disruption_target", "pod_replacement_policy", "restart_policy", "failed", "finished")
    PARALLELISM_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    SUSPEND_FIELD_NUMBER: _ClassVar[int]
    INDEXED_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_LIMIT_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_LIMIT_PER_INDEX_FIELD_NUMBER: _ClassVar[int]
    MAX_FAILED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    IGNORES_DISRUPTION_TARGET_FIELD_NUMBER: _ClassVar[int]
    FAILS_ON_DISRUPTION_TARGET_FIELD_NUMBER: _ClassVar[int]
    POD_REPLACEMENT_POLICY_FIELD_NUMBER: _ClassVar[int]
    RESTART_POLICY_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    parallelism: int
    completions: int
    suspend: bool
    indexed: bool
    backoff_limit: int
    backoff_limit_per_index: int
    max_failed_indexes: int
    ignores_disruption_target: bool
    fails_on_disruption_target: bool
    pod_replacement_policy: str
    restart_policy: str
    failed: int
    finished: bool
    def __init__(self, parallelism: _Optional[int] = ..., completions: _Optional[int] = ..., suspend: _Optional[bool] = ..., indexed: _Optional[bool] = ..., backoff_limit: _Optional[int] = ..., backoff_limit_per_index: _Optional[int] = ..., max_failed_indexes: _Optional[int] = ..., ignores_disruption_target: _Optional[bool] = ..., fails_on_disruption_target: _Optional[bool] = ..., pod_replacement_policy: _Optional[str] = ..., restart_policy: _Optional[str] = ..., failed: _Optional[int] = ..., finished: _Optional[bool] = ...) -> None: ...

class GroupSource(_message.Message):
    __slots__ = ("kind", "min_count", "size", "roles", "suspended")
    KIND_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    kind: str
    min_count: int
    size: int
    roles: _containers.RepeatedCompositeFieldContainer[Role]
    suspended: bool
    def __init__(self, kind: _Optional[str] = ..., min_count: _Optional[int] = ..., size: _Optional[int] = ..., roles: _Optional[_Iterable[_Union[Role, _Mapping]]] = ..., suspended: _Optional[bool] = ...) -> None: ...

class Role(_message.Message):
    __slots__ = ("name", "count", "late")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    late: bool
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., late: _Optional[bool] = ...) -> None: ...
