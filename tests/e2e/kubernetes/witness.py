"""Every version of pods and PodGroups that the API server told of, in its own order.

All objects of a control plane share one counter of revisions, so that "the condition was written after the last
binding" is a comparison of two numbers, and no matter of clocks.
"""

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from services.runtime.kube import Gone, KubeClient, KubeFault
from tests.e2e.waiting import POLL_S

PODS = "/api/v1/pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of an object; the last one of a deleted object has `is_gone`."""

    revision: int
    is_gone: bool
    manifest: dict[str, Any]

    @property
    def node(self) -> str:
        """The node of a pod, empty while it is unbound."""
        return str(self.manifest["spec"].get("nodeName", ""))

    @property
    def is_ending(self) -> bool:
        """True from the deletion request on."""
        return self.is_gone or "deletionTimestamp" in self.manifest["metadata"]

    def condition(self, kind: str) -> dict[str, Any]:
        """Return a condition of its status, empty where it has none of that kind."""
        found: list[dict[str, Any]] = (self.manifest.get("status") or {}).get("conditions") or []
        return next((one for one in found if one["type"] == kind), {})


@dataclass(slots=True, kw_only=True)
class Witness:
    """Follows until it is cancelled. Versions by uid, oldest first."""

    client: KubeClient
    versions: dict[str, list[Version]] = field(default_factory=dict)

    async def run(self, paths: Iterable[str]) -> None:
        """Follow these lists."""
        async with asyncio.TaskGroup() as group:
            for path in paths:
                group.create_task(self._follow(path), name=f"witness {path}")

    def of(self, kind: str, *, namespace: str, name: str = "", group: str = "") -> dict[str, list[Version]]:
        """Return the histories of a kind's objects in a namespace; of one name, or of one group's members."""

        def is_meant(one: Version) -> bool:
            metadata, spec = one.manifest["metadata"], one.manifest["spec"]
            if one.manifest["kind"] != kind or metadata["namespace"] != namespace:
                return False
            if name and metadata["name"] != name:
                return False
            return not group or (spec.get("schedulingGroup") or {}).get("podGroupName") == group

        return {uid: versions for uid, versions in self.versions.items() if is_meant(versions[0])}

    async def _follow(self, path: str) -> None:
        while True:
            with contextlib.suppress(Gone, KubeFault):
                version = await self._list(path)
                while True:
                    version = await self._watch(path, version)
            # Only while the API server is away.
            await asyncio.sleep(POLL_S)

    async def _list(self, path: str) -> str:
        version = ""
        async for page in self.client.list_pages(path):
            for item in page.items:
                # Items of a list do not say what they are.
                self._note(item | {"kind": "Pod" if path == PODS else "PodGroup"}, is_gone=False)
            version = page.resource_version
        return version

    async def _watch(self, path: str, version: str) -> str:
        async with contextlib.aclosing(self.client.watch(path, resource_version=version)) as events:
            async for event in events:
                version = event.object["metadata"]["resourceVersion"]
                if event.type != "BOOKMARK":
                    self._note(event.object, is_gone=event.type == "DELETED")
        return version

    def _note(self, manifest: dict[str, Any], *, is_gone: bool) -> None:
        revision = int(manifest["metadata"]["resourceVersion"])
        versions = self.versions.setdefault(manifest["metadata"]["uid"], [])
        if not versions or versions[-1].revision < revision:
            versions.append(Version(revision=revision, is_gone=is_gone, manifest=manifest))


def bound_at(versions: Iterable[Version]) -> int | None:
    """Return the revision in which a pod was bound, or None."""
    return next((one.revision for one in versions if one.node), None)
