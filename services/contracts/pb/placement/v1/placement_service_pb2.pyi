import datetime

from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from services.contracts.pb.placement.v1 import reason_pb2 as _reason_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PlanRequest(_message.Message):
    __slots__ = ("manifests", "all_schedulers")
    MANIFESTS_FIELD_NUMBER: _ClassVar[int]
    ALL_SCHEDULERS_FIELD_NUMBER: _ClassVar[int]
    manifests: bytes
    all_schedulers: bool
    def __init__(self, manifests: _Optional[bytes] = ..., all_schedulers: _Optional[bool] = ...) -> None: ...

class PlanResponse(_message.Message):
    __slots__ = ("groups", "revision", "skipped_objects")
    class GroupsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: GroupPlan
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[GroupPlan, _Mapping]] = ...) -> None: ...
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_OBJECTS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.MessageMap[str, GroupPlan]
    revision: int
    skipped_objects: int
    def __init__(self, groups: _Optional[_Mapping[str, GroupPlan]] = ..., revision: _Optional[int] = ..., skipped_objects: _Optional[int] = ...) -> None: ...

class GroupPlan(_message.Message):
    __slots__ = ("outcome", "bound", "reasons", "devices", "evict", "nominate")
    class BoundEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class DevicesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.ListValue
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.ListValue, _Mapping]] = ...) -> None: ...
    class NominateEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    EVICT_FIELD_NUMBER: _ClassVar[int]
    NOMINATE_FIELD_NUMBER: _ClassVar[int]
    outcome: str
    bound: _containers.ScalarMap[str, str]
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    devices: _containers.MessageMap[str, _struct_pb2.ListValue]
    evict: _containers.RepeatedScalarFieldContainer[str]
    nominate: _containers.ScalarMap[str, str]
    def __init__(self, outcome: _Optional[str] = ..., bound: _Optional[_Mapping[str, str]] = ..., reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ..., devices: _Optional[_Mapping[str, _struct_pb2.ListValue]] = ..., evict: _Optional[_Iterable[str]] = ..., nominate: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("gang",)
    GANG_FIELD_NUMBER: _ClassVar[int]
    gang: str
    def __init__(self, gang: _Optional[str] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("gang", "state", "min_count", "existing", "placed", "reasons", "nodes", "transaction", "since", "revision", "position", "finished", "warnings")
    class NodesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    GANG_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    MIN_COUNT_FIELD_NUMBER: _ClassVar[int]
    EXISTING_FIELD_NUMBER: _ClassVar[int]
    PLACED_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    gang: str
    state: str
    min_count: int
    existing: int
    placed: int
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    nodes: _containers.ScalarMap[str, str]
    transaction: str
    since: _timestamp_pb2.Timestamp
    revision: int
    position: int
    finished: int
    warnings: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    def __init__(self, gang: _Optional[str] = ..., state: _Optional[str] = ..., min_count: _Optional[int] = ..., existing: _Optional[int] = ..., placed: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ..., nodes: _Optional[_Mapping[str, str]] = ..., transaction: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., revision: _Optional[int] = ..., position: _Optional[int] = ..., finished: _Optional[int] = ..., warnings: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ...) -> None: ...
