"""Pods on the Kubernetes API, as transactions read and write them.

Every write is fenced by the object: bindings and deletes carry uid and resourceVersion, patches the uid.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC
from typing import Any

from services.binder.adapters.kube_calls import KubeCalls
from services.binder.ports import Changed, Manifest, NoAnswer
from services.core.decisions import Victim
from services.core.names import FENCE_ANNOTATION, FIELD_MANAGER, SCHEDULER_NAME, TRANSACTION_ANNOTATION
from services.core.objects import TransactionId
from services.core.transaction_answers import ApiAnswer
from services.core.transaction_values import Target
from services.runtime.clock import Clock

LIST_FROM = 8
"""Members from which one list of the namespace is cheaper than a read of each."""

PAGE_OBJECTS = 500
UNDONE_REASON = "PhalanxGangUndone"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_BY_US = {"fieldManager": FIELD_MANAGER}
_DRY_RUN = _BY_US | {"dryRun": "All"}
_NOT_FOUND = 404
_ERROR = 400


class KubePods:
    """Satisfies `services.binder.ports.PodApi`."""

    def __init__(self, calls: KubeCalls, *, clock: Clock) -> None:
        """Use an open client through its measured calls."""
        self._calls = calls
        self._clock = clock

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the pods that exist, by name.

        Most members of a large gang are unbound, so one list of what is unbound has them all, and only the others
        cost a request each.
        """
        found: dict[str, Manifest] = {}
        wanted = set(names)
        if len(wanted) >= LIST_FROM:
            selector = f"spec.schedulerName={SCHEDULER_NAME},spec.nodeName="
            async for item in self._calls.items(
                f"/api/v1/namespaces/{namespace}/pods", query={"fieldSelector": selector}, limit=PAGE_OBJECTS
            ):
                name = item.get("metadata", {}).get("name")
                if name in wanted:
                    found[name] = item
        for name in sorted(wanted - found.keys()):
            pod = await self._get(namespace, name=name)
            if pod is not None:
                found[name] = pod
        return found

    async def bound(self) -> AsyncIterator[Manifest]:
        """Yield the pods of our scheduler that have a node, of all namespaces."""
        query = {"fieldSelector": f"spec.schedulerName={SCHEDULER_NAME},spec.nodeName!="}
        async for item in self._calls.items("/api/v1/pods", query=query, limit=PAGE_OBJECTS):
            yield item

    async def bind(self, namespace: str, *, target: Target, transaction: TransactionId, is_dry_run: bool) -> ApiAnswer:
        """Assign a pod to a node, on the condition that it is the same pod in the same version."""
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": target.pod,
                "namespace": namespace,
                "uid": target.uid,
                "resourceVersion": target.version,
                "annotations": {TRANSACTION_ANNOTATION: transaction},
            },
            "target": {"apiVersion": "v1", "kind": "Node", "name": target.node},
        }
        changed = await self._calls.write(
            "bind",
            "POST",
            f"{_path(namespace, target.pod)}/binding",
            body=body,
            query=_DRY_RUN if is_dry_run else _BY_US,
            wants_object=False,
        )
        return changed.answer

    async def touch(self, namespace: str, *, target: Target, mark: str) -> Changed:
        """Change an annotation, so that every write which rests on an older version fails."""
        body = {"metadata": {"uid": target.uid, "annotations": {FENCE_ANNOTATION: mark}}}
        return await self._patch(_path(namespace, target.pod), body, content_type=_MERGE)

    async def announce_end(self, namespace: str, *, target: Target, message: str) -> Changed:
        """Set the condition DisruptionTarget, so that a Job's failure policy can tell an undo from a failure."""
        now = self._clock.now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": UNDONE_REASON,
            "message": message,
            "lastTransitionTime": now,
        }
        body = {"metadata": {"uid": target.uid}, "status": {"conditions": [condition]}}
        return await self._patch(f"{_path(namespace, target.pod)}/status", body, content_type=_STRATEGIC)

    async def delete(self, namespace: str, *, target: Target) -> ApiAnswer:
        """Delete the pod in this version, with its own grace period."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": target.uid, "resourceVersion": target.version},
        }
        changed = await self._calls.write("delete", "DELETE", _path(namespace, target.pod), body=body)
        return changed.answer

    async def evict(self, victim: Victim, *, is_dry_run: bool) -> ApiAnswer:
        """Evict a pod, on the condition that it is the same pod and that its disruption budgets allow it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": victim.pod, "namespace": victim.namespace},
            "deleteOptions": {"preconditions": {"uid": victim.uid}},
        }
        changed = await self._calls.write(
            "evict",
            "POST",
            f"{_path(victim.namespace, victim.pod)}/eviction",
            body=body,
            query=_DRY_RUN if is_dry_run else _BY_US,
            wants_object=False,
        )
        return changed.answer

    async def _patch(self, path: str, body: Mapping[str, Any], *, content_type: str) -> Changed:
        return await self._calls.write("patch", "PATCH", path, body=body, query=_BY_US, content_type=content_type)

    async def _get(self, namespace: str, *, name: str) -> Manifest | None:
        changed = await self._calls.write("get", "GET", _path(namespace, name))
        if changed.answer.status == _NOT_FOUND:
            return None
        if changed.answer.status >= _ERROR:
            raise NoAnswer(f"get pod {namespace}/{name}: {changed.answer.status} {changed.answer.message}")
        return changed.manifest


def _path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
