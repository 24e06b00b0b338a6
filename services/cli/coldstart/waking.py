"""Controlled wakes of one target: to zero, up again, and each pod watched until it is ready.

The command is the signal and the decision here, so what the autoscaler itself takes is not in these numbers. While it
runs, the HPA's own mark that it put the target to sleep is taken away, so that nobody else wakes it; in the end
everything is as it was.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from services.autoscaler.adapters.kubernetes import KubernetesHpas
from services.autoscaler.adapters.pods import KubernetesPods
from services.autoscaler.ports import ApiFailed, Scale, WriteConflict
from services.cli.coldstart.summary import Run
from services.contracts.decision_codec import decode_decision
from services.contracts.streams import PLACEMENT_STREAM
from services.core.cold_start import ColdStart, Phase
from services.core.decisions import Proposed
from services.core.names import CONDITION_SCALED_TO_ZERO
from services.core.reasons import Reason
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler
from services.runtime.bus import Bus
from services.runtime.clock import Clock
from services.runtime.kube import KubeClient

ATTEMPTS = 8
POLL_S = 0.2
_STRATEGIC = "application/strategic-merge-patch+json"


class CannotMeasure(Exception):
    """The target cannot be woken here; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An HPA and its target as they were."""

    hpa: Autoscaler
    scale: Scale

    def replicas(self, wanted: int | None) -> int:
        """Return how many to start: as many as were asked for, else as one item of work would start.

        Raises CannotMeasure.
        """
        size = self.hpa.group_size
        least = -(-max(self.hpa.min_replicas, 1) // size) * size
        count = least if wanted is None else wanted
        if not 1 <= count <= self.hpa.max_replicas:
            raise CannotMeasure(f"{count} replicas: expected 1 to {self.hpa.max_replicas}, the HPA's maxReplicas")
        return count


class ControlledWakes:
    """Wakes one target again and again."""

    def __init__(self, client: KubeClient, *, clock: Clock, timeout_s: float, bus: Bus | None = None) -> None:
        """Use an open client; with a bus, the placer's decisions are heard too."""
        self._client = client
        self._api = KubernetesHpas(client, clock=clock)
        self._pods = KubernetesPods(client, clock=clock)
        self._clock = clock
        self._timeout_s = timeout_s
        self._bus = bus

    async def find(self, namespace: str, name: str) -> Found:
        """Return the HPA and its target. Raises CannotMeasure, KubeFault and ApiFailed."""
        reply = await self._client.request("GET", _path(namespace, name))
        if reply.status == 404:  # noqa: PLR2004 - not found
            raise CannotMeasure(f"there is no HorizontalPodAutoscaler {name} in namespace {namespace}")
        hpa = reduce_autoscaler((await self._client.request_ok("GET", _path(namespace, name))).json())
        scale = await self._scale(hpa)
        if not scale.selector:
            raise CannotMeasure(f"the scale of {hpa.target} names no selector, so its pods cannot be told from others")
        return Found(hpa=hpa, scale=scale)

    @contextlib.asynccontextmanager
    async def borrowed(self, found: Found) -> AsyncIterator[None]:
        """Keep others from waking the target in the block, and leave everything as it was."""
        if found.hpa.is_scaled_to_zero:
            await self._api.disarm(found.hpa, is_fenced=False)
        try:
            yield
        finally:
            await self._set(found.hpa, replicas=found.scale.replicas)
            if found.hpa.is_scaled_to_zero:
                await self._arm(found.hpa)

    async def run(self, found: Found, *, replicas: int) -> Run:
        """Put the target to sleep, wake it, and watch until all its pods are ready. Raises CannotMeasure."""
        await self._set(found.hpa, replicas=0)
        await self._until_no_pods(found)
        scale = await self._scale(found.hpa)
        if scale.replicas:
            raise CannotMeasure(f"somebody else has scaled {found.hpa.target} to {scale.replicas} meanwhile")
        start = ColdStart(replicas=replicas, counts_items=False)
        since_s = self._clock.monotonic()
        hearing = asyncio.create_task(self._hear_placements(start, hpa=found.hpa, since_s=since_s))
        try:
            await self._write(scale, replicas=replicas)
            start.ended(Phase.REPLICAS_SET, at_s=self._clock.monotonic() - since_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await self._watch(start, found=found, since_s=since_s)
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
        return Run(ends_s=dict(start.ends_s), missing=start.missing)

    async def _watch(self, start: ColdStart, *, found: Found, since_s: float) -> None:
        pods = self._pods.pods(found.hpa.namespace, selector=found.scale.selector)
        async with contextlib.aclosing(pods) as seen:
            async for pod in seen:
                if pod.stage is None:
                    start.pod_gone(pod.uid)
                else:
                    start.pod_seen(pod.uid, stage=pod.stage, at_s=self._clock.monotonic() - since_s)
                if start.is_complete:
                    return

    async def _hear_placements(self, start: ColdStart, *, hpa: Autoscaler, since_s: float) -> None:
        if self._bus is None:
            return
        async for batch in self._bus.follow(PLACEMENT_STREAM.name, subjects=PLACEMENT_STREAM.subjects[0]):
            for message in batch.messages:
                decision = decode_decision(message.data)
                if isinstance(decision.event, Proposed) and decision.gang.split("/")[1] == hpa.namespace:
                    uids = [str(one.uid) for one in decision.event.assignments]
                    start.pods_placed(uids, at_s=self._clock.monotonic() - since_s)

    async def _until_no_pods(self, found: Found) -> None:
        path, query = f"/api/v1/namespaces/{found.hpa.namespace}/pods", {"labelSelector": found.scale.selector}
        try:
            async with asyncio.timeout(self._timeout_s):
                while (await self._client.request_ok("GET", path, query=query)).json()["items"]:
                    await self._clock.sleep(POLL_S)
        except TimeoutError as error:
            raise CannotMeasure(f"pods of {found.hpa.target} are still there after {self._timeout_s:g} s") from error

    async def _scale(self, hpa: Autoscaler) -> Scale:
        scale = await self._api.scale_of(hpa.namespace, hpa.target)
        if isinstance(scale, Reason):
            raise CannotMeasure(scale.message)
        return scale

    async def _set(self, hpa: Autoscaler, *, replicas: int) -> None:
        """Ask for replicas, whoever writes beside us."""
        patient = AsyncRetrying(
            wait=wait_random_exponential(multiplier=0.05, max=1),
            retry=retry_if_exception_type((WriteConflict, ApiFailed)),
            stop=stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        async for attempt in patient:
            with attempt:
                scale = await self._scale(hpa)
                if scale.replicas != replicas:
                    await self._write(scale, replicas=replicas)

    async def _write(self, scale: Scale, *, replicas: int) -> None:
        refused = await self._api.set_replicas(scale, replicas=replicas)
        if refused is not None:
            raise CannotMeasure(refused.message)

    async def _arm(self, hpa: Autoscaler) -> None:
        """Give the HPA its mark back."""
        condition: dict[str, Any] = {
            "type": CONDITION_SCALED_TO_ZERO,
            "status": "True",
            "reason": CONDITION_SCALED_TO_ZERO,
            "message": "as it was before its cold start was measured",
            "lastTransitionTime": self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        body = {"metadata": {"uid": hpa.uid}, "status": {"conditions": [condition]}}
        path = f"{_path(hpa.namespace, hpa.name)}/status"
        await self._client.request_ok("PATCH", path, body=body, content_type=_STRATEGIC)


def _path(namespace: str, name: str) -> str:
    return f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/{name}"
