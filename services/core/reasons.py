"""Reasons as values: why a gang waits, a node does not fit, or a transaction failed.

The codes are those of `ReasonCode` in `proto/phalanx/placement/v1/reason.proto`, in CamelCase
(a test compares both lists).
"""

from dataclasses import dataclass
from enum import StrEnum


class ReasonCode(StrEnum):
    """The only list of reasons; docs/reasons.md says what to do about each."""

    MEMBERS_MISSING = "MembersMissing"
    MEMBERS_GATED = "MembersGated"
    GROUP_NOT_FOUND = "GroupNotFound"
    MIXED_SCHEDULERS = "MixedSchedulers"
    UNSUPPORTED_CONSTRAINT = "UnsupportedConstraint"
    GANG_TOO_LARGE = "GangTooLarge"
    CLUSTER_NOT_SYNCED = "ClusterNotSynced"
    MEMBERS_ARRIVING = "MembersArriving"
    MISCONFIGURED = "Misconfigured"
    INSUFFICIENT_CAPACITY = "InsufficientCapacity"
    INSUFFICIENT_RESOURCE = "InsufficientResource"
    NODE_UNSCHEDULABLE = "NodeUnschedulable"
    NODE_NOT_READY = "NodeNotReady"
    TAINT_NOT_TOLERATED = "TaintNotTolerated"
    NODE_SELECTOR_MISMATCH = "NodeSelectorMismatch"
    NODE_AFFINITY_MISMATCH = "NodeAffinityMismatch"
    NODE_EXCLUDED = "NodeExcluded"
    NO_NODES = "NoNodes"
    PLACEMENT_STALE = "PlacementStale"
    BINDING_REFUSED = "BindingRefused"
    BOUND_ELSEWHERE = "BoundElsewhere"
    MEMBER_GONE = "MemberGone"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    REPAIR_WINDOW_EXPIRED = "RepairWindowExpired"
    KEPT_WITHOUT_CONTROLLER = "KeptWithoutController"
    API_UNAVAILABLE = "ApiUnavailable"
    FORBIDDEN = "Forbidden"
    KUBELET_REJECTED = "KubeletRejected"
    QUORUM_LOST = "QuorumLost"
    DEGRADED_TOO_LONG = "DegradedTooLong"
    UNDO_FATAL = "UndoFatal"
    UNDO_SLOW = "UndoSlow"
    BACKING_OFF = "BackingOff"
    SUSPENDED = "Suspended"
    OWNER_NOT_SEEN = "OwnerNotSeen"
    PLACEMENT_SUPERSEDED = "PlacementSuperseded"
    PLACEMENT_MALFORMED = "PlacementMalformed"
    NODE_OVERCOMMITTED = "NodeOvercommitted"
    CLAIM_NOT_READY = "ClaimNotReady"
    CLAIM_CHANGED = "ClaimChanged"
    CLAIM_REFUSED = "ClaimRefused"
    DEVICE_COLLISION = "DeviceCollision"
    DEVICE_NOT_READY = "DeviceNotReady"
    UNREADABLE_FIELD = "UnreadableField"
    POD_AFFINITY_MISMATCH = "PodAffinityMismatch"
    POD_ANTI_AFFINITY_MISMATCH = "PodAntiAffinityMismatch"
    TOPOLOGY_SPREAD_MISMATCH = "TopologySpreadMismatch"
    HOST_PORT_IN_USE = "HostPortInUse"
    NODE_FEATURE_MISSING = "NodeFeatureMissing"
    VOLUME_NODE_MISMATCH = "VolumeNodeMismatch"
    VOLUME_IN_USE = "VolumeInUse"
    VOLUME_LIMIT_EXCEEDED = "VolumeLimitExceeded"
    VOLUME_NOT_FOUND = "VolumeNotFound"
    VOLUME_NOT_BOUND = "VolumeNotBound"
    VOLUME_WAITS_FOR_CONSUMER = "VolumeWaitsForConsumer"
    TOPOLOGY_PLACEMENT_FAILED = "TopologyPlacementFailed"
    NO_PLACEMENT_EXISTS = "NoPlacementExists"
    SEARCH_BUDGET_EXHAUSTED = "SearchBudgetExhausted"
    DEVICE_CLASS_NOT_FOUND = "DeviceClassNotFound"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    SELECTOR_NOT_SUPPORTED = "SelectorNotSupported"
    SELECTOR_FAILED = "SelectorFailed"
    DEVICES_INSUFFICIENT = "DevicesInsufficient"
    DEVICE_TAINT_NOT_TOLERATED = "DeviceTaintNotTolerated"
    DEVICE_POOL_UNUSABLE = "DevicePoolUnusable"
    CLAIM_NODE_MISMATCH = "ClaimNodeMismatch"
    CLAIM_LIMIT_EXCEEDED = "ClaimLimitExceeded"
    CLAIM_NOT_SUPPORTED = "ClaimNotSupported"
    PREEMPTION_WOULD_HELP = "PreemptionWouldHelp"
    PREEMPTION_NOT_ENOUGH = "PreemptionNotEnough"
    VICTIM_STAYS = "VictimStays"
    METRIC_UNKNOWN = "MetricUnknown"
    TARGET_SHARED = "TargetShared"
    TARGET_NOT_FOUND = "TargetNotFound"
    TARGET_NOT_SCALABLE = "TargetNotScalable"
    MAX_BELOW_GROUP = "MaxBelowGroup"
    NEVER_IDLE = "NeverIdle"
    REPLICAS_DO_NOT_FIT = "ReplicasDoNotFit"
    FIT_UNKNOWN = "FitUnknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason.

    `count` is how many nodes or members it applies to, `subject` the resource, taint or field in question.
    """

    code: ReasonCode
    message: str
    count: int = 0
    subject: str = ""


def codes(reasons: tuple[Reason, ...]) -> frozenset[tuple[str, str]]:
    """Return what must change for the reasons to be told again: codes and subjects, not counts."""
    return frozenset((reason.code.value, reason.subject) for reason in reasons)


def summary(reasons: tuple[Reason, ...]) -> str:
    """Return the reasons as one line for a condition or an event."""
    return "; ".join(reason.message for reason in reasons)
