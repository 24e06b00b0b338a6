"""A Deployment that sleeps is woken by one message: asked for room, placed, bound, ready, and its cold start told."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml
from nats.aio.client import Client
from nats.js import api as jetstream

from services.contracts.scaling_codec import decode_scaling
from services.contracts.streams import SCALING_STREAM
from services.core.cold_start import Phase
from services.core.names import SCHEDULER_NAME
from services.core.reasons import ReasonCode
from services.core.scaling import Held, ScalingEvent, Started, Woken
from services.runtime.bus import Bus
from services.sandbox.cluster import ClusterSettings
from tests.e2e.api import Api
from tests.e2e.gangs import oversubscribed
from tests.e2e.system import PLACING, System, running_system
from tests.e2e.waiting import eventually
from tests.hpas import external, hpa_manifest

NODES, GPUS = 2, 4
CONFIGURATION = {
    "metricSources": [{"metric": "queue_depth", "jetstream": {"stream": "ORDERS", "consumer": "infer"}}],
    "waking": {"whenItDoesNotFit": "hold"},
}
_STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(slots=True, kw_only=True)
class Scene:
    """A system with a queue."""

    system: System
    api: Api
    nats: Client

    async def deployment(self, name: str, *, replicas: int) -> None:
        """Create a Deployment of one-GPU pods."""
        labels = {"app": name}
        resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": resources}
        pod = {"schedulerName": SCHEDULER_NAME, "terminationGracePeriodSeconds": 0, "containers": [container]}
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.api.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})

    async def sleeping(self, name: str) -> None:
        """Create an HPA that has put its target to sleep: one replica for each message."""
        manifest = hpa_manifest(name, namespace=self.api.namespace, target=name, metrics=(external(each="1"),))
        await self.api.create({key: manifest[key] for key in ("apiVersion", "kind", "metadata", "spec")})
        condition = {
            "type": "ScaledToZero",
            "status": "True",
            "reason": "ScaledToZero",
            "lastTransitionTime": "2026-11-02T08:50:00Z",
        }
        path = f"/apis/autoscaling/v2/namespaces/{self.api.namespace}/horizontalpodautoscalers/{name}/status"
        body = {"status": {"conditions": [condition]}}
        await self.system.client.request_ok("PATCH", path, body=body, content_type=_STRATEGIC)

    async def ready(self, name: str) -> int:
        """How many replicas of a Deployment are ready."""
        return int((await self.api.get("Deployment", name)).get("status", {}).get("readyReplicas") or 0)

    async def told(self) -> list[ScalingEvent]:
        """What was decided about scaling."""
        return [event async for event in _stored(self.system.bus)]


async def _stored(bus: Bus) -> AsyncIterator[ScalingEvent]:
    async with contextlib.aclosing(
        bus.follow(SCALING_STREAM.name, subjects=SCALING_STREAM.subjects[0], last_per_subject=False)  # type: ignore[type-var]
    ) as batches:
        async for batch in batches:
            for message in batch.messages:
                yield decode_scaling(message.data).event
            if batch.pending == 0:
                return


def _lacks_room(held: Held) -> bool:
    return any(reason.code is ReasonCode.REPLICAS_DO_NOT_FIT for reason in held.reasons)


def _is_about_the_source(event: ScalingEvent) -> bool:
    return isinstance(event, Held) and not _lacks_room(event)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """All services, a stream with one consumer, and two nodes of four GPUs."""
    file = tmp_path / "phalanx.yaml"
    file.write_text(yaml.safe_dump(CONFIGURATION))
    async with running_system(
        tmp_path,
        settings=ClusterSettings(nodes=NODES, gpus_per_node=GPUS),
        environment={"PHALANX_CONFIG": str(file)},
        # The queue is made only when the services run already: until then it cannot be read.
        own_environment={"autoscaler": {"PHALANX_SOURCE_INTERVAL_S": "0.5"}},
        names=(*PLACING, "autoscaler"),
    ) as system:
        client = await nats.connect(system.nats.url)
        try:
            await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
            consumer = jetstream.ConsumerConfig(durable_name="infer", ack_policy=jetstream.AckPolicy.EXPLICIT)
            await client.jetstream().add_consumer("ORDERS", consumer)
            api = system.api("team-a")
            await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": api.namespace}})
            yield Scene(system=system, api=api, nats=client)
        finally:
            await client.close()


async def started(scene: Scene) -> Started:
    """Wait for the end of a cold start."""

    async def found() -> Started | None:
        return next((one for one in await scene.told() if isinstance(one, Started)), None)

    return await eventually(found, what="the cold start is over")


async def test_messages_wake_a_deployment_and_its_cold_start_is_told(scene: Scene) -> None:
    """Every phase is seen, from the signal to the first item that a worker takes."""
    await scene.deployment("infer", replicas=0)
    await scene.sleeping("infer")
    for _ in range(3):
        await scene.nats.jetstream().publish("orders.infer", b"work")

    async def are_ready() -> bool:
        return await scene.ready("infer") >= 1

    await eventually(are_ready, what="a replica is ready")
    worker = await scene.nats.jetstream().pull_subscribe_bind(stream="ORDERS", consumer="infer")
    await worker.fetch(1, timeout=10)
    start = await started(scene)
    assert not start.missing
    assert set(start.ends_s) == set(Phase)
    woken = next(one for one in await scene.told() if isinstance(one, Woken))
    assert start.replicas == woken.replicas
    assert woken.warnings == ()
    assert not oversubscribed(scene.system.apiserver)


async def test_a_wake_is_held_until_there_is_room(scene: Scene) -> None:
    """Pods of which there is room for a part only are not made; when room comes, all are."""
    await scene.deployment("holder", replicas=NODES * GPUS)

    async def is_full() -> bool:
        return await scene.ready("holder") == NODES * GPUS

    await eventually(is_full, what="all GPUs are in use")
    await scene.deployment("infer", replicas=0)
    await scene.sleeping("infer")
    await scene.nats.jetstream().publish("orders.infer", b"work")

    async def held() -> Held | None:
        return next((one for one in await scene.told() if isinstance(one, Held) and _lacks_room(one)), None)

    await eventually(held, what="the wake is held")
    assert not (await scene.api.get("Deployment", "infer"))["spec"].get("replicas")
    patch: dict[str, Any] = {"spec": {"replicas": 0}}
    await scene.api.patch("Deployment", "holder", patch)

    async def is_awake() -> bool:
        return await scene.ready("infer") == 1

    await eventually(is_awake, what="the target is awake")
    assert [type(one) for one in await scene.told() if not _is_about_the_source(one)][:2] == [Held, Woken]
