"""No wake is lost while the autoscaler and the bus are killed: every message that was stored wakes its target."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from prometheus_client import CollectorRegistry

from services.cli.processes import LocalProcess
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient
from services.sandbox import kubeconfig
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.integration.autoscaler.waking_scene import NAMESPACE, Scene, add_queue, configuration

pytest_plugins = ("tests.nats_server",)

TARGETS = tuple(f"t{number}" for number in range(12))


@pytest.fixture
async def scene(nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[Scene]:
    """Twelve Deployments that sleep, each with a queue of its own."""
    async with running(ClusterSettings(nodes=0, has_controllers=False)) as sandbox:
        kubeconfig.write(tmp_path / "kubeconfig", url=sandbox.url)
        (tmp_path / "phalanx.yaml").write_text(configuration(*TARGETS))
        connection = Client()
        await connection.connect(nats_server.url, max_reconnect_attempts=-1)
        await connection.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
        async with await KubeClient.open(tmp_path / "kubeconfig") as client:
            made = Scene(client=client, nats=connection, readiness=Readiness(), registry=CollectorRegistry())
            await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
            for name in TARGETS:
                await add_queue(connection.jetstream(), name)
                await made.deployment(name)
                await made.hpa(name, queue=name, scaled_to_zero="True")
            yield made
        await connection.close()


@pytest.fixture
async def autoscaler(scene: Scene, nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[LocalProcess]:
    """A process that reads its sources once a minute, so that it is a hint or a start that wakes."""
    assert scene.nats.is_connected
    environment = {
        "PHALANX_NATS_URL": nats_server.url,
        "PHALANX_HTTP_ADDRESS": "127.0.0.1:0",
        "PHALANX_KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PHALANX_CONFIG": str(tmp_path / "phalanx.yaml"),
        "PHALANX_SOURCE_INTERVAL_S": "60",
        # There is one, and it need not wait for the key of the one that was killed.
        "PHALANX_LEADER_ELECTION": "false",
    }
    process = LocalProcess(name="autoscaler", folder=tmp_path, environment=environment)
    process.start()
    try:
        await process.wait_ready()
        yield process
    finally:
        await process.stop()


async def test_no_wake_is_lost(scene: Scene, autoscaler: LocalProcess, nats_server: EmbeddedNats) -> None:
    """Each is killed right after a message was stored, before it, and both at once."""
    for number, name in enumerate(TARGETS):
        kills_process, kills_bus, is_before = number % 2 == 0, number % 3 == 0, number % 4 < 2
        if kills_process and is_before:
            autoscaler.kill()
        await scene.send(queue=name)
        if kills_process:
            autoscaler.kill()
        if kills_bus:
            await nats_server.kill()
            await nats_server.start()
        if kills_process:
            autoscaler.start()
            await autoscaler.wait_ready()
        await scene.until_replicas(1, name=name)
        await scene.until_condition("ScaledToZero", "False NotScaledToZero", name=name)
        await scene.until(lambda: _is_back(scene), True, what="the bus is back")


async def _is_back(scene: Scene) -> bool:
    try:
        await scene.nats.flush(timeout=1)
    except Exception:  # noqa: BLE001 - it is not, in one of many ways
        return False
    return scene.nats.is_connected
