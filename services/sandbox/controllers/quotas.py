"""Keeps the status of ResourceQuotas: what their namespaces use of each limit."""

from collections.abc import Iterable

from services.sandbox import quota
from services.sandbox.cluster import Cluster
from services.sandbox.objects import is_terminal, metadata
from services.sandbox.watching import Change


class QuotaStatus:
    """Its keys are names of namespaces."""

    name = "quotas"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kind = cluster.store.kind("resourcequotas")

    def observe(self, change: Change) -> Iterable[str]:
        """Namespaces whose quotas or pods come, go or finish."""
        stored = change.stored
        if stored.kind is self._kind and change.type != "DELETED":
            yield str(metadata(stored.obj)["namespace"])
        elif stored.kind.plural == "pods" and self._cluster.store.collection(self._kind).order:
            before = change.previous
            if before is None or change.type == "DELETED" or is_terminal(stored.obj) != is_terminal(before.obj):
                yield str(metadata(stored.obj)["namespace"])

    def reconcile(self, key: str) -> float | None:
        """Count again and write what has changed."""
        store = self._cluster.store
        pods = store.objects("pods", namespace=key)
        collection = store.collection(self._kind)
        for quota_key in tuple(collection.keys(key)):
            stored = collection.objects[quota_key]
            self._cluster.writer.commit(stored, {**stored.obj, "status": quota.status_of(stored.obj, pods)})
        return None
