import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from services.contracts.pb.placement.v1 import reason_pb2 as _reason_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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

class MemberState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_STATE_UNSPECIFIED: _ClassVar[MemberState]
    MEMBER_STATE_OPEN: _ClassVar[MemberState]
    MEMBER_STATE_BOUND: _ClassVar[MemberState]
    MEMBER_STATE_ACCEPTED: _ClassVar[MemberState]
    MEMBER_STATE_GONE: _ClassVar[MemberState]
    MEMBER_STATE_UNDONE: _ClassVar[MemberState]
PHASE_UNSPECIFIED: Phase
PHASE_RECEIVED: Phase
PHASE_CHECKED: Phase
PHASE_BINDING: Phase
PHASE_REPAIRING: Phase
PHASE_UNDOING: Phase
PHASE_COMMITTED: Phase
PHASE_REFUSED: Phase
PHASE_ROLLED_BACK: Phase
MEMBER_STATE_UNSPECIFIED: MemberState
MEMBER_STATE_OPEN: MemberState
MEMBER_STATE_BOUND: MemberState
MEMBER_STATE_ACCEPTED: MemberState
MEMBER_STATE_GONE: MemberState
MEMBER_STATE_UNDONE: MemberState

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
    __slots__ = ("id", "gang", "phase", "started_at", "deadline", "min_count", "round", "members")
    ID_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    gang: str
    phase: Phase
    started_at: _timestamp_pb2.Timestamp
    deadline: _timestamp_pb2.Timestamp
    min_count: int
    round: int
    members: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, id: _Optional[str] = ..., gang: _Optional[str] = ..., phase: _Optional[_Union[Phase, str]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., min_count: _Optional[int] = ..., round: _Optional[int] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("pod", "uid", "node", "state", "reason")
    POD_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    pod: str
    uid: str
    node: str
    state: MemberState
    reason: _reason_pb2.Reason
    def __init__(self, pod: _Optional[str] = ..., uid: _Optional[str] = ..., node: _Optional[str] = ..., state: _Optional[_Union[MemberState, str]] = ..., reason: _Optional[_Union[_reason_pb2.Reason, _Mapping]] = ...) -> None: ...
