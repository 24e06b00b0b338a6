"""ReplicaSets: as many active pods as wanted, and a status that says how many are ready."""

from collections.abc import Iterable

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import BURST, OwnedObjects, is_active, pod_from_template, split
from services.sandbox.deletion import DeleteOptions
from services.sandbox.objects import (
    condition_status,
    is_deleting,
    metadata,
    name_of,
    spec,
    uid_of,
    with_status,
)
from services.sandbox.watching import Change, Stored


class ReplicaSetController:
    """Its keys are `namespace/name` of ReplicaSets."""

    name = "replicasets"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pods = OwnedObjects(table.POD, owner_kind="ReplicaSet")

    def observe(self, change: Change) -> Iterable[str]:
        """ReplicaSets, and those of pods."""
        if change.stored.kind is table.REPLICA_SET and change.type != "DELETED":
            yield change.stored.key
        yield from self._pods.observe(change)

    def reconcile(self, key: str) -> float | None:
        """Create or delete pods, then write the status."""
        namespace, name = split(key)
        stored = self._cluster.store.get(table.REPLICA_SET, namespace=namespace, name=name)
        if stored is None or is_deleting(stored.obj):
            return None
        wanted = int(spec(stored.obj).get("replicas", 1))
        active = [pod for pod in self._pods.of(stored.obj) if is_active(pod.obj)]
        for pod in sorted(active, key=_worth)[: max(0, len(active) - wanted)]:
            self._cluster.remover.delete(pod, DeleteOptions(uid=uid_of(pod.obj)))
        try:
            for _ in range(min(wanted - len(active), BURST)):
                base = f"{name_of(stored.obj)}-"
                template = spec(stored.obj).get("template") or {}
                pod_body = pod_from_template(template, owner=stored.obj, kind=table.REPLICA_SET, name_base=base)
                self._cluster.writer.create(table.POD, pod_body, namespace=namespace)
        finally:
            self._report(stored)
        return None

    def _report(self, stored: Stored) -> None:
        active = [pod.obj for pod in self._pods.of(stored.obj) if is_active(pod.obj)]
        ready = sum(condition_status(pod, "Ready") == "True" for pod in active)
        changed = with_status(
            stored.obj,
            replicas=len(active),
            fullyLabeledReplicas=len(active) or None,
            readyReplicas=ready or None,
            availableReplicas=ready or None,
            observedGeneration=metadata(stored.obj).get("generation"),
        )
        self._cluster.writer.commit(stored, changed)


def _worth(pod: Stored) -> tuple[bool, bool]:
    """Sorts what is deleted first: unbound before bound, not ready before ready."""
    return bool(spec(pod.obj).get("nodeName")), condition_status(pod.obj, "Ready") == "True"
