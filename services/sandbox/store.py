"""Objects in memory with one revision counter, a bounded history of changes, and the watches that follow it.

The store knows nothing of Kubernetes rules: `writes`, `deletion` and `subresources` decide what is stored.
Everything happens on one event loop without awaiting, so each write is atomic and watches see one order.
"""

import itertools
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import orjson

from services.sandbox.failures import expired
from services.sandbox.kinds import Kind
from services.sandbox.objects import Obj, name_of, namespace_of, with_metadata
from services.sandbox.watching import Change, Scope, Stored, Watch

Listener: TypeAlias = Callable[[Change], None]

_AFTER_SLASH = "0"
"""The character after `/`: the upper bound of all keys in one namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what the store keeps."""

    history_events: int = 10_000
    """Changes per kind from which a watch can resume; older revisions answer 410."""

    watch_queue_events: int = 10_000
    """Events that one watch may be behind before it is closed."""

    snapshots: int = 64
    """Paged lists in progress that keep their view; older continue tokens answer 410."""


class Collection:
    """All objects of one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.objects: dict[str, Stored] = {}
        #: Keys in etcd order, so that lists and pages need no sorting.
        self.order: list[str] = []
        self.history: deque[Change] = deque()
        #: Revision of the newest change that the history no longer holds.
        self.compacted = 0
        self.watches: set[Watch] = set()

    def keys(self, namespace: str) -> Sequence[str]:
        """Keys of one namespace, or of all where it is empty."""
        if not namespace:
            return self.order
        start = bisect_left(self.order, namespace + "/")
        return self.order[start : bisect_left(self.order, namespace + _AFTER_SLASH)]


class Store:
    """The objects, their history and their followers."""

    def __init__(self, kinds: Sequence[Kind], *, limits: Limits) -> None:
        self.limits = limits
        self.revision = 1
        self.listeners: list[Listener] = []
        self._collections = {kind: Collection(kind) for kind in kinds}
        self._by_plural = {(kind.group, kind.plural): kind for kind in kinds}
        self._snapshots: OrderedDict[int, tuple[int, list[Stored]]] = OrderedDict()
        self._snapshot_ids = itertools.count(1)

    @property
    def kinds(self) -> Sequence[Kind]:
        """Every kind that can be stored, served or not."""
        return tuple(self._collections)

    def kind(self, plural: str, *, group: str = "") -> Kind:
        """The row of the table with this plural; KeyError where there is none."""
        return self._by_plural[group, plural]

    def collection(self, kind: Kind) -> Collection:
        """The objects of one kind."""
        return self._collections[kind]

    def get(self, kind: Kind, *, namespace: str, name: str) -> Stored | None:
        """The current version of one object."""
        return self._collections[kind].objects.get(f"{namespace}/{name}" if kind.is_namespaced else name)

    def find(self, plural: str, *, group: str = "", namespace: str = "", name: str) -> Obj | None:
        """One object by resource name, for controllers and tests."""
        stored = self.get(self.kind(plural, group=group), namespace=namespace, name=name)
        return stored.obj if stored else None

    def objects(self, plural: str, *, group: str = "", namespace: str = "") -> list[Obj]:
        """All objects of one resource in key order, for controllers and tests."""
        collection = self._collections[self.kind(plural, group=group)]
        return [collection.objects[key].obj for key in collection.keys(namespace)]

    def select(self, scope: Scope) -> list[Stored]:
        """The objects of a scope in key order."""
        collection = self._collections[scope.kind]
        found = (collection.objects[key] for key in collection.keys(scope.namespace))
        if scope.predicate is None:
            return list(found)
        predicate = scope.predicate
        return [stored for stored in found if predicate(stored.obj)]

    def insert(self, kind: Kind, obj: Obj) -> Stored:
        """Store a new object; the caller has checked that the name is free."""
        stored = self.stamp(kind, obj)
        collection = self._collections[kind]
        collection.objects[stored.key] = stored
        insort(collection.order, stored.key)
        self._publish(collection, Change("ADDED", stored))
        return stored

    def replace(self, old: Stored, obj: Obj) -> Stored:
        """Store the next version of an object."""
        stored = self.stamp(old.kind, obj)
        collection = self._collections[old.kind]
        collection.objects[stored.key] = stored
        self._publish(collection, Change("MODIFIED", stored, old))
        return stored

    def remove(self, old: Stored, *, last: Obj | None = None) -> Stored:
        """Take an object away; watches see it as `last` (default: as stored) at the revision of its removal."""
        collection = self._collections[old.kind]
        del collection.objects[old.key]
        del collection.order[bisect_left(collection.order, old.key)]
        stored = self.stamp(old.kind, last or old.obj)
        self._publish(collection, Change("DELETED", stored, old))
        return stored

    def stamp(self, kind: Kind, obj: Obj) -> Stored:
        """The object as the next revision would hold it, not stored."""
        self.revision += 1
        obj = with_metadata(obj, resourceVersion=str(self.revision))
        obj.pop("kind", None)
        obj.pop("apiVersion", None)
        key = f"{namespace_of(obj)}/{name_of(obj)}" if kind.is_namespaced else name_of(obj)
        return Stored(kind, key, obj, orjson.dumps(obj), self.revision)

    def _publish(self, collection: Collection, change: Change) -> None:
        collection.history.append(change)
        if len(collection.history) > self.limits.history_events:
            collection.compacted = collection.history.popleft().revision
        for watch in collection.watches:
            watch.offer(change)
        for listener in self.listeners:
            listener(change)

    def watch(self, scope: Scope, *, after: int | None) -> Watch:
        """Follow a scope after a revision, or from its current objects as additions where it is None.

        Raises Expired (410) when the history no longer reaches back to that revision. The caller must `unwatch`.
        """
        collection = self._collections[scope.kind]
        watch = Watch(scope, limit=self.limits.watch_queue_events)
        if after is None:
            for change in (Change("ADDED", stored) for stored in self.select(scope)):
                watch.offer_line(change.line(scope.version, as_type="ADDED"))
        elif after < collection.compacted:
            raise expired(f"too old resource version: {after} ({collection.compacted})")
        else:
            for change in self._since(collection, after):
                watch.offer(change)
        collection.watches.add(watch)
        return watch

    @staticmethod
    def _since(collection: Collection, after: int) -> Iterator[Change]:
        start = bisect_left(collection.history, after + 1, key=lambda change: change.revision)
        return itertools.islice(collection.history, start, None)

    def unwatch(self, watch: Watch) -> None:
        """Forget a watch whose response has ended."""
        self._collections[watch.scope.kind].watches.discard(watch)

    def compact(self, kind: Kind) -> None:
        """Forget the history of a kind and all page views: whoever resumes from before now gets 410."""
        collection = self._collections[kind]
        collection.history.clear()
        # One revision further, so that even a client that has seen everything must list again.
        self.revision += 1
        collection.compacted = self.revision
        self._snapshots.clear()

    def keep_snapshot(self, revision: int, items: list[Stored]) -> int:
        """Keep the view of a paged list so that later pages show the same moment; returns its number."""
        number = next(self._snapshot_ids)
        self._snapshots[number] = (revision, items)
        if len(self._snapshots) > self.limits.snapshots:
            self._snapshots.popitem(last=False)
        return number

    def snapshot(self, number: int) -> tuple[int, list[Stored]] | None:
        """A kept view, None where it was dropped."""
        return self._snapshots.get(number)
