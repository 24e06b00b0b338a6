import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from services.contracts.pb.placement.v1 import allocation_pb2 as _allocation_pb2
from services.contracts.pb.placement.v1 import reason_pb2 as _reason_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DegradedPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DEGRADED_POLICY_UNSPECIFIED: _ClassVar[DegradedPolicy]
    DEGRADED_POLICY_KEEP: _ClassVar[DegradedPolicy]
    DEGRADED_POLICY_RELEASE: _ClassVar[DegradedPolicy]
DEGRADED_POLICY_UNSPECIFIED: DegradedPolicy
DEGRADED_POLICY_KEEP: DegradedPolicy
DEGRADED_POLICY_RELEASE: DegradedPolicy

class Decision(_message.Message):
    __slots__ = ("gang", "transaction", "decided_at", "epoch", "proposed", "waiting", "committed", "refused", "rolled_back", "repairing", "degraded")
    GANG_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROPOSED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ROLLED_BACK_FIELD_NUMBER: _ClassVar[int]
    REPAIRING_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    gang: str
    transaction: str
    decided_at: _timestamp_pb2.Timestamp
    epoch: int
    proposed: Proposed
    waiting: Waiting
    committed: Committed
    refused: Refused
    rolled_back: RolledBack
    repairing: Repairing
    degraded: Degraded
    def __init__(self, gang: _Optional[str] = ..., transaction: _Optional[str] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., epoch: _Optional[int] = ..., proposed: _Optional[_Union[Proposed, _Mapping]] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ..., committed: _Optional[_Union[Committed, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., rolled_back: _Optional[_Union[RolledBack, _Mapping]] = ..., repairing: _Optional[_Union[Repairing, _Mapping]] = ..., degraded: _Optional[_Union[Degraded, _Mapping]] = ...) -> None: ...

class Proposed(_message.Message):
    __slots__ = ("revision", "deadline", "min_count", "round", "assignments", "already_placed", "repair_window", "release", "warnings", "reopened", "claims", "victims")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENTS_FIELD_NUMBER: _ClassVar[int]
    ALREADY_PLACED_FIELD_NUMBER: _ClassVar[int]
    REPAIR_WINDOW_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    REOPENED_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    VICTIMS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    deadline: _timestamp_pb2.Timestamp
    min_count: int
    round: int
    assignments: _containers.RepeatedCompositeFieldContainer[Assignment]
    already_placed: int
    repair_window: _duration_pb2.Duration
    release: bool
    warnings: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    reopened: bool
    claims: _containers.RepeatedCompositeFieldContainer[_allocation_pb2.ClaimAllocation]
    victims: _containers.RepeatedCompositeFieldContainer[Victim]
    def __init__(self, revision: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_count: _Optional[int] = ..., round: _Optional[int] = ..., assignments: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., already_placed: _Optional[int] = ..., repair_window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., release: _Optional[bool] = ..., warnings: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ..., reopened: _Optional[bool] = ..., claims: _Optional[_Iterable[_Union[_allocation_pb2.ClaimAllocation, _Mapping]]] = ..., victims: _Optional[_Iterable[_Union[Victim, _Mapping]]] = ...) -> None: ...

class Victim(_message.Message):
    __slots__ = ("namespace", "pod", "uid", "node", "priority", "gang")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    uid: str
    node: str
    priority: int
    gang: str
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., priority: _Optional[int] = ..., gang: _Optional[str] = ...) -> None: ...

class Assignment(_message.Message):
    __slots__ = ("pod", "uid", "node")
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    pod: str
    uid: str
    node: str
    def __init__(self, pod: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("revision", "min_count", "existing", "placeable", "reasons")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXISTING_FIELD_NUMBER: _ClassVar[int]
    PLACEABLE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    min_count: int
    existing: int
    placeable: int
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    def __init__(self, revision: _Optional[int] = ..., min_count: _Optional[int] = ..., existing: _Optional[int] = ..., placeable: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("members", "repaired", "accepted", "open")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    REPAIRED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[Assignment]
    repaired: int
    accepted: int
    open: int
    def __init__(self, members: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., repaired: _Optional[int] = ..., accepted: _Optional[int] = ..., open: _Optional[int] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("reasons",)
    REASONS_FIELD_NUMBER: _ClassVar[int]
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    def __init__(self, reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ...) -> None: ...

class RolledBack(_message.Message):
    __slots__ = ("reasons", "undone", "kept")
    REASONS_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    undone: _containers.RepeatedCompositeFieldContainer[Assignment]
    kept: _containers.RepeatedCompositeFieldContainer[Assignment]
    def __init__(self, reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ..., undone: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., kept: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ...) -> None: ...

class Repairing(_message.Message):
    __slots__ = ("round", "bound", "open", "until", "min_count")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    round: int
    bound: _containers.RepeatedCompositeFieldContainer[Assignment]
    open: _containers.RepeatedCompositeFieldContainer[OpenMember]
    until: _timestamp_pb2.Timestamp
    min_count: int
    def __init__(self, round: _Optional[int] = ..., bound: _Optional[_Iterable[_Union[Assignment, _Mapping]]] = ..., open: _Optional[_Iterable[_Union[OpenMember, _Mapping]]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_count: _Optional[int] = ...) -> None: ...

class Degraded(_message.Message):
    __slots__ = ("revision", "min_count", "placed", "until", "policy", "over", "reasons")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    min_count: int
    placed: int
    until: _timestamp_pb2.Timestamp
    policy: DegradedPolicy
    over: bool
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    def __init__(self, revision: _Optional[int] = ..., min_count: _Optional[int] = ..., placed: _Optional[int] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., policy: _Optional[_Union[DegradedPolicy, str]] = ..., over: _Optional[bool] = ..., reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ...) -> None: ...

class OpenMember(_message.Message):
    __slots__ = ("pod", "uid", "excluded_nodes", "reason", "excluded_devices")
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_NODES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_DEVICES_FIELD_NUMBER: _ClassVar[int]
    pod: str
    uid: str
    excluded_nodes: _containers.RepeatedScalarFieldContainer[str]
    reason: _reason_pb2.Reason
    excluded_devices: _containers.RepeatedCompositeFieldContainer[_allocation_pb2.DeviceId]
    def __init__(self, pod: _Optional[str] = ..., uid: _Optional[str] = ..., excluded_nodes: _Optional[_Iterable[str]] = ..., reason: _Optional[_Union[_reason_pb2.Reason, _Mapping]] = ..., excluded_devices: _Optional[_Iterable[_Union[_allocation_pb2.DeviceId, _Mapping]]] = ...) -> None: ...
