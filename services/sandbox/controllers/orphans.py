"""Collects pods that nobody runs any more: those whose node object is gone.

As in Kubernetes the node must stay away for 40 s first; then the pod is marked `DisruptionTarget`, Failed, and removed.
"""

from collections.abc import Iterable

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import split
from services.sandbox.objects import is_terminal, name_of, spec, with_condition, with_status
from services.sandbox.watching import Change

QUARANTINE_S = 40.0


class OrphanCollector:
    """Its keys are names of nodes."""

    name = "orphans"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._gone_since: dict[str, float] = {}
        self._pods: dict[str, set[str]] = {}

    def observe(self, change: Change) -> Iterable[str]:
        """Nodes that go while pods are bound to them. Pods bound to a node that never was are left alone."""
        obj, key = change.stored.obj, change.stored.key
        if change.stored.kind is table.NODE:
            if change.type == "DELETED":
                self._gone_since[name_of(obj)] = self._cluster.clock.monotonic()
                yield name_of(obj)
            else:
                self._gone_since.pop(name_of(obj), None)
        elif change.stored.kind is table.POD and spec(obj).get("nodeName"):
            bound = self._pods.setdefault(spec(obj)["nodeName"], set())
            if change.type == "DELETED":
                bound.discard(key)
            else:
                bound.add(key)
                if spec(obj)["nodeName"] in self._gone_since:
                    yield spec(obj)["nodeName"]

    def reconcile(self, key: str) -> float | None:
        """Remove the pods of a node that has been gone for long enough."""
        since = self._gone_since.get(key)
        if since is None:
            return None
        left_s = since + QUARANTINE_S - self._cluster.clock.monotonic()
        if left_s > 0:
            return left_s
        for pod_key in tuple(self._pods.get(key, ())):
            self._collect(pod_key)
        return None

    def _collect(self, pod_key: str) -> None:
        namespace, name = split(pod_key)
        stored = self._cluster.store.get(table.POD, namespace=namespace, name=name)
        if stored is None:
            return
        if not is_terminal(stored.obj):
            message = "PodGC: node no longer exists"
            marked = with_condition(
                with_status(stored.obj, phase="Failed"),
                now=self._cluster.writer.now(),
                type="DisruptionTarget",
                status="True",
                reason="DeletionByPodGC",
                message=message,
            )
            stored = self._cluster.writer.commit(stored, marked)
        self._cluster.remover.force(stored)
