"""An autoscaler in the test's event loop, between a real NATS server and an API server of either kind."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from nats.aio.client import Client
from nats.js import JetStreamContext, api
from opentelemetry.trace import NoOpTracer
from prometheus_client import CollectorRegistry

from services.autoscaler.app import scale
from services.autoscaler.settings import AutoscalerSettings
from services.contracts.scaling_codec import decode_scaling
from services.contracts.streams import SCALING_STREAM
from services.core.scaling import ScalingDecision
from services.runtime import log
from services.runtime.clock import SystemClock
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from services.runtime.lifecycle import Runtime
from tests.e2e.waiting import eventually
from tests.hpas import external, hpa_manifest

NAMESPACE = "team-a"
QUEUE = "infer"
SUBJECT = "orders.infer"
_APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_HPAS = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
_STRATEGIC = "application/strategic-merge-patch+json"


def configuration(*consumers: str) -> str:
    """One source for each consumer of the stream ORDERS, by the label `queue`."""
    sources = [
        {
            "metric": "queue_depth",
            "selector": {"queue": name},
            "jetstream": {"stream": "ORDERS", "consumer": name},
        }
        for name in consumers
    ]
    return yaml.safe_dump({"metricSources": sources})


@dataclass(slots=True, kw_only=True)
class Scene:
    """Both ends."""

    client: KubeClient
    nats: Client
    readiness: Readiness
    registry: CollectorRegistry
    #: Ends the autoscaler.
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def jetstream(self) -> JetStreamContext:
        """The queues."""
        return self.nats.jetstream()

    async def queue(self, name: str) -> None:
        """Make a consumer, as its owner would."""
        await add_queue(self.jetstream, name)

    async def send(self, count: int = 1, *, queue: str = QUEUE) -> None:
        """Put messages into a queue."""
        for _ in range(count):
            await self.jetstream.publish(f"orders.{queue}", b"work")

    async def deployment(self, name: str = "infer", *, replicas: int = 0) -> None:
        """Create a Deployment."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.client.request_ok("POST", _APPS, body={"metadata": {"name": name}, "spec": spec})

    async def hpa(self, name: str = "infer", *, queue: str = QUEUE, scaled_to_zero: str = "", **given: Any) -> None:
        """Create an HPA, and write its condition as the native controller would."""
        metrics = (external(labels={"queue": queue}),)
        manifest = hpa_manifest(name, **({"target": name, "metrics": metrics} | given))
        await self.client.request_ok("POST", _HPAS, body={key: manifest[key] for key in ("metadata", "spec")})
        if scaled_to_zero:
            await self.set_scaled_to_zero(scaled_to_zero, name=name)

    async def set_scaled_to_zero(self, status: str, *, name: str = "infer") -> None:
        """Write the condition."""
        condition = {
            "type": "ScaledToZero",
            "status": status,
            "reason": "ScaledToZero",
            "lastTransitionTime": "2026-11-02T08:50:00Z",
        }
        body = {"status": {"conditions": [condition]}}
        await self.client.request_ok("PATCH", f"{_HPAS}/{name}/status", body=body, content_type=_STRATEGIC)

    async def rescale(self, replicas: int, *, name: str = "infer") -> None:
        """Scale as a person does."""
        body = {"spec": {"replicas": replicas}}
        path = f"{_APPS}/{name}/scale"
        await self.client.request_ok("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def replicas(self, name: str = "infer") -> int:
        """How many a Deployment is asked to have."""
        return int((await self.client.request_ok("GET", f"{_APPS}/{name}")).json()["spec"].get("replicas", 0))

    async def condition(self, kind: str, *, name: str = "infer") -> str:
        """Status and reason of a condition."""
        status = (await self.client.request_ok("GET", f"{_HPAS}/{name}")).json().get("status") or {}
        found = [one for one in status.get("conditions") or () if one["type"] == kind]
        return " ".join(f"{one['status']} {one.get('reason', '')}" for one in found)

    async def events(self) -> list[str]:
        """Type, reason and object of all Events about HPAs."""
        path = f"/api/v1/namespaces/{NAMESPACE}/events"
        items = (await self.client.request_ok("GET", path)).json()["items"]
        ours = [one for one in items if one["source"].get("component") == "phalanx-autoscaler"]
        return [f"{one['type']} {one['reason']} {one['involvedObject']['name']}" for one in ours]

    async def decisions(self) -> list[ScalingDecision]:
        """What is stored on PHALANX_SCALING."""
        info = await self.jetstream.stream_info(SCALING_STREAM.name)
        numbers = range(info.state.first_seq, info.state.last_seq + 1)
        stored = [await self.jetstream.get_msg(SCALING_STREAM.name, number) for number in numbers]
        return [decode_scaling(message.data or b"") for message in stored]

    async def until_replicas(self, wanted: int, *, name: str = "infer") -> None:
        """Wait until a Deployment is asked to have so many."""
        await self.until(lambda: self.replicas(name), wanted, what=f"replicas of {name}")

    async def until_condition(self, kind: str, wanted: str, *, name: str = "infer") -> None:
        """Wait until a condition of an HPA has this status and reason."""
        await self.until(lambda: self.condition(kind, name=name), wanted, what=f"{kind} of {name}")

    async def until(self, probe: Callable[[], Awaitable[object]], wanted: object, *, what: str) -> None:
        """Wait until a probe gives a value."""
        last: object = None

        async def holds() -> bool:
            nonlocal last
            last = await probe()
            return last == wanted

        try:
            await eventually(holds, what=f"{what} is {wanted!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}: it is {last!r}") from None


@contextlib.asynccontextmanager
async def autoscaler(
    kubeconfig: Path,
    *,
    nats_url: str,
    directory: Path,
    config: str,
    interval_s: float = 60.0,
    instance: str = "test",
    is_elected: bool = False,
    **given: Any,
) -> AsyncIterator[Runtime]:
    """Run an autoscaler; it reads on its own only once a minute, so that what happens sooner came by a hint.

    `given` are further settings.
    """
    file = directory / "phalanx.yaml"
    file.write_text(config)
    settings = AutoscalerSettings(
        nats_url=nats_url,
        kubeconfig=kubeconfig,
        instance=instance,
        config=file,
        source_interval_s=interval_s,
        leader_election=is_elected,
        **given,
    )
    runtime = Runtime(
        service="autoscaler",
        instance=instance,
        readiness=Readiness(),
        registry=CollectorRegistry(),
        tracer=NoOpTracer(),
        log=log.get("autoscaler"),
        clock=SystemClock(),
        stopping=asyncio.Event(),
    )
    running = asyncio.create_task(scale(settings, runtime))
    try:
        await eventually(lambda: _ready(runtime.readiness, running), what="the autoscaler is ready")
        yield runtime
    finally:
        runtime.stopping.set()
        await asyncio.wait_for(running, timeout=20)


async def _ready(readiness: Readiness, running: "asyncio.Task[None]") -> bool:
    if running.done():
        running.result()
    return readiness.is_ready and "hpas" in {one.name for one in readiness.conditions}


async def add_queue(jetstream: JetStreamContext, name: str = QUEUE) -> None:
    """Make a consumer that takes the messages of one queue."""
    config = api.ConsumerConfig(durable_name=name, filter_subject=f"orders.{name}", ack_policy=api.AckPolicy.EXPLICIT)
    await jetstream.add_consumer("ORDERS", config)


@contextlib.asynccontextmanager
async def staged(
    kubeconfig: Path,
    *,
    nats_url: str,
    directory: Path,
    config: str = "",
    interval_s: float = 60.0,
    is_elected: bool = False,
    own_kubeconfig: Path | None = None,
    **given: Any,
) -> AsyncIterator[Scene]:
    """An empty namespace, a stream with one consumer, and an autoscaler between them.

    `own_kubeconfig` is the autoscaler's, where it is not the test's own; `given` are further settings of it.
    """
    connection = Client()
    await connection.connect(nats_url, reconnect_time_wait=1, max_reconnect_attempts=-1)
    try:
        await connection.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        await add_queue(connection.jetstream())
        async with await KubeClient.open(kubeconfig) as client:
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
            async with autoscaler(
                own_kubeconfig or kubeconfig,
                nats_url=nats_url,
                directory=directory,
                config=config or configuration(QUEUE),
                interval_s=interval_s,
                is_elected=is_elected,
                **given,
            ) as runtime:
                yield Scene(
                    client=client,
                    nats=connection,
                    readiness=runtime.readiness,
                    registry=runtime.registry,
                    stopping=runtime.stopping,
                )
    finally:
        await connection.close()
