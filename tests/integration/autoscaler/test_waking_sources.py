"""Waking by sources other than JetStream, against the sandbox: polled, pushed, and beside one that is broken."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from redis.asyncio import Redis

from services.runtime.embedded_nats import EmbeddedNats
from services.sandbox import kubeconfig
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.e2e.waiting import until
from tests.hpas import external
from tests.integration.autoscaler.scaler_server import Scaler, serving
from tests.integration.autoscaler.source_servers import PASSWORD
from tests.integration.autoscaler.waking_scene import Scene, staged

pytest_plugins = ("tests.nats_server",)

WAKING = "phalanx.dev/Waking"
NOBODY = "127.0.0.1:1"


@contextlib.asynccontextmanager
async def scene_with(sources: list[dict[str, Any]], *, nats_url: str, folder: Path) -> AsyncIterator[Scene]:
    """An autoscaler with these sources, which it reads by itself once a minute only while nobody sleeps."""
    file = folder / "kubeconfig"
    async with running(ClusterSettings(nodes=0)) as sandbox:
        kubeconfig.write(file, url=sandbox.url)
        config = yaml.safe_dump({"metricSources": sources})
        async with staged(file, nats_url=nats_url, directory=folder, config=config, asleep_interval_s=0.2) as made:
            yield made


@pytest.fixture
async def owner(redis_port: int) -> AsyncIterator[Redis]:
    """Whoever owns the queues; it begins with an empty server."""
    client = Redis(port=redis_port, password=PASSWORD)
    await client.flushall()
    yield client
    await client.aclose()


def redis_source(port: int, folder: Path) -> dict[str, Any]:
    """A list in Redis."""
    (folder / "password").write_text(PASSWORD)
    source = {"address": f"127.0.0.1:{port}", "listKey": "jobs", "passwordFile": str(folder / "password")}
    return {"metric": "jobs", "redis": source}


async def test_a_list_that_fills_wakes(
    nats_server: EmbeddedNats, owner: Redis, redis_port: int, tmp_path: Path
) -> None:
    """Redis hints at nothing; while somebody sleeps it is read often."""
    sources = [redis_source(redis_port, tmp_path)]
    async with scene_with(sources, nats_url=nats_server.url, folder=tmp_path) as scene:
        await scene.deployment()
        await scene.hpa(scaled_to_zero="True", metrics=(external("jobs"),))
        await owner.lpush("jobs", *range(25))
        await scene.until_replicas(3)
        await scene.until_condition("ScaledToZero", "False NotScaledToZero")


async def test_a_scaler_that_says_there_is_work_wakes(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """Its own number says how many."""
    scaler = Scaler(metrics=[("depth", 25.0)])
    async with serving(scaler) as address:
        sources = [{"metric": "depth", "externalScaler": {"address": address, "metadata": {"queue": "a"}}}]
        async with scene_with(sources, nats_url=nats_server.url, folder=tmp_path) as scene:
            await scene.deployment()
            await scene.hpa(scaled_to_zero="True", metrics=(external("depth"),))
            await until(lambda: scaler.streams, what="the scaler is listened to")
            assert await scene.replicas() == 0
            scaler.push(is_active=True)
            await scene.until_replicas(3)


async def test_a_source_that_is_down_is_told_and_keeps_nobody_asleep(
    nats_server: EmbeddedNats, owner: Redis, redis_port: int, tmp_path: Path
) -> None:
    """It is unknown, nothing is scaled on it; a second metric that can be read wakes all the same."""
    down = {"metric": "down", "http": {"url": f"http://{NOBODY}/"}}
    sources = [down, redis_source(redis_port, tmp_path)]
    async with scene_with(sources, nats_url=nats_server.url, folder=tmp_path) as scene:
        await scene.deployment()
        await scene.hpa(scaled_to_zero="True", metrics=(external("down"), external("jobs")))
        await scene.until_condition(WAKING, "Unknown MetricUnknown")
        assert await scene.replicas() == 0
        await owner.lpush("jobs", *range(5))
        await scene.until_replicas(1)
