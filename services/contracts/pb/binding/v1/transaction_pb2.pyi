import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from services.contracts.pb.placement.v1 import allocation_pb2 as _allocation_pb2
from services.contracts.pb.placement.v1 import decision_pb2 as _decision_pb2
from services.contracts.pb.placement.v1 import reason_pb2 as _reason_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Step(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_UNSPECIFIED: _ClassVar[Step]
    STEP_EXAMINING: _ClassVar[Step]
    STEP_PROBING: _ClassVar[Step]
    STEP_BINDING: _ClassVar[Step]
    STEP_FENCING: _ClassVar[Step]
    STEP_WAITING: _ClassVar[Step]
    STEP_UNDOING: _ClassVar[Step]
    STEP_PUBLISHING: _ClassVar[Step]
    STEP_OVER: _ClassVar[Step]
    STEP_CLAIMING: _ClassVar[Step]
    STEP_PREPARING: _ClassVar[Step]
    STEP_FREEING: _ClassVar[Step]
    STEP_EVICTING: _ClassVar[Step]

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    PHASE_RECEIVED: _ClassVar[Phase]
    PHASE_CHECKED: _ClassVar[Phase]
    PHASE_BINDING: _ClassVar[Phase]
    PHASE_REPAIRING: _ClassVar[Phase]
    PHASE_UNDOING: _ClassVar[Phase]
    PHASE_COMMITTED: _ClassVar[Phase]
    PHASE_REFUSED: _ClassVar[Phase]
    PHASE_ROLLED_BACK: _ClassVar[Phase]
    PHASE_EVICTING: _ClassVar[Phase]
    PHASE_CLAIMS: _ClassVar[Phase]

class MemberState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_STATE_UNSPECIFIED: _ClassVar[MemberState]
    MEMBER_STATE_OPEN: _ClassVar[MemberState]
    MEMBER_STATE_BOUND: _ClassVar[MemberState]
    MEMBER_STATE_ACCEPTED: _ClassVar[MemberState]
    MEMBER_STATE_GONE: _ClassVar[MemberState]
    MEMBER_STATE_UNDONE: _ClassVar[MemberState]
    MEMBER_STATE_PROMISED: _ClassVar[MemberState]
STEP_UNSPECIFIED: Step
STEP_EXAMINING: Step
STEP_PROBING: Step
STEP_BINDING: Step
STEP_FENCING: Step
STEP_WAITING: Step
STEP_UNDOING: Step
STEP_PUBLISHING: Step
STEP_OVER: Step
STEP_CLAIMING: Step
STEP_PREPARING: Step
STEP_FREEING: Step
STEP_EVICTING: Step
PHASE_UNSPECIFIED: Phase
PHASE_RECEIVED: Phase
PHASE_CHECKED: Phase
PHASE_BINDING: Phase
PHASE_REPAIRING: Phase
PHASE_UNDOING: Phase
PHASE_COMMITTED: Phase
PHASE_REFUSED: Phase
PHASE_ROLLED_BACK: Phase
PHASE_EVICTING: Phase
PHASE_CLAIMS: Phase
MEMBER_STATE_UNSPECIFIED: MemberState
MEMBER_STATE_OPEN: MemberState
MEMBER_STATE_BOUND: MemberState
MEMBER_STATE_ACCEPTED: MemberState
MEMBER_STATE_GONE: MemberState
MEMBER_STATE_UNDONE: MemberState
MEMBER_STATE_PROMISED: MemberState

class ListTransactionsRequest(_message.Message):
    __slots__ = ("gang",)
    GANG_FIELD_NUMBER: _ClassVar[int]
    gang: str
    def __init__(self, gang: _Optional[str] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("transactions",)
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    transactions: _containers.RepeatedCompositeFieldContainer[Transaction]
    def __init__(self, transactions: _Optional[_Iterable[_Union[Transaction, _Mapping]]] = ...) -> None: ...

class Transaction(_message.Message):
    __slots__ = ("id", "gang", "phase", "started_at", "deadline", "min_count", "round", "members", "step", "proposal", "until", "round_seen", "round_published", "is_cautious", "may_have_written", "is_ending", "is_keeping", "allows_delete", "beside", "end_reasons", "ending", "epoch", "claims", "prepare_until", "evict_until")
    ID_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    ROUND_SEEN_FIELD_NUMBER: _ClassVar[int]
    ROUND_PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    IS_CAUTIOUS_FIELD_NUMBER: _ClassVar[int]
    MAY_HAVE_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    IS_ENDING_FIELD_NUMBER: _ClassVar[int]
    IS_KEEPING_FIELD_NUMBER: _ClassVar[int]
    ALLOWS_DELETE_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    END_REASONS_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    PREPARE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    EVICT_UNTIL_FIELD_NUMBER: _ClassVar[int]
    id: str
    gang: str
    phase: Phase
    started_at: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    min_count: int
    round: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    step: Step
    proposal: _decision_pb2.Proposed
    until: _timestamp_pb2.Timestamp
    round_seen: int
    round_published: int
    is_cautious: bool
    may_have_written: bool
    is_ending: bool
    is_keeping: bool
    allows_delete: bool
    beside: int
    end_reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    ending: _decision_pb2.Decision
    epoch: int
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    prepare_until: _timestamp_pb2.Timestamp
    evict_until: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., gang: _Optional[str] = ..., phase: _Optional[_Union[Phase, str]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_count: _Optional[int] = ..., round: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., step: _Optional[_Union[Step, str]] = ..., proposal: _Optional[_Union[_decision_pb2.Proposed, _Mapping]] = ..., until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., round_seen: _Optional[int] = ..., round_published: _Optional[int] = ..., is_cautious: _Optional[bool] = ..., may_have_written: _Optional[bool] = ..., is_ending: _Optional[bool] = ..., is_keeping: _Optional[bool] = ..., allows_delete: _Optional[bool] = ..., beside: _Optional[int] = ..., end_reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ..., ending: _Optional[_Union[_decision_pb2.Decision, _Mapping]] = ..., epoch: _Optional[int] = ..., claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., prepare_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., evict_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("allocation", "is_held", "is_in_doubt", "is_ready")
    ALLOCATION_FIELD_NUMBER: _ClassVar[int]
    IS_HELD_FIELD_NUMBER: _ClassVar[int]
    IS_IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    IS_READY_FIELD_NUMBER: _ClassVar[int]
    allocation: _allocation_pb2.ClaimAllocation
    is_held: bool
    is_in_doubt: bool
    is_ready: bool
    def __init__(self, allocation: _Optional[_Union[_allocation_pb2.ClaimAllocation, _Mapping]] = ..., is_held: _Optional[bool] = ..., is_in_doubt: _Optional[bool] = ..., is_ready: _Optional[bool] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("pod", "uid", "node", "state", "reason", "excluded_nodes", "is_in_doubt", "is_repaired", "is_without_controller", "is_finished", "excluded_devices")
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_NODES_FIELD_NUMBER: _ClassVar[int]
    IS_IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    IS_REPAIRED_FIELD_NUMBER: _ClassVar[int]
    IS_WITHOUT_CONTROLLER_FIELD_NUMBER: _ClassVar[int]
    IS_FINISHED_FIELD_NUMBER: _ClassVar[int]
    EXCLUDED_DEVICES_FIELD_NUMBER: _ClassVar[int]
    pod: str
    uid: str
    node: str
    state: MemberState
    reason: _reason_pb2.Reason
    excluded_nodes: _containers.RepeatedScalarFieldContainer[str]
    is_in_doubt: bool
    is_repaired: bool
    is_without_controller: bool
    is_finished: bool
    excluded_devices: _containers.RepeatedCompositeFieldContainer[_allocation_pb2.DeviceId]
    def __init__(self, pod: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., state: _Optional[_Union[MemberState, str]] = ..., reason: _Optional[_Union[_reason_pb2.Reason, _Mapping]] = ..., excluded_nodes: _Optional[_Iterable[str]] = ..., is_in_doubt: _Optional[bool] = ..., is_repaired: _Optional[bool] = ..., is_without_controller: _Optional[bool] = ..., is_finished: _Optional[bool] = ..., excluded_devices: _Optional[_Iterable[_Union[_allocation_pb2.DeviceId, _Mapping]]] = ...) -> None: ...
