"""Conditions and events on the Kubernetes API: what people and node autoscalers see.

Its requests have a client and a pace of their own, so that they never stand in the way of a binding.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from services.binder.adapters.kube_calls import KubeCalls
from services.binder.adapters.kube_pods import KubePods
from services.binder.ports import Changed, Manifest, NoAnswer
from services.core.names import FIELD_MANAGER
from services.core.transaction_answers import ApiAnswer, Meaning, meaning_of
from services.runtime.clock import Clock

GROUP = "scheduling.k8s.io"
VERSIONS = ("v1beta1", "v1alpha3")
"""Versions of PodGroup that we can write, the better one first."""

_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE = "application/merge-patch+json"
_UNDECIDED = frozenset({Meaning.LATER, Meaning.LOST, Meaning.UNSURE})


class KubeStatus:
    """Satisfies `services.binder.ports.StatusApi`."""

    def __init__(self, calls: KubeCalls, *, clock: Clock) -> None:
        """Use an open client through its measured calls."""
        self._calls = calls
        self._pods = KubePods(calls, clock=clock)
        self._version = ""

    async def group_version(self) -> str:
        """Return the PodGroup API version that the cluster serves, or nothing. Raises NoAnswer."""
        if not self._version:
            self._version = await self._calls.served_version(GROUP, wanted=VERSIONS, resource="podgroups")
        return self._version

    async def group(self, namespace: str, *, name: str) -> Manifest | None:
        """Return a PodGroup, or None. Raises NoAnswer."""
        version = await self.group_version()
        if not version:
            return None
        changed = await self._definite("get", "GET", _group_path(version, namespace, name))
        if changed.manifest is None:
            # Perhaps the version is no longer served: ask again next time.
            self._version = ""
        return changed.manifest

    async def pods(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the pods that exist, by name. Raises NoAnswer."""
        return await self._pods.read(namespace, names=names)

    async def set_group_conditions(
        self, namespace: str, *, name: str, uid: str, conditions: Sequence[Mapping[str, Any]]
    ) -> ApiAnswer:
        """Write conditions of a PodGroup. Raises NoAnswer."""
        path = f"{_group_path(await self.group_version(), namespace, name)}/status"
        return await self._set_conditions(path, uid=uid, conditions=conditions)

    async def set_pod_condition(
        self, namespace: str, *, name: str, uid: str, condition: Mapping[str, Any]
    ) -> ApiAnswer:
        """Write a condition of a pod. Raises NoAnswer."""
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        return await self._set_conditions(path, uid=uid, conditions=[condition])

    async def create_event(self, namespace: str, *, body: Mapping[str, Any]) -> ApiAnswer:
        """Create an event; 409 where it was told before. Raises NoAnswer."""
        path = f"/api/v1/namespaces/{namespace}/events"
        return (await self._definite("report", "POST", path, body=body)).answer

    async def event(self, namespace: str, *, name: str) -> Manifest | None:
        """Return an event, or None. Raises NoAnswer."""
        return (await self._definite("get", "GET", f"/api/v1/namespaces/{namespace}/events/{name}")).manifest

    async def repeat_event(self, namespace: str, *, name: str, count: int, at: str) -> ApiAnswer:
        """Say that a known event happened again. Raises NoAnswer."""
        path = f"/api/v1/namespaces/{namespace}/events/{name}"
        body = {"count": count, "lastTimestamp": at}
        return (await self._definite("report", "PATCH", path, body=body, content_type=_MERGE)).answer

    async def _set_conditions(self, path: str, *, uid: str, conditions: Sequence[Mapping[str, Any]]) -> ApiAnswer:
        body = {"metadata": {"uid": uid}, "status": {"conditions": list(conditions)}}
        return (await self._definite("report", "PATCH", path, body=body, content_type=_STRATEGIC)).answer

    async def _definite(
        self,
        verb: str,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Changed:
        query = None if method == "GET" else {"fieldManager": FIELD_MANAGER}
        changed = await self._calls.write(verb, method, path, body=body, query=query, content_type=content_type)
        if meaning_of(changed.answer) in _UNDECIDED:
            raise NoAnswer(f"{method} {path}: {changed.answer.status} {changed.answer.message}")
        return changed


def _group_path(version: str, namespace: str, name: str) -> str:
    return f"/apis/{GROUP}/{version}/namespaces/{namespace}/podgroups/{name}"
