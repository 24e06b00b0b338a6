"""An index of pods by the controller that owns them, and what controllers do alike with their pods."""

from collections import defaultdict
from collections.abc import Iterable

import orjson

from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj, controller_of, is_deleting, is_terminal, metadata, uid_of
from services.sandbox.watching import Change, Stored


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
        owner = controller_of(change.stored.obj)
        if owner is None or owner.get("kind") != self._owner_kind:
            return
        owned = self._by_owner[owner["uid"]]
        if change.type == "DELETED":
            owned.pop(change.stored.key, None)
            if not owned:
                del self._by_owner[owner["uid"]]
        else:
            owned[change.stored.key] = change.stored
        yield f"{metadata(change.stored.obj)['namespace']}/{owner['name']}"

    def of(self, owner: Obj) -> list[Stored]:
        """The owner's current objects, in the order of their creation."""
        return list(self._by_owner.get(uid_of(owner), {}).values())

    def of_uid(self, owner_uid: str) -> list[Stored]:
        """The current objects of an owner that may be gone."""
        return list(self._by_owner.get(owner_uid, {}).values())


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
