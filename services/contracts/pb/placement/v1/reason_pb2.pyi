from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReasonCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_CODE_UNSPECIFIED: _ClassVar[ReasonCode]
    REASON_CODE_MEMBERS_MISSING: _ClassVar[ReasonCode]
    REASON_CODE_MEMBERS_GATED: _ClassVar[ReasonCode]
    REASON_CODE_GROUP_NOT_FOUND: _ClassVar[ReasonCode]
    REASON_CODE_MIXED_SCHEDULERS: _ClassVar[ReasonCode]
    REASON_CODE_UNSUPPORTED_CONSTRAINT: _ClassVar[ReasonCode]
    REASON_CODE_GANG_TOO_LARGE: _ClassVar[ReasonCode]
    REASON_CODE_CLUSTER_NOT_SYNCED: _ClassVar[ReasonCode]
    REASON_CODE_MEMBERS_ARRIVING: _ClassVar[ReasonCode]
    REASON_CODE_MISCONFIGURED: _ClassVar[ReasonCode]
    REASON_CODE_INSUFFICIENT_CAPACITY: _ClassVar[ReasonCode]
    REASON_CODE_INSUFFICIENT_RESOURCE: _ClassVar[ReasonCode]
    REASON_CODE_NODE_UNSCHEDULABLE: _ClassVar[ReasonCode]
    REASON_CODE_NODE_NOT_READY: _ClassVar[ReasonCode]
    REASON_CODE_TAINT_NOT_TOLERATED: _ClassVar[ReasonCode]
    REASON_CODE_NODE_SELECTOR_MISMATCH: _ClassVar[ReasonCode]
    REASON_CODE_NODE_AFFINITY_MISMATCH: _ClassVar[ReasonCode]
    REASON_CODE_NODE_EXCLUDED: _ClassVar[ReasonCode]
    REASON_CODE_NO_NODES: _ClassVar[ReasonCode]
    REASON_CODE_PLACEMENT_STALE: _ClassVar[ReasonCode]
    REASON_CODE_BINDING_REFUSED: _ClassVar[ReasonCode]
    REASON_CODE_BOUND_ELSEWHERE: _ClassVar[ReasonCode]
    REASON_CODE_MEMBER_GONE: _ClassVar[ReasonCode]
    REASON_CODE_DEADLINE_EXCEEDED: _ClassVar[ReasonCode]
    REASON_CODE_REPAIR_WINDOW_EXPIRED: _ClassVar[ReasonCode]
    REASON_CODE_KEPT_WITHOUT_CONTROLLER: _ClassVar[ReasonCode]
    REASON_CODE_API_UNAVAILABLE: _ClassVar[ReasonCode]
    REASON_CODE_FORBIDDEN: _ClassVar[ReasonCode]
    REASON_CODE_KUBELET_REJECTED: _ClassVar[ReasonCode]
    REASON_CODE_QUORUM_LOST: _ClassVar[ReasonCode]
    REASON_CODE_DEGRADED_TOO_LONG: _ClassVar[ReasonCode]
    REASON_CODE_UNDO_FATAL: _ClassVar[ReasonCode]
    REASON_CODE_UNDO_SLOW: _ClassVar[ReasonCode]
    REASON_CODE_BACKING_OFF: _ClassVar[ReasonCode]
    REASON_CODE_SUSPENDED: _ClassVar[ReasonCode]
    REASON_CODE_OWNER_NOT_SEEN: _ClassVar[ReasonCode]
    REASON_CODE_PLACEMENT_SUPERSEDED: _ClassVar[ReasonCode]
    REASON_CODE_PLACEMENT_MALFORMED: _ClassVar[ReasonCode]
REASON_CODE_UNSPECIFIED: ReasonCode
REASON_CODE_MEMBERS_MISSING: ReasonCode
REASON_CODE_MEMBERS_GATED: ReasonCode
REASON_CODE_GROUP_NOT_FOUND: ReasonCode
REASON_CODE_MIXED_SCHEDULERS: ReasonCode
REASON_CODE_UNSUPPORTED_CONSTRAINT: ReasonCode
REASON_CODE_GANG_TOO_LARGE: ReasonCode
REASON_CODE_CLUSTER_NOT_SYNCED: ReasonCode
REASON_CODE_MEMBERS_ARRIVING: ReasonCode
REASON_CODE_MISCONFIGURED: ReasonCode
REASON_CODE_INSUFFICIENT_CAPACITY: ReasonCode
REASON_CODE_INSUFFICIENT_RESOURCE: ReasonCode
REASON_CODE_NODE_UNSCHEDULABLE: ReasonCode
REASON_CODE_NODE_NOT_READY: ReasonCode
REASON_CODE_TAINT_NOT_TOLERATED: ReasonCode
REASON_CODE_NODE_SELECTOR_MISMATCH: ReasonCode
REASON_CODE_NODE_AFFINITY_MISMATCH: ReasonCode
REASON_CODE_NODE_EXCLUDED: ReasonCode
REASON_CODE_NO_NODES: ReasonCode
REASON_CODE_PLACEMENT_STALE: ReasonCode
REASON_CODE_BINDING_REFUSED: ReasonCode
REASON_CODE_BOUND_ELSEWHERE: ReasonCode
REASON_CODE_MEMBER_GONE: ReasonCode
REASON_CODE_DEADLINE_EXCEEDED: ReasonCode
REASON_CODE_REPAIR_WINDOW_EXPIRED: ReasonCode
REASON_CODE_KEPT_WITHOUT_CONTROLLER: ReasonCode
REASON_CODE_API_UNAVAILABLE: ReasonCode
REASON_CODE_FORBIDDEN: ReasonCode
REASON_CODE_KUBELET_REJECTED: ReasonCode
REASON_CODE_QUORUM_LOST: ReasonCode
REASON_CODE_DEGRADED_TOO_LONG: ReasonCode
REASON_CODE_UNDO_FATAL: ReasonCode
REASON_CODE_UNDO_SLOW: ReasonCode
REASON_CODE_BACKING_OFF: ReasonCode
REASON_CODE_SUSPENDED: ReasonCode
REASON_CODE_OWNER_NOT_SEEN: ReasonCode
REASON_CODE_PLACEMENT_SUPERSEDED: ReasonCode
REASON_CODE_PLACEMENT_MALFORMED: ReasonCode

class Reason(_message.Message):
    __slots__ = ("code", "message", "count", "subject")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    code: ReasonCode
    message: str
    count: int
    subject: str
    def __init__(self, code: _Optional[_Union[ReasonCode, str]] = ..., message: _Optional[str] = ..., count: _Optional[int] = ..., subject: _Optional[str] = ...) -> None: ...
