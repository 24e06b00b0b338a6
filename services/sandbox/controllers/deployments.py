"""Deployments: one ReplicaSet per template; the new one grows at once, old ones shrink as its pods become ready."""

import hashlib
from collections.abc import Iterable

import orjson

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import OwnedObjects, owner_reference, split
from services.sandbox.objects import (
    Obj,
    is_deleting,
    metadata,
    name_of,
    spec,
    status,
    with_condition,
    with_metadata,
    with_status,
)
from services.sandbox.watching import Change, Stored

_HASH_LABEL = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_HASH_LENGTH = 10


class DeploymentController:
    """Its keys are `namespace/name` of Deployments."""

    name = "deployments"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sets = OwnedObjects(table.REPLICA_SET, owner_kind="Deployment")

    def observe(self, change: Change) -> Iterable[str]:
        """Deployments, and those of ReplicaSets."""
        if change.stored.kind is table.DEPLOYMENT and change.type != "DELETED":
            yield change.stored.key
        yield from self._sets.observe(change)

    def reconcile(self, key: str) -> float | None:
        """Move towards one ReplicaSet of the current template, then write the status."""
        namespace, name = split(key)
        stored = self._cluster.store.get(table.DEPLOYMENT, namespace=namespace, name=name)
        if stored is None or is_deleting(stored.obj):
            return None
        digest = template_hash(spec(stored.obj)["template"])
        owned = self._sets.of(stored.obj)
        current = next((one for one in owned if name_of(one.obj) == f"{name}-{digest}"), None)
        if current is None:
            current = self._created(stored.obj, digest, revision=len(owned) + 1)
        wanted = int(spec(stored.obj).get("replicas", 1))
        self._scale(current, wanted)
        missing = wanted - int(status(current.obj).get("readyReplicas") or 0)
        for old in owned:
            if name_of(old.obj) != name_of(current.obj):
                kept = min(int(spec(old.obj).get("replicas", 0)), max(0, missing))
                self._scale(old, kept)
                missing -= kept
        self._report(stored, name_of(current.obj))
        return None

    def _created(self, deployment: Obj, digest: str, *, revision: int) -> Stored:
        template = orjson.loads(orjson.dumps(spec(deployment)["template"]))
        meta = template.setdefault("metadata", {})
        meta["labels"] = {**(meta.get("labels") or {}), _HASH_LABEL: digest}
        selector = dict(spec(deployment)["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _HASH_LABEL: digest}
        body: Obj = {
            "metadata": {
                "name": f"{name_of(deployment)}-{digest}",
                "labels": meta["labels"],
                "annotations": {_REVISION: str(revision)},
                "ownerReferences": [owner_reference(deployment, table.DEPLOYMENT)],
            },
            "spec": {"replicas": spec(deployment).get("replicas", 1), "selector": selector, "template": template},
        }
        return self._cluster.writer.create(table.REPLICA_SET, body, namespace=metadata(deployment)["namespace"])

    def _scale(self, stored: Stored, replicas: int) -> None:
        changed = {**stored.obj, "spec": {**spec(stored.obj), "replicas": replicas}}
        self._cluster.writer.commit(stored, changed)

    def _report(self, stored: Stored, current_name: str) -> None:
        owned = self._sets.of(stored.obj)
        total = sum(int(status(one.obj).get("replicas") or 0) for one in owned)
        ready = sum(int(status(one.obj).get("readyReplicas") or 0) for one in owned)
        current = next(one.obj for one in owned if name_of(one.obj) == current_name)
        wanted = int(spec(stored.obj).get("replicas", 1))
        changed = with_status(
            stored.obj,
            observedGeneration=metadata(stored.obj).get("generation"),
            replicas=total or None,
            updatedReplicas=int(status(current).get("replicas") or 0) or None,
            readyReplicas=ready or None,
            availableReplicas=ready or None,
            unavailableReplicas=max(0, wanted - ready) or None,
        )
        enough = ready >= wanted
        reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
        state = "True" if enough else "False"
        now = self._cluster.writer.now()
        changed = with_condition(changed, now=now, type="Available", status=state, reason=reason)
        progress = "NewReplicaSetAvailable" if enough else "ReplicaSetUpdated"
        changed = with_condition(changed, now=now, type="Progressing", status="True", reason=progress)
        annotations = {**(metadata(changed).get("annotations") or {}), _REVISION: str(len(owned))}
        self._cluster.writer.commit(stored, with_metadata(changed, annotations=annotations))


def template_hash(template: Obj) -> str:
    """A short, stable name for a pod template."""
    encoded = orjson.dumps(template, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2s(encoded).hexdigest()[:_HASH_LENGTH]
