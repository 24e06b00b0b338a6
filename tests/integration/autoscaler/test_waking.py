"""Waking with a real NATS server, against the sandbox: what messages do to sleeping Deployments."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from nats.js.api import ConsumerConfig, StreamSource

from services.core.scaling import Held, Refused, Woken
from services.runtime.embedded_nats import EmbeddedNats
from services.sandbox import kubeconfig
from services.sandbox.app import running
from services.sandbox.cluster import ClusterSettings
from tests.hpas import external
from tests.integration.autoscaler.waking_scene import Scene, configuration, staged

pytest_plugins = ("tests.nats_server",)

WAKING = "phalanx.dev/Waking"


@pytest.fixture
async def scene(nats_server: EmbeddedNats, tmp_path: Path) -> AsyncIterator[Scene]:
    """An autoscaler that knows two queues, on an empty cluster."""
    file = tmp_path / "kubeconfig"
    async with running(ClusterSettings(nodes=0)) as sandbox:
        kubeconfig.write(file, url=sandbox.url)
        config = configuration("infer", "other")
        async with staged(file, nats_url=nats_server.url, directory=tmp_path, config=config) as made:
            yield made


async def asleep(scene: Scene, name: str = "infer", *, queue: str = "infer") -> None:
    """A Deployment that its HPA put to sleep, and that the autoscaler has looked at."""
    await scene.deployment(name)
    await scene.hpa(name, queue=queue, scaled_to_zero="True")


async def test_one_message_wakes(scene: Scene) -> None:
    """Replicas, condition, Event and message; nothing is made on the user's stream."""
    await asleep(scene)
    await scene.send()
    await scene.until_replicas(1)
    await scene.until_condition("ScaledToZero", "False NotScaledToZero")
    await scene.until(scene.events, ["Normal Woken infer"], what="events")
    (decision,) = await scene.decisions()
    assert (decision.namespace, decision.hpa) == ("team-a", "infer")
    assert decision.event == Woken(replicas=1, why="queue_depth{queue=infer} is 1")
    assert (await scene.jetstream.stream_info("ORDERS")).state.consumer_count == 1
    assert scene.registry.get_sample_value("phalanx_autoscaler_wake_duration_seconds_count") == 1


async def test_a_backlog_wakes_to_its_length_in_one_step(scene: Scene) -> None:
    """What came before anybody slept counts as much as what comes then."""
    await scene.send(35)
    await asleep(scene)
    await scene.until_replicas(4)


async def test_a_persons_zero_stays(scene: Scene) -> None:
    """Beside it, another HPA of the same queue is woken: so the message was seen."""
    await scene.deployment("paused")
    await scene.hpa("paused")
    await scene.deployment("annotated")
    await scene.hpa("annotated", annotations={"phalanx.dev/wake": "true"})
    await scene.send()
    await scene.until_replicas(1, name="annotated")
    assert await scene.replicas("paused") == 0
    assert await scene.condition(WAKING, name="paused") == ""


async def test_a_zero_after_a_wake_is_a_persons(scene: Scene) -> None:
    """The condition was written False when it was woken, so that the queue no longer wakes it."""
    await asleep(scene)
    await scene.send()
    await scene.until_condition("ScaledToZero", "False NotScaledToZero")
    await scene.rescale(0)
    await scene.deployment("witness")
    await scene.hpa("witness", scaled_to_zero="True")
    await scene.send(10)
    await scene.until_replicas(1, name="witness")
    assert await scene.replicas() == 0


async def test_the_relic_of_a_sleep_is_cleared(scene: Scene) -> None:
    """A target that runs has no condition left that would override a person's next zero."""
    await scene.deployment(replicas=2)
    await scene.hpa(scaled_to_zero="True")
    await scene.until_condition("ScaledToZero", "False NotScaledToZero")
    assert await scene.replicas() == 2


async def test_unacknowledged_messages_are_work(scene: Scene) -> None:
    """The last message was taken by a worker that is gone: somebody has to be there when it comes again."""
    await scene.send()
    subscription = await scene.jetstream.pull_subscribe_bind(stream="ORDERS", consumer="infer")
    assert len(await subscription.fetch(1, timeout=5)) == 1
    await asleep(scene)
    await scene.until_replicas(1)


async def test_a_missing_consumer_is_unknown_and_never_made(scene: Scene) -> None:
    """It is told with what to do, and woken by as soon as it is there."""
    await asleep(scene, "other", queue="other")
    await scene.until_condition(WAKING, "Unknown MetricUnknown", name="other")
    (held,) = await scene.decisions()
    assert isinstance(held.event, Held)
    assert "does not exist (consumer other of stream ORDERS); create it" in held.event.reasons[0].message
    assert (await scene.jetstream.stream_info("ORDERS")).state.consumer_count == 1
    assert await scene.events() == ["Warning MetricUnknown other"]


async def test_two_hpas_on_one_target_are_told(scene: Scene) -> None:
    """Neither wakes it."""
    await scene.deployment()
    await scene.hpa("a", target="infer", scaled_to_zero="True")
    await scene.hpa("b", target="infer", scaled_to_zero="True")
    for name in ("a", "b"):
        await scene.until_condition(WAKING, "False TargetShared", name=name)
    await scene.send()
    assert all(isinstance(one.event, Refused) for one in await scene.decisions())
    assert await scene.replicas() == 0


async def test_targets_that_cannot_be_scaled_are_told(scene: Scene) -> None:
    """One has no scale, the other does not exist."""
    await scene.hpa("lone", kind="Pod", api_version="v1", scaled_to_zero="True")
    await scene.hpa("gone", scaled_to_zero="True")
    await scene.until_condition(WAKING, "False TargetNotScalable", name="lone")
    await scene.until_condition(WAKING, "False TargetNotFound", name="gone")


async def test_a_message_during_an_outage_of_the_bus_wakes_after_it(scene: Scene, nats_server: EmbeddedNats) -> None:
    """The hint came while nobody listened: after the connection is back, everything is read."""
    await asleep(scene)
    await scene.until_condition("ScaledToZero", "True ScaledToZero")
    await nats_server.kill()
    await nats_server.start()
    await scene.until(lambda: _sent(scene), True, what="a message was stored")
    await scene.until_replicas(1)


async def _sent(scene: Scene) -> bool:
    try:
        await scene.send()
    except Exception:  # noqa: BLE001 - the server is not back yet, in one of many ways
        return False
    return True


async def test_sources_come_and_go_with_the_configuration(scene: Scene, tmp_path: Path) -> None:
    """A metric that is no longer configured wakes nobody, and one that is added does."""
    await asleep(scene, "other", queue="other")
    await scene.queue("other")
    (tmp_path / "phalanx.yaml").write_text(configuration("infer"))
    followed = "phalanx_autoscaler_followed_hpas"

    async def count() -> object:
        return scene.registry.get_sample_value(followed)

    await scene.until(count, 0, what=followed)
    await scene.send(queue="other")
    (tmp_path / "phalanx.yaml").write_text(configuration("infer", "other"))
    await scene.until_replicas(1, name="other")


async def test_what_gives_no_hint_is_read_regularly(nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """A mirror has no subjects that anybody could listen to: its messages are found by reading."""
    config = yaml.safe_dump(
        {"metricSources": [{"metric": "queue_depth", "jetstream": {"stream": "MIRROR", "consumer": "infer"}}]}
    )
    file = tmp_path / "kubeconfig"
    async with running(ClusterSettings(nodes=0)) as sandbox:
        kubeconfig.write(file, url=sandbox.url)
        async with staged(file, nats_url=nats_server.url, directory=tmp_path, config=config, interval_s=0.2) as scene:
            await scene.jetstream.add_stream(name="MIRROR", mirror=StreamSource(name="ORDERS"))
            await scene.jetstream.add_consumer("MIRROR", ConsumerConfig(durable_name="infer"))
            await scene.deployment()
            await scene.hpa(metrics=(external(),), scaled_to_zero="True")
            await scene.send(queue="elsewhere")
            await scene.until_replicas(1)
