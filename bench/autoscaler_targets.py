"""Targets of the autoscaler's benchmark: Deployments that sleep, their HPAs, and what puts them to sleep again."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.js.errors import APIError
from tenacity import AsyncRetrying, retry_if_exception_type, wait_fixed

from services.core.names import SCHEDULER_NAME
from services.runtime.kube import KubeClient, KubeFault

NAMESPACE = "bench"
POLL_S = 0.002
TIMEOUT_S = 60.0
CALM_S = 0.4
"""Between two wakes: the sleeper is listened for again."""

_APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_FAULTS = (KubeFault, nats.errors.Error, APIError, OSError, TimeoutError)


def patient() -> AsyncRetrying:
    """Repeat whatever fails while something is killed."""
    return AsyncRetrying(wait=wait_fixed(0.1), retry=retry_if_exception_type(_FAULTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """All targets, each with a queue of its name."""

    kube: KubeClient
    nats: Client

    async def namespace(self) -> None:
        """Create the namespace."""
        await self.kube.request_ok("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})

    async def add(self, name: str, *, members: int = 1) -> None:
        """Create a Deployment that sleeps, and an HPA that wakes `members` by one message."""
        labels = {"app": name}
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        if members > 1:
            container["resources"] = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
        pod = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        await self.kube.request_ok("POST", _APPS, body={"metadata": {"name": name}, "spec": spec})
        target = {"type": "AverageValue", "averageValue": "1000"}
        metric = {"name": "queue_depth", "selector": {"matchLabels": {"queue": name}}}
        hpa = {
            "metadata": {"name": name, "annotations": {"phalanx.dev/group-size": str(members)}},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                "minReplicas": 0,
                "maxReplicas": members,
                "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
            },
        }
        await self.kube.request_ok("POST", _HPAS, body=hpa)
        await self._marked(name)

    async def wake(self, name: str, *, stream: str, members: int = 0) -> float:
        """Return the seconds from a message to the replicas, or to so many bound pods; then let it sleep again."""
        began_s = time.perf_counter()
        await self.nats.jetstream().publish(f"orders.{name}", b"work")
        while (await self._bound(name) if members else await self._replicas(name)) < max(members, 1):
            await asyncio.sleep(POLL_S)
            if time.perf_counter() - began_s > TIMEOUT_S:
                raise TimeoutError(f"{name} was not woken within {TIMEOUT_S:g} s")
        took_s = time.perf_counter() - began_s
        await self.sleep_again([name], stream=stream)
        return took_s

    async def send_all(self, names: Sequence[str]) -> None:
        """Put a message into each queue, one after the other; the server has stored each when this returns."""
        for name in names:
            async for attempt in patient():
                with attempt:
                    await self.nats.jetstream().publish(f"orders.{name}", b"work")

    async def still_asleep(self, names: Sequence[str], *, timeout_s: float) -> int:
        """Return how many have no replicas after so long; at once when all have."""
        until_s = time.monotonic() + timeout_s
        left = list(names)
        while left and time.monotonic() < until_s:
            found = [await self._patiently_replicas(name) for name in left]
            left = [name for name, replicas in zip(left, found, strict=True) if not replicas]
            await asyncio.sleep(0.05)
        return len(left)

    async def sleep_again(self, names: Sequence[str], *, stream: str) -> None:
        """Empty the queues, and write what the HPA's controller writes when it puts targets to sleep."""
        await asyncio.gather(*(self._sleep_again(name, stream=stream) for name in names))
        # Only then does the autoscaler see empty queues, and listen for the next message.
        await asyncio.sleep(CALM_S)

    async def _sleep_again(self, name: str, *, stream: str) -> None:
        async for attempt in patient():
            with attempt:
                await self._emptied(name, stream=stream)
        # The wake is over when its mark is cleared: written before, it would be cleared again.
        while await self._mark(name) != "False":  # noqa: ASYNC110 - polls an API, there is no event
            await asyncio.sleep(0.02)
        async for attempt in patient():
            with attempt:
                body = {"spec": {"replicas": 0}}
                await self.kube.request_ok("PATCH", f"{_APPS}/{name}/scale", body=body, content_type=_MERGE)
        while await self._pods(name):  # noqa: ASYNC110 - polls an API, there is no event
            await asyncio.sleep(0.02)
        async for attempt in patient():
            with attempt:
                await self._marked(name)

    async def _emptied(self, name: str, *, stream: str) -> None:
        jetstream = self.nats.jetstream()
        subscription = await jetstream.pull_subscribe_bind(stream=stream, consumer=name)
        while True:
            held = await jetstream.consumer_info(stream, name)
            if not held.num_pending and not held.num_ack_pending:
                await subscription.unsubscribe()
                return
            for message in await subscription.fetch(1, timeout=5):
                await message.ack_sync()

    async def _marked(self, name: str) -> None:
        condition = {
            "type": "ScaledToZero",
            "status": "True",
            "reason": "ScaledToZero",
            "lastTransitionTime": "2026-11-02T08:50:00Z",
        }
        body = {"status": {"conditions": [condition]}}
        await self.kube.request_ok("PATCH", f"{_HPAS}/{name}/status", body=body, content_type=_STRATEGIC)

    async def _mark(self, name: str) -> str:
        async for attempt in patient():
            with attempt:
                status = (await self.kube.request_ok("GET", f"{_HPAS}/{name}")).json().get("status") or {}
                found = [one["status"] for one in status.get("conditions") or () if one["type"] == "ScaledToZero"]
                return str(found[0]) if found else ""
        raise AssertionError("repeated for ever")

    async def _replicas(self, name: str) -> int:
        return int((await self.kube.request_ok("GET", f"{_APPS}/{name}")).json()["spec"].get("replicas", 0))

    async def _patiently_replicas(self, name: str) -> int:
        async for attempt in patient():
            with attempt:
                return await self._replicas(name)
        raise AssertionError("repeated for ever")

    async def _bound(self, name: str) -> int:
        return sum(bool(pod["spec"].get("nodeName")) for pod in await self._pods(name))

    async def _pods(self, name: str) -> list[dict[str, Any]]:
        async for attempt in patient():
            with attempt:
                reply = await self.kube.request_ok("GET", _PODS, query={"labelSelector": f"app={name}"})
                return list(reply.json()["items"])
        raise AssertionError("repeated for ever")
