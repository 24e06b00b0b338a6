"""Two autoscalers on one bus: one acts, and the other goes on at once when it stops."""

from pathlib import Path

from services.core.scaling import Woken
from services.runtime.embedded_nats import EmbeddedNats
from services.runtime.lifecycle import Runtime
from services.sandbox import kubeconfig
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.integration.autoscaler.waking_scene import QUEUE, autoscaler, configuration, staged

pytest_plugins = ("tests.nats_server",)


def leadership_of(runtime: Runtime) -> str:
    """What the condition says."""
    return next(one.detail for one in runtime.readiness.conditions if one.name == "leadership")


async def test_a_standby_takes_over(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """The target of each message is woken once: first by the leader, and after its end by the standby."""
    kubeconfig_file = tmp_path / "kubeconfig"
    async with running(ClusterSettings(nodes=0, has_controllers=False)) as sandbox:
        kubeconfig.write(kubeconfig_file, url=sandbox.url)
        async with staged(kubeconfig_file, nats_url=nats_server.url, directory=tmp_path, is_elected=True) as scene:
            await scene.deployment()
            await scene.hpa(scaled_to_zero="True")
            (tmp_path / "second").mkdir()
            async with autoscaler(
                kubeconfig_file,
                nats_url=nats_server.url,
                directory=tmp_path / "second",
                config=configuration(QUEUE),
                instance="second",
                is_elected=True,
            ) as second:
                assert leadership_of(second) == "standby; leader is test"
                await scene.send()
                await scene.until_replicas(1)
                await scene.until_condition("ScaledToZero", "False NotScaledToZero")
                scene.stopping.set()

                async def leads() -> bool:
                    return leadership_of(second).startswith("leader, epoch ")

                await scene.until(leads, True, what="the standby leads")
                await scene.rescale(0)
                await scene.set_scaled_to_zero("True")
                await scene.until_replicas(1)
                await scene.until_condition("ScaledToZero", "False NotScaledToZero")
                decisions = await scene.decisions()
    woken = [one for one in decisions if isinstance(one.event, Woken)]
    assert [one.event.replicas for one in woken if isinstance(one.event, Woken)] == [1, 1]
    assert woken[0].epoch < woken[1].epoch
