"""From what the API says to what may be written: reduce, encode, fingerprint. Pure."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from google.protobuf.message import DecodeError

from services.contracts.cluster_codec import change_id, change_type, encode_change
from services.contracts.pb.cluster.v1 import cluster_pb2 as pb
from services.contracts.streams import MAX_MESSAGE_BYTES
from services.contracts.subjects import CLUSTER, CLUSTER_SCOPED, cluster_subject
from services.core.objects import Applied, ClusterChange, Deleted, Kind, Metadata, Uid
from services.core.reduce import MalformedObject, reduce_leniently
from services.watcher.publication import UNKNOWN_REVISION, Outgoing, Version

FINGERPRINT_BYTES = 16

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
"""What names consist of: no `_`, which stands for `.` in subjects, and nothing that subjects treat specially."""
_NAME_EXPECTED = "a name of small letters, digits, '-' and '.'"
_REVISION = re.compile(r"[0-9]{1,19}")


def subject_of(kind: Kind, manifest: Mapping[str, Any]) -> str:
    """Return the subject of an object. Different names never share one. Raises MalformedObject."""
    return cluster_subject(kind, _identity(kind, manifest))


def applied(
    kind: Kind, manifest: Mapping[str, Any], *, seen_at_s: float = 0.0, seen_at_ns: int = 0, is_traced: bool = False
) -> Outgoing:
    """Return what a created, changed or listed object says. Raises MalformedObject."""
    identity = _identity(kind, manifest)
    revision = _revision(kind, identity)
    change = Applied(object=reduce_leniently(kind, manifest))
    data = encode_change(change)
    if len(data) > MAX_MESSAGE_BYTES:
        expected = f"at most {MAX_MESSAGE_BYTES} bytes in reduced form"
        raise _malformed(kind, identity, field="metadata", expected=expected, got=len(data))
    return Outgoing(
        subject=cluster_subject(kind, identity),
        version=Version(
            uid=identity.uid, revision=revision, fingerprint=_fingerprint(pb.ClusterEvent.FromString(data))
        ),
        data=data,
        event_id=change_id(change),
        event_type=change_type(change),
        seen_at_s=seen_at_s,
        seen_at_ns=seen_at_ns,
        is_traced=is_traced,
    )


def deleted(
    kind: Kind, manifest: Mapping[str, Any], *, seen_at_s: float = 0.0, seen_at_ns: int = 0, is_traced: bool = False
) -> Outgoing:
    """Return the tombstone of an object whose deletion was seen. Only its identity is read. Raises MalformedObject."""
    identity = _identity(kind, manifest)
    change = Deleted(kind=kind, metadata=identity)
    revision = _revision(kind, identity)
    return _tombstone(change, revision=revision, seen_at_s=seen_at_s, seen_at_ns=seen_at_ns, is_traced=is_traced)


def missed(
    kind: Kind, *, subject: str, uid: str, revision: int, seen_at_s: float = 0.0, seen_at_ns: int = 0
) -> Outgoing:
    """Return the tombstone of an object that a list at `revision` does not name."""
    namespace, name = subject.removeprefix(f"{CLUSTER}.{kind.value}.").split(".")
    metadata = Metadata(
        name=name.replace("_", "."),
        namespace="" if namespace == CLUSTER_SCOPED else namespace.replace("_", "."),
        uid=Uid(uid),
        resource_version=str(revision),
    )
    change = Deleted(kind=kind, metadata=metadata)
    return _tombstone(change, revision=revision, seen_at_s=seen_at_s, seen_at_ns=seen_at_ns, is_traced=False)


def revision_of(manifest: Mapping[str, Any]) -> int:
    """Return the revision of an object that may be malformed."""
    given = manifest.get("metadata")
    text = str(given.get("resourceVersion")) if isinstance(given, dict) else ""
    return int(text) if _REVISION.fullmatch(text) else UNKNOWN_REVISION


def version_of_message(data: bytes) -> Version:
    """Return the version that a stored message carries; one that cannot be read is older than everything."""
    event = pb.ClusterEvent()
    try:
        event.ParseFromString(data)
    except DecodeError:
        return Version(uid="", revision=UNKNOWN_REVISION, fingerprint=b"unreadable")
    text = event.metadata.resource_version
    return Version(
        uid=event.metadata.uid,
        revision=int(text) if _REVISION.fullmatch(text) else UNKNOWN_REVISION,
        fingerprint=b"" if event.deleted else _fingerprint(event),
    )


def _fingerprint(event: pb.ClusterEvent) -> bytes:
    """Return a digest of everything but the resourceVersion. Changes `event`."""
    event.metadata.resource_version = ""
    return blake2b(event.SerializeToString(deterministic=True), digest_size=FINGERPRINT_BYTES).digest()


def _tombstone(change: ClusterChange, *, revision: int, seen_at_s: float, seen_at_ns: int, is_traced: bool) -> Outgoing:
    return Outgoing(
        subject=cluster_subject(change.kind, change.metadata),
        version=Version(uid=change.metadata.uid, revision=revision),
        data=encode_change(change),
        event_id=change_id(change),
        event_type=change_type(change),
        seen_at_s=seen_at_s,
        seen_at_ns=seen_at_ns,
        is_traced=is_traced,
    )


def _identity(kind: Kind, manifest: Mapping[str, Any]) -> Metadata:
    given = manifest.get("metadata")
    metadata: Mapping[str, Any] = given if isinstance(given, dict) else {}
    identity = Metadata(
        name=str(metadata.get("name") or ""),
        namespace=str(metadata.get("namespace") or ""),
        uid=Uid(str(metadata.get("uid") or "")),
        resource_version=str(metadata.get("resourceVersion") or ""),
    )
    if not _NAME.fullmatch(identity.name):
        raise _malformed(kind, identity, field="metadata.name", expected=_NAME_EXPECTED, got=identity.name)
    if identity.namespace and not _NAME.fullmatch(identity.namespace):
        raise _malformed(kind, identity, field="metadata.namespace", expected=_NAME_EXPECTED, got=identity.namespace)
    return identity


def _revision(kind: Kind, identity: Metadata) -> int:
    text = identity.resource_version
    if not _REVISION.fullmatch(text):
        raise _malformed(kind, identity, field="metadata.resourceVersion", expected="a whole number", got=text)
    return int(text)


def _malformed(kind: Kind, identity: Metadata, *, field: str, expected: str, got: object) -> MalformedObject:
    return MalformedObject(
        kind=kind, namespace=identity.namespace, name=identity.name, field=field, expected=expected, got=got
    )
