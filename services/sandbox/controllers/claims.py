"""ResourceClaims: made from the templates that pods name, reserved late, and freed when their users are gone."""

from collections import defaultdict
from collections.abc import Iterable

import orjson

from services.sandbox import table
from services.sandbox.cluster import Cluster
from services.sandbox.controllers.owned import owner_reference, split
from services.sandbox.deletion import DeleteOptions
from services.sandbox.objects import (
    Obj,
    controller_of,
    is_deleting,
    is_terminal,
    metadata,
    name_of,
    namespace_of,
    spec,
    status,
    uid_of,
    with_metadata,
    with_status,
)
from services.sandbox.watching import Change, Stored

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
_POD = "pod:"
_CLAIM = "claim:"


class ClaimController:
    """Its keys are `pod:namespace/name` and `claim:namespace/name`."""

    name = "claims"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._store = cluster.store
        self._writer = cluster.writer
        #: Pods that wait for a template, by its key.
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)

    def observe(self, change: Change) -> Iterable[str]:
        """Pods with claims, the claims themselves, and templates that pods wait for."""
        kind, key, obj = change.stored.kind, change.stored.key, change.stored.obj
        if kind is table.POD and (spec(obj).get("resourceClaims") or claim_names(obj)):
            yield _POD + key
            for name in claim_names(obj):
                yield f"{_CLAIM}{namespace_of(obj)}/{name}"
        elif kind is table.RESOURCE_CLAIM and change.type != "DELETED":
            yield _CLAIM + key
        elif kind is table.RESOURCE_CLAIM_TEMPLATE and change.type == "ADDED":
            for pod_key in self._waiting.pop(key, ()):
                yield _POD + pod_key

    def reconcile(self, key: str) -> float | None:
        """Look at one pod or one claim."""
        if key.startswith(_POD):
            self._pod(key.removeprefix(_POD))
        else:
            self._claim(key.removeprefix(_CLAIM))
        return None

    def _pod(self, key: str) -> None:
        namespace, name = split(key)
        stored = self._store.get(table.POD, namespace=namespace, name=name)
        if stored is None or is_deleting(stored.obj) or is_terminal(stored.obj):
            return
        known = {entry["name"] for entry in status(stored.obj).get("resourceClaimStatuses") or ()}
        made = []
        for entry in spec(stored.obj).get("resourceClaims") or ():
            if entry.get("resourceClaimTemplateName") and entry["name"] not in known:
                claim = self._made(stored.obj, entry)
                if claim is not None:
                    made.append({"name": entry["name"], "resourceClaimName": name_of(claim.obj)})
        if made:
            statuses = [*(status(stored.obj).get("resourceClaimStatuses") or ()), *made]
            stored = self._writer.commit(stored, with_status(stored.obj, resourceClaimStatuses=statuses))
        if spec(stored.obj).get("nodeName"):
            self._reserve(stored.obj)

    def _made(self, pod: Obj, entry: Obj) -> Stored | None:
        """Create the claim of one entry; None while its template does not exist."""
        namespace, template_name = namespace_of(pod), entry["resourceClaimTemplateName"]
        template = self._store.get(table.RESOURCE_CLAIM_TEMPLATE, namespace=namespace, name=template_name)
        if template is None:
            self._waiting[f"{namespace}/{template_name}"].add(f"{namespace}/{name_of(pod)}")
            return None
        inner = orjson.loads(orjson.dumps(spec(template.obj)))
        given = inner.get("metadata") or {}
        owner = owner_reference(pod, table.POD)
        meta: Obj = {
            "generateName": f"{name_of(pod)}-{entry['name']}-",
            "labels": given.get("labels") or {},
            "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: entry["name"]},
            "ownerReferences": [owner],
        }
        body = {"metadata": meta, "spec": inner.get("spec") or {}}
        return self._writer.create(table.RESOURCE_CLAIM, body, namespace=namespace)

    def _reserve(self, pod: Obj) -> None:
        """Reserve allocated claims for a bound pod whose scheduler has not done so."""
        for name in claim_names(pod):
            claim = self._store.get(table.RESOURCE_CLAIM, namespace=namespace_of(pod), name=name)
            if claim is None or not status(claim.obj).get("allocation") or is_deleting(claim.obj):
                continue
            holders = status(claim.obj).get("reservedFor") or []
            if all(holder.get("uid") != uid_of(pod) for holder in holders):
                entry = {"resource": "pods", "name": name_of(pod), "uid": uid_of(pod)}
                self._writer.commit(claim, with_status(claim.obj, reservedFor=[*holders, entry]))

    def _is_valid(self, holder: Obj, namespace: str) -> bool:
        if holder.get("apiGroup") or holder.get("resource") != "pods":
            return True
        pod = self._store.get(table.POD, namespace=namespace, name=holder.get("name", ""))
        return pod is not None and uid_of(pod.obj) == holder.get("uid") and not is_terminal(pod.obj)

    def _claim(self, key: str) -> None:
        namespace, name = split(key)
        stored = self._store.get(table.RESOURCE_CLAIM, namespace=namespace, name=name)
        if stored is None:
            return
        stored = self._freed(stored, namespace)
        if not status(stored.obj).get("reservedFor") and self._is_spent(stored.obj):
            self._cluster.remover.delete(stored, DeleteOptions(uid=uid_of(stored.obj)))
        elif status(stored.obj).get("allocation"):
            self._reserve_late(stored)

    def _reserve_late(self, stored: Stored) -> None:
        """A claim that was allocated after its pod was bound still gets its reservation."""
        owner = controller_of(stored.obj)
        if owner is None or owner.get("kind") != "Pod":
            return
        pod = self._store.get(table.POD, namespace=namespace_of(stored.obj), name=owner["name"])
        if pod is not None and spec(pod.obj).get("nodeName") and not is_deleting(pod.obj) and not is_terminal(pod.obj):
            self._reserve(pod.obj)

    def _freed(self, stored: Stored, namespace: str) -> Stored:
        """Drop reservations of pods that are gone; without any left, drop allocation and finalizer too."""
        claim = stored.obj
        holders = status(claim).get("reservedFor") or []
        valid = [holder for holder in holders if self._is_valid(holder, namespace)]
        is_unused = not valid and (len(valid) < len(holders) or is_deleting(claim))
        if len(valid) == len(holders) and not is_unused:
            return stored
        changed = with_status(claim, reservedFor=valid or None)
        finalizers = metadata(claim).get("finalizers") or []
        if is_unused and FINALIZER in finalizers:
            # Without the finalizer an allocation stays, as with the real controller.
            changed = with_status(changed, allocation=None)
            kept = [name for name in finalizers if name != FINALIZER]
            changed = with_metadata(changed, finalizers=kept or None)
        return self._writer.commit(stored, changed)

    def _is_spent(self, claim: Obj) -> bool:
        """Whether the claim was made for a pod that has finished; those of deleted pods are garbage."""
        owner = controller_of(claim)
        if owner is None or owner.get("kind") != "Pod" or is_deleting(claim):
            return False
        pod = self._store.get(table.POD, namespace=namespace_of(claim), name=owner["name"])
        return pod is not None and uid_of(pod.obj) == owner["uid"] and is_terminal(pod.obj)


def claim_names(pod: Obj) -> list[str]:
    """The claims of a pod that have names by now: named directly, generated, or made for its extended resources."""
    generated = {
        entry["name"]: entry.get("resourceClaimName") for entry in status(pod).get("resourceClaimStatuses") or ()
    }
    found = [
        entry.get("resourceClaimName") or generated.get(entry["name"])
        for entry in spec(pod).get("resourceClaims") or ()
    ]
    found.append((status(pod).get("extendedResourceClaimStatus") or {}).get("resourceClaimName"))
    return [name for name in found if name]
