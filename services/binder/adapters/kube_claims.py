"""ResourceClaims on the Kubernetes API, as transactions read and write them (resource.k8s.io/v1).

Every write is fenced by uid and resourceVersion, which stand in its body.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from services.binder.adapters.kube_calls import KubeCalls
from services.binder.ports import Changed, Manifest, NoAnswer
from services.core.names import FIELD_MANAGER

LIST_FROM = 8
"""Claims from which one list of the namespace is cheaper than a read of each."""

PAGE_OBJECTS = 500
_ROOT = "/apis/resource.k8s.io/v1"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_BY_US = {"fieldManager": FIELD_MANAGER}
_NOT_FOUND = 404
_ERROR = 400


class KubeClaims:
    """Satisfies `services.binder.ports.ClaimApi`."""

    def __init__(self, calls: KubeCalls) -> None:
        """Use an open client through its measured calls."""
        self._calls = calls

    async def read(self, namespace: str, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the claims that exist, by name."""
        wanted = set(names)
        found: dict[str, Manifest] = {}
        if len(wanted) >= LIST_FROM:
            async for item in self._calls.items(_claims(namespace), query={}, limit=PAGE_OBJECTS):
                name = (item.get("metadata") or {}).get("name")
                if name in wanted:
                    found[name] = item
            return found
        for name in sorted(wanted):
            claim = await self._get(f"{_claims(namespace)}/{name}")
            if claim is not None:
                found[name] = claim
        return found

    async def device_classes(self, *, names: Sequence[str]) -> Mapping[str, Manifest]:
        """Return those of the DeviceClasses that exist, by name."""
        found = {name: await self._get(f"{_ROOT}/deviceclasses/{name}") for name in names}
        return {name: one for name, one in found.items() if one is not None}

    async def everyone(self) -> Sequence[Manifest]:
        """Return the allocated claims of all namespaces, whoever allocated them."""
        if not await self._calls.served_version("resource.k8s.io", wanted=("v1",), resource="resourceclaims"):
            return ()
        items = self._calls.items(f"{_ROOT}/resourceclaims", query={}, limit=PAGE_OBJECTS)
        return [one async for one in items if (one.get("status") or {}).get("allocation")]

    async def mark(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch a claim's metadata."""
        return await self._patch(f"{_claims(namespace)}/{name}", body, verb="mark claim")

    async def write_status(self, namespace: str, *, name: str, body: Mapping[str, Any]) -> Changed:
        """Patch a claim's status."""
        return await self._patch(f"{_claims(namespace)}/{name}/status", body, verb="claim")

    async def create(self, namespace: str, *, body: Mapping[str, Any]) -> Changed:
        """Create the claim of a pod's extended resources."""
        return await self._calls.write("create claim", "POST", _claims(namespace), body=body, query=_BY_US)

    async def delete(self, namespace: str, *, name: str, uid: str, version: str) -> Changed:
        """Delete a claim that was created so, in this version."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        return await self._calls.write("delete claim", "DELETE", f"{_claims(namespace)}/{name}", body=body)

    async def record_extended(self, namespace: str, *, pod: str, uid: str, status: Mapping[str, Any]) -> Changed:
        """Write `status.extendedResourceClaimStatus` of a pod, on the condition that it is the same pod."""
        body = {"metadata": {"uid": uid}, "status": {"extendedResourceClaimStatus": status}}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/status"
        return await self._patch(path, body, verb="patch", content_type=_STRATEGIC)

    async def _patch(self, path: str, body: Mapping[str, Any], *, verb: str, content_type: str = _MERGE) -> Changed:
        return await self._calls.write(verb, "PATCH", path, body=body, query=_BY_US, content_type=content_type)

    async def _get(self, path: str) -> Manifest | None:
        changed = await self._calls.write("get", "GET", path)
        if changed.answer.status == _NOT_FOUND:
            return None
        if changed.answer.status >= _ERROR:
            raise NoAnswer(f"get {path}: {changed.answer.status} {changed.answer.message}")
        return changed.manifest


def _claims(namespace: str) -> str:
    return f"{_ROOT}/namespaces/{namespace}/resourceclaims"
