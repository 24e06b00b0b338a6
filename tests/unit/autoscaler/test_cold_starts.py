"""After a wake its cold start is measured: a metric, a trace, a decision, an Event."""

from collections import Counter
from dataclasses import replace

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.contracts.streams import SCALING_STREAM
from services.core.cold_start import Phase, PodStage, took_s
from services.core.scaling import Started, Woken
from services.runtime import telemetry
from tests.unit.autoscaler.waking_scene import Scene

UIDS = ("a", "b", "c")


def value(scene: Scene, name: str, **labels: str) -> float:
    """One sample of the registry."""
    return scene.registry.get_sample_value(f"phalanx_autoscaler_{name}", labels) or 0.0


async def passes(scene: Scene, seconds: float) -> None:
    """Let some time pass."""
    await scene.clock.run_for(seconds)


async def woken(scene: Scene) -> None:
    """Wake three replicas."""
    scene.add()
    await scene.length(25)
    assert scene.api.replicas == {"infer": 3}


async def test_each_phase_is_measured_to_the_first_item() -> None:
    """From the signal on; the decision on the stream has all of it."""
    scene = Scene()
    scene.deliveries.count = 7
    async with scene.running():
        await woken(scene)
        assert scene.pods.watches == ["team-a app=infer"]
        for stage in PodStage:
            scene.pods.see(*UIDS, stage=stage)
            await passes(scene, 1)
        assert value(scene, "cold_starts_total", outcome="complete") == 0
        scene.deliveries.count = 8
        await passes(scene, 1)
    started = scene.told()[-1]
    assert isinstance(started, Started)
    assert not started.missing
    assert set(started.ends_s) == set(Phase) - {Phase.PLACED}
    took = took_s(started.ends_s)
    assert [round(took[phase]) for phase in (Phase.BOUND, Phase.RUNNING, Phase.READY, Phase.FIRST_ITEM)] == [1, 1, 1, 1]
    assert value(scene, "cold_starts_total", outcome="complete") == 1
    for phase in started.ends_s:
        assert value(scene, "cold_start_duration_seconds_count", phase=phase) == 1
        assert abs(value(scene, "cold_start_duration_seconds_sum", phase=phase) - took[phase]) < 1e-6
    assert value(scene, "cold_start_duration_seconds_count", phase="placed") == 0
    assert value(scene, "cold_start_duration_seconds_count", phase="total") == 1
    assert "infer Normal ColdStart: Deployment/infer with 3 replicas: " in scene.api.events[-1]


async def test_placements_are_heard_on_the_bus() -> None:
    """Those of the same namespace."""
    scene = Scene()
    async with scene.running():
        await woken(scene)
        scene.starts.placed("team-b", frozenset(UIDS))
        scene.pods.see(*UIDS, stage=PodStage.CREATED)
        await passes(scene, 1)
        scene.starts.placed("team-a", frozenset(UIDS))
        scene.pods.see(*UIDS, stage=PodStage.READY)
        await passes(scene, 1)
    started = scene.told()[-1]
    assert isinstance(started, Started)
    assert started.ends_s[Phase.PLACED] >= started.ends_s[Phase.PODS_CREATED] + 1


async def test_one_trace_for_each_wake() -> None:
    """Its phases lie one after the other below the wake, and the messages about it carry the trace on."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    scene = Scene(tracer=provider.get_tracer("test"))
    async with scene.running():
        await woken(scene)
        for stage in PodStage:
            await passes(scene, 1)
            scene.pods.see(*UIDS, stage=stage)
        await passes(scene, 1)
    spans = {_phase(span): span for span in exporter.get_finished_spans()}
    root = spans.pop("")
    assert root.name == telemetry.SPAN_WAKE
    assert root.parent is None
    assert list(spans) == [phase for phase in Phase if phase not in {Phase.PLACED, Phase.FIRST_ITEM}]
    at_ns = root.start_time
    for span in spans.values():
        assert span.parent == root.get_span_context()
        assert abs((span.start_time or 0) - (at_ns or 0)) < 1000
        at_ns = span.end_time
    assert at_ns == root.end_time
    trace_id = f"{root.context.trace_id:032x}"
    messages = scene.bus.stored(SCALING_STREAM.name)
    assert [trace_id in message.headers.get("traceparent", "") for message in messages] == [True, True]


def _phase(span: ReadableSpan) -> str:
    return str((span.attributes or {}).get(telemetry.ATTR_PHASE, ""))


async def test_a_target_that_goes_to_sleep_again_is_told_as_incomplete() -> None:
    """It spoils no average."""
    scene = Scene()
    async with scene.running():
        await woken(scene)
        scene.pods.see(*UIDS, stage=PodStage.BOUND)
        scene.pods.see(*UIDS, stage=None)
        await passes(scene, 1)
    started = scene.told()[-1]
    assert isinstance(started, Started)
    assert started.missing == "its pods are gone"
    assert value(scene, "cold_starts_total", outcome="incomplete") == 1
    assert value(scene, "cold_start_duration_seconds_count", phase="total") == 0


async def test_a_start_that_never_ends_is_given_up() -> None:
    """What was seen so far is told, and what is missing."""
    scene = Scene()
    async with scene.running():
        await woken(scene)
        scene.pods.see("a", "b", stage=PodStage.BOUND)
        await passes(scene, 1000)
    started = scene.told()[-1]
    assert isinstance(started, Started)
    assert started.missing == "2 of 3 pods-created, 2 of 3 bound, 0 of 3 running, 0 of 3 ready"


async def test_without_the_right_to_see_pods_the_wake_itself_is_told() -> None:
    """What is missing then is everything about pods."""
    scene = Scene()
    scene.pods.refusal = "pods is forbidden"
    async with scene.running():
        await woken(scene)
    assert [type(one) for one in scene.told()] == [Woken, Started]
    started = scene.told()[-1]
    assert isinstance(started, Started)
    assert set(started.ends_s) == {Phase.DECIDED, Phase.REPLICAS_SET}


async def test_nothing_waits_for_a_measurement() -> None:
    """A second wake of the same target ends the measurement of the first."""
    scene = Scene()
    async with scene.running():
        await woken(scene)
        scene.api.replicas["infer"] = 0
        hpa = next(iter(scene.api.hpas.values()))
        again = replace(hpa, is_scaled_to_zero=True)
        scene.api.hpas[hpa.key] = again
        scene.waker.put(again)
        await scene.settled()
        assert scene.api.replicas == {"infer": 3}
    assert len(scene.pods.watches) == 2
    assert Counter(type(one) for one in scene.told()) == {Woken: 2, Started: 1}
