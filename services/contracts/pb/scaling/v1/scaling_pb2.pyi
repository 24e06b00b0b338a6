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
    PHASE_DECIDED: _ClassVar[Phase]
    PHASE_REPLICAS_SET: _ClassVar[Phase]
    PHASE_PODS_CREATED: _ClassVar[Phase]
    PHASE_PLACED: _ClassVar[Phase]
    PHASE_BOUND: _ClassVar[Phase]
    PHASE_RUNNING: _ClassVar[Phase]
    PHASE_READY: _ClassVar[Phase]
    PHASE_FIRST_ITEM: _ClassVar[Phase]
PHASE_UNSPECIFIED: Phase
PHASE_DECIDED: Phase
PHASE_REPLICAS_SET: Phase
PHASE_PODS_CREATED: Phase
PHASE_PLACED: Phase
PHASE_BOUND: Phase
PHASE_RUNNING: Phase
PHASE_READY: Phase
PHASE_FIRST_ITEM: Phase

class ScalingDecision(_message.Message):
    __slots__ = ("namespace", "hpa", "decided_at", "epoch", "woken", "held", "refused", "started")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    HPA_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    WOKEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    hpa: str
    decided_at: _timestamp_pb2.Timestamp
    epoch: int
    woken: Woken
    held: Held
    refused: Refused
    started: Started
    def __init__(self, namespace: _Optional[str] = ..., hpa: _Optional[str] = ..., decided_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., epoch: _Optional[int] = ..., woken: _Optional[_Union[Woken, _Mapping]] = ..., held: _Optional[_Union[Held, _Mapping]] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., started: _Optional[_Union[Started, _Mapping]] = ...) -> None: ...

class Woken(_message.Message):
    __slots__ = ("replicas", "why", "warnings")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    why: str
    warnings: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    def __init__(self, replicas: _Optional[int] = ..., why: _Optional[str] = ..., warnings: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("replicas", "reasons")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    def __init__(self, replicas: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("wanted_replicas", "reasons")
    WANTED_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    wanted_replicas: int
    reasons: _containers.RepeatedCompositeFieldContainer[_reason_pb2.Reason]
    def __init__(self, wanted_replicas: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[_reason_pb2.Reason, _Mapping]]] = ...) -> None: ...

class Started(_message.Message):
    __slots__ = ("replicas", "phases", "missing")
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    phases: _containers.RepeatedCompositeFieldContainer[PhaseEnd]
    missing: str
    def __init__(self, replicas: _Optional[int] = ..., phases: _Optional[_Iterable[_Union[PhaseEnd, _Mapping]]] = ..., missing: _Optional[str] = ...) -> None: ...

class PhaseEnd(_message.Message):
    __slots__ = ("phase", "at_s")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    phase: Phase
    at_s: float
    def __init__(self, phase: _Optional[_Union[Phase, str]] = ..., at_s: _Optional[float] = ...) -> None: ...
