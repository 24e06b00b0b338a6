"""Follows HorizontalPodAutoscalers by a list and a watch of its own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tenacity import RetryCallState

from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.ports import ApiFailed, HistoryGone, HpaApi
from services.core.manifests import FieldError
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler
from services.runtime.backoff import following
from services.runtime.clock import Clock
from services.runtime.health import Readiness
from services.runtime.log import get

CONDITION = "hpas"
"""Name of the condition of readiness."""
STEADY_S = 1.0
"""A watch that was open for so long works; one that ends sooner is opened again after a pause."""

_log = get("autoscaler.hpas")


class HpaFollower:
    """Keeps whoever wakes informed; `replaced` gets all of them after each list."""

    def __init__(
        self,
        api: HpaApi,
        *,
        replaced: Callable[[Iterable[Autoscaler]], None],
        put: Callable[[Autoscaler], None],
        removed: Callable[[str], None],
        readiness: Readiness,
        metrics: WakingMetrics,
        clock: Clock,
    ) -> None:
        """Keep the parts; `run` does the work."""
        self._api = api
        self._replaced = replaced
        self._put = put
        self._removed = removed
        self._readiness = readiness
        self._metrics = metrics
        self._clock = clock

    async def run(self) -> None:
        """Follow for ever: list, watch, and list again where the server forgot the version."""
        self._readiness.set(CONDITION, ready=False, detail="listing horizontalpodautoscalers")
        while True:
            async for attempt in following(retry_on=ApiFailed, tell=self._tell, clock=self._clock):
                with attempt:
                    await self._follow()

    async def _follow(self) -> None:
        """List, and watch until the history is gone, or a watch breaks that had worked. Raises ApiFailed."""
        items, version = await self._api.listed()
        read = [self._read(item) for item in items]
        self._replaced([one for one in read if one is not None])
        self._readiness.set(CONDITION, ready=True, detail=f"following {len(items)}")
        listed_s = self._clock.monotonic()
        try:
            while True:
                opened_s = self._clock.monotonic()
                async for event in self._api.watched(version):
                    version = str(event.manifest["metadata"]["resourceVersion"])
                    if not event.is_bookmark:
                        self._take(event.manifest, is_deleted=event.is_deleted)
                if self._clock.monotonic() - opened_s < STEADY_S:
                    await self._clock.sleep(STEADY_S)
        except HistoryGone:
            return
        except ApiFailed as error:
            if self._clock.monotonic() - listed_s < STEADY_S:
                raise
            _log.warning("hpas.watch_failed", detail=str(error))

    def _take(self, manifest: Mapping[str, Any], *, is_deleted: bool) -> None:
        metadata = manifest["metadata"]
        found = None if is_deleted else self._read(manifest)
        if found is None:
            self._removed(f"{metadata['namespace']}/{metadata['name']}")
        else:
            self._put(found)

    def _read(self, manifest: Mapping[str, Any]) -> Autoscaler | None:
        try:
            return reduce_autoscaler(manifest)
        except FieldError as error:
            metadata = manifest.get("metadata") or {}
            self._metrics.unreadable.inc()
            _log.warning(
                "hpas.unreadable", namespace=metadata.get("namespace"), name=metadata.get("name"), detail=str(error)
            )
            return None

    def _tell(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        self._readiness.set(CONDITION, ready=False, detail=f"waiting for the API server: {error}")
