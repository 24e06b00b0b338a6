"""Waking on a real API server, with the native HPA controller beside it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from services.runtime.embedded_nats import EmbeddedNats
from tests.integration.autoscaler.waking_scene import Scene, staged
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries

pytest_plugins = ("tests.nats_server",)
pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """API server and controller manager, whose HPA loop looks every second."""
    require_binaries()
    sync = ("--horizontal-pod-autoscaler-sync-period=1s",)
    with Cluster(ClusterConfig(controller_manager_args=sync)) as running:
        yield running


@pytest.fixture
async def scene(cluster: Cluster, nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[Scene]:
    """An autoscaler between both."""
    async with staged(cluster.kubeconfig, nats_url=nats_server.url, directory=tmp_path) as made:
        yield made


async def test_one_message_wakes_beside_the_native_controller(scene: Scene) -> None:
    """The real server takes scale, status and Event; the native controller keeps our condition and its own False."""
    await scene.deployment()
    await scene.hpa(scaled_to_zero="True", annotations={"phalanx.dev/group-size": "4"})
    await scene.send()
    await scene.until_replicas(4)
    await scene.until_condition("ScaledToZero", "False NotScaledToZero")
    await scene.until(scene.events, ["Normal Woken infer"], what="events")
    # It goes on with the target: its metric is served by nobody here, which it says.
    await scene.until_condition("ScalingActive", "False FailedGetExternalMetric")
    await scene.rescale(0)
    await scene.until_condition("ScalingActive", "False ScalingDisabled")
    await scene.send()
    assert await scene.replicas() == 0


async def test_what_is_told_is_kept_by_the_native_controller(scene: Scene) -> None:
    """Our condition stands beside those that it writes every second."""
    await scene.hpa("lost", target="nowhere", scaled_to_zero="True")
    await scene.until_condition("phalanx.dev/Waking", "False TargetNotFound", name="lost")
    await scene.until_condition("AbleToScale", "False FailedGetScale", name="lost")
    await scene.until_condition("phalanx.dev/Waking", "False TargetNotFound", name="lost")
