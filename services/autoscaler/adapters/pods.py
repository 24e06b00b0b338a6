"""The pods of one target by a list and a watch, for as long as its cold start lasts."""

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from services.autoscaler.ports import ApiFailed, PodSeen
from services.core.cold_start import PodStage
from services.core.manifests import condition
from services.runtime.clock import Clock
from services.runtime.kube import Gone, KubeClient, KubeError, KubeFault

WATCH_S = 300.0
STEADY_S = 0.5
"""Between two watches of which the first ended at once."""
_FORBIDDEN = 403
_OVER = frozenset({"Succeeded", "Failed"})


class KubernetesPods:
    """Satisfies `services.autoscaler.ports.TargetPods`."""

    def __init__(self, client: KubeClient, *, clock: Clock) -> None:
        """Use an open client, whose connections bound how many targets can be watched at once."""
        self._client = client
        self._clock = clock

    async def pods(self, namespace: str, *, selector: str) -> AsyncGenerator[PodSeen, None]:
        """Yield the pods that are there, and then what happens to them, for ever. Raises ApiFailed where it may not."""
        path, query = f"/api/v1/namespaces/{namespace}/pods", {"labelSelector": selector}
        known: set[str] = set()
        while True:
            items, version = await self._listed(path, query=query)
            present = {str(item["metadata"]["uid"]) for item in items}
            for uid in known - present:
                yield PodSeen(uid=uid, stage=None)
            for item in items:
                yield _seen(item)
            known = present
            async with contextlib.aclosing(self._watched(path, version=version, query=query)) as events:
                async for seen in events:
                    if seen.stage is None:
                        known.discard(seen.uid)
                    else:
                        known.add(seen.uid)
                    yield seen

    async def _listed(self, path: str, *, query: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.1, max=2),
            retry=retry_if_exception_type(KubeFault),
            sleep=self._clock.sleep,
        )
        async for attempt in patient:
            with attempt:
                return await self._list(path, query=query)
        raise AssertionError("repeated for ever")

    async def _list(self, path: str, *, query: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        items: list[dict[str, Any]] = []
        version = ""
        try:
            async with contextlib.aclosing(self._client.list_pages(path, query=query)) as pages:
                async for page in pages:
                    items.extend(page.items)
                    version = page.resource_version
        except KubeError as error:
            if error.status == _FORBIDDEN:
                raise ApiFailed(str(error)) from error
            raise
        return items, version

    async def _watched(self, path: str, *, version: str, query: Mapping[str, str]) -> AsyncGenerator[PodSeen, None]:
        """Yield what happens until the version is too old, or the API server is away."""
        with contextlib.suppress(Gone, KubeFault):
            while True:
                opened_s = self._clock.monotonic()
                watch = self._client.watch(path, resource_version=version, timeout_s=WATCH_S, query=query)
                async with contextlib.aclosing(watch) as events:
                    async for event in events:
                        version = str(event.object["metadata"]["resourceVersion"])
                        if event.type == "DELETED":
                            yield PodSeen(uid=str(event.object["metadata"]["uid"]), stage=None)
                        elif event.type != "BOOKMARK":
                            yield _seen(event.object)
                if self._clock.monotonic() - opened_s < STEADY_S:
                    await self._clock.sleep(STEADY_S)


def _seen(pod: Mapping[str, Any]) -> PodSeen:
    uid, status = str(pod["metadata"]["uid"]), pod.get("status") or {}
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") in _OVER:
        return PodSeen(uid=uid, stage=None)
    if condition(status, "Ready").get("status") == "True":
        return PodSeen(uid=uid, stage=PodStage.READY)
    if status.get("phase") == "Running":
        return PodSeen(uid=uid, stage=PodStage.RUNNING)
    is_bound = bool((pod.get("spec") or {}).get("nodeName"))
    return PodSeen(uid=uid, stage=PodStage.BOUND if is_bound else PodStage.CREATED)
