"""An index of pods by the controller that owns them, and what controllers do alike with their pods."""

from collections import defaultdict
from collections.abc import Iterable

import orjson

from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj, controller_of, is_deleting, is_terminal, metadata, uid_of
from services.sandbox.watching import Change, Stored

BURST = 500
"""Pods that one look at an owner creates at most; each of them makes the owner worth another look."""


class OwnedObjects:
    """Current objects of one kind by the uid of their controlling owner, kept up to date from changes."""

    def __init__(self, kind: Kind, *, owner_kind: str) -> None:
        self._kind = kind
        self._owner_kind = owner_kind
        self._by_owner: defaultdict[str, dict[str, Stored]] = defaultdict(dict)

    def observe(self, change: Change) -> Iterable[str]:
        """Take a change over; yields the key (`namespace/name`) of the owner that it concerns."""
        if change.stored.kind is not self._kind:
            return
        before = self._owner(change.previous.obj) if change.previous else None
        owner = self._owner(change.stored.obj)
        if before is not None and (change.type == "DELETED" or before != owner):
            yield self._drop(before, change.stored)
        if owner is not None and change.type != "DELETED":
            self._by_owner[owner["uid"]][change.stored.key] = change.stored
            yield _key(change.stored.obj, owner)

    def _owner(self, obj: Obj) -> Obj | None:
        owner = controller_of(obj)
        return owner if owner is not None and owner.get("kind") == self._owner_kind else None

    def _drop(self, owner: Obj, stored: Stored) -> str:
        owned = self._by_owner[owner["uid"]]
        owned.pop(stored.key, None)
        if not owned:
            del self._by_owner[owner["uid"]]
        return _key(stored.obj, owner)

    def of(self, owner: Obj) -> list[Stored]:
        """The owner's current objects, in the order of their creation."""
        return list(self._by_owner.get(uid_of(owner), {}).values())


def _key(owned: Obj, owner: Obj) -> str:
    return f"{metadata(owned)['namespace']}/{owner['name']}"


def is_active(pod: Obj) -> bool:
    """Whether the pod still counts as a running replica of its owner."""
    return not is_terminal(pod) and not is_deleting(pod)


def owner_reference(owner: Obj, kind: Kind) -> Obj:
    """The reference by which a controller owns what it creates."""
    meta = metadata(owner)
    return {
        "apiVersion": kind.api_version(kind.versions[0]),
        "kind": kind.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(template: Obj, *, owner: Obj, kind: Kind, name_base: str) -> Obj:
    """A new pod as the owner's template describes it; a private copy, named by the API at creation."""
    copied = orjson.loads(orjson.dumps(template))
    given = copied.get("metadata") or {}
    meta: Obj = {"generateName": name_base, "ownerReferences": [owner_reference(owner, kind)]}
    meta.update({field: given[field] for field in ("labels", "annotations", "finalizers") if given.get(field)})
    return {"metadata": meta, "spec": copied.get("spec") or {}}


def split(key: str) -> tuple[str, str]:
    """Namespace and name of a key."""
    namespace, _, name = key.rpartition("/")
    return namespace, name
