"""Commands that arrive at least once and take effect once: scale steps and evictions.

A command can come again after its worker died before the acknowledgement, come late, or meet the successor of its
target. So the record of the last command stands on the target itself, and effect and record are one write on the
condition of the version that was read: whoever loses that race reads again and decides anew. Deletions name the uid.
Made for the autoscaler, which scales, and the binder, which evicts; reading, writing and acknowledging are theirs.

Order: commands of one target carry growing sequences. One that is overtaken is dropped, not replayed, so a relative
step (`AddReplicas`) needs its predecessors delivered first, as with one message in flight per target.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from services.core.objects import Uid

MAX_REPLICAS = 2**31 - 1
"""Largest value of `spec.replicas` in the Kubernetes API."""

_RECORD = re.compile(r"(?P<sequence>[0-9]{1,19})/(?P<id>\S{1,253})")


class MalformedRecord(ValueError):
    """The record on an object is not one of ours. Nothing may be written: an unknown record is not an absent one."""


class ConflictingCommands(ValueError):
    """Two commands of one target carry the same sequence, so that nobody can tell which one is newer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The last command that took effect on an object; stands in its annotation `phalanx.dev/last-command`."""

    sequence: int
    id: str

    def text(self) -> str:
        """Return the annotation's value."""
        return f"{self.sequence}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReplicas:
    """Scale to a number. `uid` is the target that the sender saw."""

    id: str
    sequence: int
    uid: Uid
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AddReplicas:
    """Scale by a number, which may be negative. `uid` is the target that the sender saw."""

    id: str
    sequence: int
    uid: Uid
    count: int


ScaleCommand = SetReplicas | AddReplicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Remove one pod: the one of that uid and no other, whatever its name is."""

    id: str
    uid: Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleTarget:
    """What was read of a scalable object. `record` is the text of its annotation, empty where it has none."""

    uid: Uid
    replicas: int
    record: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionTarget:
    """What was read of a pod."""

    uid: Uid
    is_terminating: bool = False


class SkipReason(StrEnum):
    """Why a command has no effect. Each is final: the message is acknowledged."""

    ALREADY_APPLIED = "AlreadyApplied"
    SUPERSEDED = "Superseded"
    TARGET_GONE = "TargetGone"
    TARGET_REPLACED = "TargetReplaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Nothing is to be written."""

    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleWrite:
    """Replicas and record, to be written in one request with the resourceVersion that was read."""

    replicas: int
    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionWrite:
    """A deletion with this uid as its precondition."""

    uid: Uid


def parse_record(text: str) -> Record | None:
    """Return the record in an annotation's value, None for an empty one. Raises MalformedRecord."""
    if not text:
        return None
    found = _RECORD.fullmatch(text)
    if found is None:
        raise MalformedRecord(f"expected <sequence>/<id>, such as 70/m-7, got {text!r}; remove the annotation")
    return Record(sequence=int(found["sequence"]), id=found["id"])


def decide_scale(command: ScaleCommand, *, target: ScaleTarget | None) -> ScaleWrite | Skip:
    """Return what a scale command does to its target as it was read just now.

    Raises MalformedRecord and ConflictingCommands; then nothing may be written and the message is not acknowledged.
    """
    if target is None:
        return Skip(reason=SkipReason.TARGET_GONE)
    if target.uid != command.uid:
        return Skip(reason=SkipReason.TARGET_REPLACED)
    last = parse_record(target.record)
    if last is not None and last.sequence >= command.sequence:
        if last.sequence > command.sequence:
            return Skip(reason=SkipReason.SUPERSEDED)
        if last.id != command.id:
            raise ConflictingCommands(
                f"commands {last.id} and {command.id} both have sequence {command.sequence}; expected growing sequences"
            )
        return Skip(reason=SkipReason.ALREADY_APPLIED)
    wanted = command.replicas if isinstance(command, SetReplicas) else target.replicas + command.count
    return ScaleWrite(
        replicas=min(max(wanted, 0), MAX_REPLICAS), record=Record(sequence=command.sequence, id=command.id)
    )


def decide_eviction(command: Evict, *, target: EvictionTarget | None) -> EvictionWrite | Skip:
    """Return what an eviction does to the pod that has the name now. Its record is the pod's end itself."""
    if target is None:
        return Skip(reason=SkipReason.TARGET_GONE)
    if target.uid != command.uid:
        return Skip(reason=SkipReason.TARGET_REPLACED)
    if target.is_terminating:
        return Skip(reason=SkipReason.ALREADY_APPLIED)
    return EvictionWrite(uid=command.uid)
