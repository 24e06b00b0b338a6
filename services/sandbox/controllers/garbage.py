"""Garbage collection by owner references: background, foreground and orphaning deletion.

Owners of kinds that the sandbox does not know (a JobSet, say) are taken to exist.
"""

from collections import defaultdict
from collections.abc import Iterable

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.deletion import FOREGROUND, ORPHAN, DeleteOptions
from services.sandbox.objects import Obj, is_deleting, metadata, uid_of, with_metadata
from services.sandbox.watching import Change, Stored


class GarbageCollector:
    """Follows owners and dependents of all kinds; its keys are uids of owners."""

    name = "garbage"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known_kinds = {kind.kind for kind in table.KINDS}
        #: Current objects by uid, so that references can be resolved.
        self._objects: dict[str, Stored] = {}
        self._dependents: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def observe(self, change: Change) -> Iterable[str]:
        """Owners that are going, and owners of new dependents."""
        obj = change.stored.obj
        uid = uid_of(obj)
        owners = metadata(obj).get("ownerReferences") or ()
        if change.type == "DELETED":
            self._objects.pop(uid, None)
            for owner in owners:
                self._dependents[owner["uid"]].pop(uid, None)
                yield owner["uid"]  # a foreground deletion may wait for this one
            if self._dependents.get(uid):
                yield uid
            return
        self._objects[uid] = change.stored
        for owner in owners:
            self._dependents[owner["uid"]][uid] = None
            if owner["uid"] not in self._objects:
                yield owner["uid"]
        if is_deleting(obj) and metadata(obj).get("finalizers"):
            yield uid

    def reconcile(self, key: str) -> float | None:
        """Deal with the dependents of one owner."""
        owner = self._objects.get(key)
        dependents = [self._objects[uid] for uid in tuple(self._dependents.get(key, ())) if uid in self._objects]
        if owner is None:
            for dependent in dependents:
                self._collect(dependent)
            if not dependents:
                self._dependents.pop(key, None)
        elif is_deleting(owner.obj):
            self._prepare(owner, dependents)
        return None

    def _prepare(self, owner: Stored, dependents: list[Stored]) -> None:
        """Do for a terminating owner what its finalizers wait for."""
        finalizers, uid = metadata(owner.obj).get("finalizers") or (), uid_of(owner.obj)
        if ORPHAN in finalizers:
            for dependent in dependents:
                self._orphan(dependent, uid)
            self._release(uid, ORPHAN)
        elif FOREGROUND in finalizers:
            for dependent in dependents:
                if not is_deleting(dependent.obj):
                    self._cluster.remover.delete(dependent, DeleteOptions(propagation="Foreground"))
            if not any(_blocks(dependent.obj, uid) for dependent in dependents):
                self._release(uid, FOREGROUND)

    def _is_absent(self, reference: Obj) -> bool:
        return reference["uid"] not in self._objects and reference.get("kind") in self._known_kinds

    def _collect(self, dependent: Stored) -> None:
        """Delete a dependent all of whose owners are gone; otherwise only drop the dead references."""
        owners = metadata(dependent.obj).get("ownerReferences") or ()
        kept = [owner for owner in owners if not self._is_absent(owner)]
        if len(kept) == len(owners):
            return
        if kept:
            self._cluster.writer.commit(dependent, with_metadata(dependent.obj, ownerReferences=kept))
        elif not is_deleting(dependent.obj):
            self._cluster.remover.delete(dependent, DeleteOptions(uid=uid_of(dependent.obj)))

    def _orphan(self, dependent: Stored, owner_uid: str) -> None:
        owners = metadata(dependent.obj).get("ownerReferences") or ()
        kept = [owner for owner in owners if owner["uid"] != owner_uid]
        self._dependents[owner_uid].pop(uid_of(dependent.obj), None)
        self._cluster.writer.commit(dependent, with_metadata(dependent.obj, ownerReferences=kept or None))

    def _release(self, owner_uid: str, finalizer: str) -> None:
        owner = self._objects[owner_uid]
        kept = [name for name in metadata(owner.obj).get("finalizers") or () if name != finalizer]
        self._cluster.writer.commit(owner, with_metadata(owner.obj, finalizers=kept or None))


def _blocks(dependent: Obj, owner_uid: str) -> bool:
    return any(
        owner["uid"] == owner_uid and owner.get("blockOwnerDeletion")
        for owner in metadata(dependent).get("ownerReferences") or ()
    )
