"""The Kubernetes API as a test uses it: manifests in, objects out, over real requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from services.runtime.kube import KubeClient, KubeError
from services.sandbox import table
from services.sandbox.kinds import Kind

Manifest = dict[str, Any]

NOT_FOUND = 404
_KINDS: Mapping[str, Kind] = {kind.kind: kind for kind in reversed(table.KINDS)}
"""Kinds by their name alone: of several of one name Kubernetes' own."""
_KINDS_OF_GROUPS: Mapping[tuple[str, str], Kind] = {(kind.group, kind.kind): kind for kind in table.KINDS}


def kind_of(name: str) -> Kind:
    """Return a served kind by its name, as `Pod`. Raises LookupError that lists what there is."""
    found = _KINDS.get(name)
    if found is None:
        raise LookupError(f"kind {name!r} is not served by the sandbox; expected one of {', '.join(sorted(_KINDS))}")
    return found


def path_of(kind: Kind, *, version: str = "", namespace: str = "", name: str = "") -> str:
    """Return the path of an object, or of the list where it has no name."""
    root = f"/apis/{kind.group}" if kind.group else "/api"
    parts = [root, version or kind.versions[0]]
    if kind.is_namespaced and namespace:
        parts += ["namespaces", namespace]
    return "/".join([*parts, kind.plural, *([name] if name else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One client, and the namespace that objects without one belong to."""

    client: KubeClient
    namespace: str = "default"

    async def create(self, manifest: Manifest) -> Manifest:
        """Create an object, with its status where the manifest has one."""
        kind, namespace, version = self._place(manifest)
        path = path_of(kind, version=version, namespace=namespace)
        created = await self._asked("POST", path, body=manifest)
        if kind.has_status and manifest.get("status"):
            # Merged, because kubelets write status too.
            name, change = created["metadata"]["name"], {"status": manifest["status"]}
            created = await self.patch(manifest["kind"], name, change, subresource="status")
        return created

    async def find(self, kind_name: str, name: str) -> Manifest | None:
        """Return an object, or None."""
        try:
            return await self._asked("GET", self._path(kind_name, name))
        except KubeError as error:
            if error.status == NOT_FOUND:
                return None
            raise

    async def get(self, kind_name: str, name: str) -> Manifest:
        """Return an object that exists."""
        return await self._asked("GET", self._path(kind_name, name))

    async def list(self, kind_name: str, *, everywhere: bool = False) -> list[Manifest]:
        """Return the objects of a kind in the namespace, or in all of them."""
        kind = kind_of(kind_name)
        path = path_of(kind, namespace="" if everywhere else self.namespace)
        return [item async for page in self.client.list_pages(path) for item in page.items]

    async def patch(self, kind_name: str, name: str, change: Manifest, *, subresource: str = "") -> Manifest:
        """Merge a change into an object."""
        path = self._path(kind_name, name) + (f"/{subresource}" if subresource else "")
        return await self._asked("PATCH", path, body=change, content_type="application/merge-patch+json")

    async def delete(self, kind_name: str, name: str, *, grace_s: int | None = None) -> None:
        """Ask for the deletion of an object; one that is gone already is fine."""
        body: Manifest = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        reply = await self.client.request("DELETE", self._path(kind_name, name), body=body)
        if reply.status not in {200, 202, NOT_FOUND}:
            raise AssertionError(f"DELETE {kind_name} {name}: {reply.status} {reply.body!r}")

    async def evict(self, pod: str, *, uid: str) -> None:
        """Evict a pod, if it still is the one with this uid."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        await self._asked("POST", self._path("Pod", pod) + "/eviction", body=body)

    async def _asked(self, method: str, path: str, **arguments: Any) -> Manifest:
        found: Manifest = (await self.client.request_ok(method, path, **arguments)).json()
        return found

    def _path(self, kind_name: str, name: str) -> str:
        return path_of(kind_of(kind_name), namespace=self.namespace, name=name)

    def _place(self, manifest: Manifest) -> tuple[Kind, str, str]:
        group, slash, _ = manifest["apiVersion"].partition("/")
        kind = _KINDS_OF_GROUPS[group if slash else "", manifest["kind"]]
        namespace = manifest["metadata"].get("namespace") or self.namespace
        return kind, namespace, manifest["apiVersion"].rpartition("/")[2]
