"""Empties namespaces that are being deleted, and lets them go once they are empty."""

from collections.abc import Iterable

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.deletion import DeleteOptions
from services.sandbox.objects import is_deleting, metadata
from services.sandbox.watching import Change, Stored


class NamespaceController:
    """Its keys are names of namespaces."""

    name = "namespaces"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kinds = [kind for kind in table.KINDS if kind.is_namespaced]
        self._terminating: set[str] = set()

    def observe(self, change: Change) -> Iterable[str]:
        """Namespaces that terminate, and objects that leave one which does."""
        obj = change.stored.obj
        if change.stored.kind is table.NAMESPACE:
            if change.type == "DELETED":
                self._terminating.discard(change.stored.key)
            elif is_deleting(obj):
                self._terminating.add(change.stored.key)
                yield change.stored.key
        elif change.type == "DELETED" and metadata(obj).get("namespace") in self._terminating:
            yield metadata(obj)["namespace"]

    def reconcile(self, key: str) -> float | None:
        """Delete what the namespace holds; remove its finalizer when nothing is left."""
        namespace = self._cluster.store.get(table.NAMESPACE, namespace="", name=key)
        if namespace is None or not is_deleting(namespace.obj):
            return None
        content = self._content(key)
        for stored in content:
            if not is_deleting(stored.obj):
                self._cluster.remover.delete(stored, DeleteOptions())
        if not self._content(key):
            empty = {**namespace.obj, "spec": {**namespace.obj["spec"], "finalizers": []}}
            self._cluster.writer.commit(namespace, empty)
        return None

    def _content(self, namespace: str) -> list[Stored]:
        store = self._cluster.store
        return [
            store.collection(kind).objects[key]
            for kind in self._kinds
            for key in tuple(store.collection(kind).keys(namespace))
        ]
