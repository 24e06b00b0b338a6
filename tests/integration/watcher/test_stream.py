"""The stream stays equal to the cluster, whatever happens to the watcher, to NATS, and beside them."""

import functools
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.contracts.cloudevents import EventAttributes, headers
from services.contracts.cluster_codec import encode_change
from services.contracts.streams import CLUSTER_STREAM
from services.core.objects import EPOCH_START, Applied, Deleted, Kind
from services.core.reduce import reduce
from services.runtime.embedded_nats import EmbeddedNats
from tests.builders import NAMESPACE, node_manifest, pod_manifest
from tests.integration.watcher.harness import Scene, read_stream, stream_objects, until, watcher


async def test_a_restarted_watcher_publishes_differences_only(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """What was created, changed and deleted while it was down, and nothing else."""
    scene.put("pods", pod_manifest("stays"))
    scene.put("pods", pod_manifest("goes"))
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as first:
        await scene.equal()
        await first.stop()
    before = len(scene.reader.writes(Kind.POD)), len(scene.reader.writes(Kind.NODE))
    scene.delete("pods", "goes", namespace=NAMESPACE)
    scene.put("pods", pod_manifest("comes"))
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path):
        await scene.synced(Kind.POD, times=2)
        await scene.synced(Kind.NODE, times=2)
        await scene.equal()
    changes = scene.reader.writes(Kind.POD)[before[0] :]
    assert sorted((type(change).__name__, change.metadata.name) for change in changes) == [
        ("Applied", "comes"),
        ("Deleted", "goes"),
    ]
    assert len(scene.reader.writes(Kind.NODE)) == before[1]


async def test_a_watcher_killed_in_the_middle_is_replaced(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """Half of a first list is published; the next watcher publishes the rest."""
    for number in range(800):
        scene.put("pods", pod_manifest(f"p-{number}"))
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as first:
        await until(lambda: len(scene.reader.writes(Kind.POD)) > 50, what="some pods are published")
        await first.kill()
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path):
        await scene.equal()


async def test_changes_during_an_outage_of_nats_are_published_after_it(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """Readiness says what is waited for; newer versions coalesce; nothing is lost, also of what a crash lost."""
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
        await scene.equal()
        for number in range(100):
            scene.put("pods", pod_manifest(f"p-{number}"))
        await until(lambda: len(scene.reader.writes(Kind.POD)) > 10, what="some pods are published")
        await nats_server.kill()
        await until(lambda: not running.readiness.is_ready, what="the outage is noticed")
        for number in range(100):
            scene.put("pods", pod_manifest(f"p-{number}", labels={"round": "2"}))
        scene.delete("nodes", "node-001")
        await nats_server.start()
        await scene.equal()
        await until(lambda: running.readiness.is_ready, what="ready again")


async def test_a_deleted_stream_is_filled_again(scene: Scene, nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """An operator may delete the stream at any time."""
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path):
        await scene.equal()
        before = stream_objects(scene.reader)
        await scene.bus._jetstream.delete_stream(CLUSTER_STREAM.name)
        scene.reader.current.clear()
        await scene.equal()
        assert stream_objects(await read_stream(scene.bus)) == before


async def test_two_watchers_may_run(scene: Scene, nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """Neither replaces a newer version of the other by an older one, and both end equal to the cluster."""
    beginning = functools.partial(watcher, nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path)
    async with beginning(name="one"), beginning(name="two"):
        await scene.equal()
        for turn in range(20):
            for number in range(10):
                scene.put("pods", pod_manifest(f"p-{number}", labels={"turn": str(turn)}))
            if turn % 5 == 0:
                scene.delete("pods", "p-0", namespace=NAMESPACE)
            scene.sandbox.watches.break_open(["pods"])
        await scene.equal()
    versions: dict[str, int] = {}
    for change in scene.reader.writes(Kind.POD):
        version = int(change.metadata.resource_version)
        assert version >= versions.get(change.metadata.name, 0)
        versions[change.metadata.name] = version


async def test_an_outdated_write_of_somebody_else_is_put_right(
    scene: Scene, nats_server: EmbeddedNats, tmp_path: Path
) -> None:
    """As the last write of a watcher that is no more, which arrives after the new one has listed."""
    async with watcher(nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path) as running:
        await scene.equal()
        ghost = reduce(
            Kind.NODE, node_manifest("ghost") | {"metadata": {"name": "ghost", "uid": "u", "resourceVersion": "1"}}
        )
        attributes = EventAttributes(id="u/1", source="/test", type="t", subject="s", time=EPOCH_START)
        subject = "phalanx.cluster.v1.node._.ghost"
        await scene.bus.publish(subject, data=encode_change(Applied(object=ghost)), headers=headers(attributes))
        await until(lambda: isinstance(scene.reader.current.get(subject), Deleted), what="the ghost is buried")
        await scene.equal()
        assert running.metric("phalanx_watcher_relists_total", kind="node", reason="outdated_write") == 1


async def test_a_change_carries_the_trace_of_its_event(scene: Scene, nats_server: EmbeddedNats, tmp_path: Path) -> None:
    """A traced watcher puts the context of its span into the message; lists are not traced."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with watcher(
        nats_url=nats_server.url, api_url=scene.sandbox.url, directory=tmp_path, tracer=provider.get_tracer("test")
    ):
        await scene.equal()
        assert exporter.get_finished_spans() == ()
        scene.put("pods", pod_manifest("w-0"))
        await scene.equal()
        await until(lambda: bool(exporter.get_finished_spans()), what="the span has ended")
    (span,) = exporter.get_finished_spans()
    assert span.name == "watch.event"
    traceparent = scene.reader.headers[f"phalanx.cluster.v1.pod.{NAMESPACE}.w-0"]["traceparent"]
    context = span.get_span_context()
    assert context is not None
    assert traceparent.startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}-")
