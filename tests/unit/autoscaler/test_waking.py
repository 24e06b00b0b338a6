"""Waking on an API in memory: what is written, in which order, and what happens when something comes between."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from services.autoscaler.metrics import WakingMetrics
from services.autoscaler.sources import SourceBook
from services.autoscaler.telling import Teller
from services.autoscaler.waking import Waker
from services.contracts.scaling_codec import decode_scaling
from services.contracts.streams import SCALING_STREAM
from services.core.metric_readings import MetricKey
from services.core.policy import JetStreamSource, MetricSource
from services.core.reduce_autoscaler import reduce_autoscaler
from services.core.scaling import Autoscaler, Held, Refused, ScalingEvent, ShownCondition, Woken
from tests.builders import START
from tests.fakes.bus import FakeBus
from tests.fakes.clock import FakeClock
from tests.fakes.hpas import FakeHpas, FakeQueues
from tests.hpas import hpa_manifest

SOURCE = MetricSource(metric="queue_depth", jetstream=JetStreamSource(stream="S", consumer="infer"))


class Scene:
    """A waker with one source, on fakes."""

    def __init__(self) -> None:
        """Put it together as `services.autoscaler.app` does."""
        self.clock = FakeClock(start=START)
        self.api, self.bus = FakeHpas(), FakeBus()
        self.queues = FakeQueues(clock=self.clock, lengths={"infer": 0})
        self.registry = CollectorRegistry()
        metrics = WakingMetrics(self.registry)
        book = SourceBook(
            [SOURCE],
            queues=self.queues,
            clock=self.clock,
            metrics=metrics,
            interval_s=3600,
            changed=self.read,
        )
        teller = Teller(self.api, stream=self.bus, instance="test", metrics=metrics, clock=self.clock)
        self.waker = Waker(self.api, sources=book, teller=teller, metrics=metrics, clock=self.clock)
        self.book = book

    def read(self, metric: MetricKey) -> None:
        """A source was read."""
        self.waker.metric_changed(metric)

    def add(self, name: str = "infer", *, replicas: int = 0, **given: Any) -> Autoscaler:
        """An HPA that is asleep by itself, live and as the watch tells it."""
        manifest = hpa_manifest(name, target=given.pop("target", name), **({"scaled_to_zero": "True"} | given))
        hpa = replace(reduce_autoscaler(manifest), uid=f"uid-{name}", resource_version="1")
        self.api.hpas[hpa.key] = hpa
        self.api.replicas.setdefault(hpa.target.name, replicas)
        self.waker.put(hpa)
        return hpa

    async def length(self, value: float | str) -> None:
        """The queue has another length, and whoever listens is hinted."""
        self.queues.lengths["infer"] = value
        await self.settled()
        if "infer" in self.queues.hints:
            self.queues.hints["infer"]()
        await self.settled()

    async def settled(self) -> None:
        """Let everything run that can, with the pauses of repetitions over."""
        for _ in range(3):
            await self.clock.run_for(10)

    def told(self) -> list[ScalingEvent]:
        """What was published."""
        return [decode_scaling(message.data).event for message in self.bus.stored(SCALING_STREAM.name)]


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A waker that runs."""
    made = Scene()
    tasks = [asyncio.create_task(made.waker.run()), asyncio.create_task(made.book.run())]
    await made.settled()
    yield made
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_message_wakes_in_one_step(scene: Scene) -> None:
    """Replicas first, the condition right after, then it is told."""
    scene.add()
    await scene.length(25)
    assert scene.api.writes == ["infer=3", "infer:ScaledToZero=False"]
    assert scene.told() == [Woken(replicas=3, why="queue_depth is 25")]
    assert scene.api.events == ["infer Normal Woken: Deployment/infer from 0 to 3 replicas: queue_depth is 25"]
    assert not scene.queues.hints


async def test_an_empty_queue_leaves_it_asleep_and_asks_for_little(scene: Scene) -> None:
    """Once it is known to sleep, only its queue is read."""
    scene.add()
    await scene.settled()
    lookups = scene.api.lookups
    await scene.length(0)
    await scene.length(0)
    assert scene.api.writes == []
    assert scene.api.lookups == lookups
    assert scene.queues.hints


@pytest.mark.parametrize("condition", ["", "False"])
async def test_a_persons_zero_is_not_even_listened_for(scene: Scene, condition: str) -> None:
    """Nothing that comes would wake it."""
    scene.add(scaled_to_zero=condition)
    await scene.length(50)
    assert scene.api.writes == []
    assert not scene.queues.hints


async def test_a_watch_that_lags_wakes_nobody(scene: Scene) -> None:
    """The condition was True when the watch spoke last; by now a person has scaled to zero."""
    hpa = scene.add()
    scene.api.hpas[hpa.key] = replace(hpa, is_scaled_to_zero=False, resource_version="2")
    await scene.length(50)
    assert scene.api.writes == []


async def test_a_target_that_is_scaled_meanwhile_is_looked_at_again(scene: Scene) -> None:
    """The write is on the version that was read: somebody's four replicas stay four."""

    def somebody(name: str) -> None:
        scene.api.replicas[name] = 4
        scene.api.before_scaling = lambda _name: None

    scene.api.before_scaling = somebody
    scene.add()
    await scene.length(25)
    assert scene.api.replicas == {"infer": 4}
    assert scene.api.writes == ["infer:ScaledToZero=False"]
    assert scene.told() == []


async def test_a_lost_answer_is_found_out(scene: Scene) -> None:
    """The replicas were set, the answer was lost: it is told as a wake, once, and the condition is cleared."""
    scene.api.lost_answers = 1
    scene.add()
    await scene.length(25)
    assert scene.api.writes == ["infer=3", "infer:ScaledToZero=False"]
    assert scene.told() == [Woken(replicas=3, why="queue_depth is 25")]


async def test_an_outage_delays_and_loses_nothing(scene: Scene) -> None:
    """Every request is asked again."""
    scene.add()
    await scene.settled()
    scene.api.outages = 6
    await scene.length(25)
    assert scene.api.replicas == {"infer": 3}
    assert len(scene.told()) == 1


async def test_the_relic_of_a_sleep_is_cleared(scene: Scene) -> None:
    """Somebody scaled it up by hand: left True, the condition would override a later zero."""
    scene.add(replicas=2)
    await scene.settled()
    assert scene.api.writes == ["infer:ScaledToZero=False"]
    await scene.length(99)
    assert scene.api.replicas == {"infer": 2}


async def test_unknown_is_told_once_and_taken_back(scene: Scene) -> None:
    """As an Event, a condition and a message; the next good reading ends it."""
    hpa = scene.add()
    await scene.length("is down")
    await scene.length("is down")
    (held,) = scene.told()
    assert isinstance(held, Held)
    assert scene.api.hpas[hpa.key].shown == ShownCondition(status="Unknown", reason="MetricUnknown")
    assert scene.api.writes == []
    await scene.length(0)
    assert scene.api.hpas[hpa.key].shown == ShownCondition(status="True", reason="Ready")
    assert [event.split(":")[0] for event in scene.api.events] == ["infer Warning MetricUnknown", "infer Normal Ready"]


async def test_what_the_condition_says_already_is_not_told_again(scene: Scene) -> None:
    """A restart repeats nothing."""
    scene.add("first")
    await scene.length("is down")
    second = replace(scene.api.hpas["team-a/first"], name="second", uid="2")
    scene.api.hpas[second.key] = second
    scene.waker.removed("team-a/first")
    scene.waker.put(second)
    await scene.settled()
    assert len(scene.told()) == 1
    assert [event.split(" ")[0] for event in scene.api.events] == ["first"]


async def test_two_hpas_on_one_target_wake_nobody_until_one_is_left(scene: Scene) -> None:
    """Both are told, and the remaining one wakes at once."""
    scene.add("a", target="infer")
    scene.add("b", target="infer")
    await scene.length(25)
    assert scene.api.writes == []
    assert [type(one) for one in scene.told()] == [Refused, Refused]
    scene.waker.removed("team-a/b")
    await scene.settled()
    assert scene.api.replicas == {"infer": 3}


async def test_what_a_list_does_not_find_is_forgotten(scene: Scene) -> None:
    """It was deleted while nobody watched."""
    scene.add("a")
    b = scene.add("b")
    scene.waker.replaced([b])
    await scene.length(5)
    assert scene.api.replicas == {"a": 0, "b": 1}
    assert scene.registry.get_sample_value("phalanx_autoscaler_followed_hpas") == 1


async def test_an_annotated_target_is_always_looked_at(scene: Scene) -> None:
    """Its HPA need not change when somebody scales it to zero."""
    scene.add(scaled_to_zero="", annotations={"phalanx.dev/wake": "true"}, replicas=1)
    await scene.length(10)
    assert scene.api.writes == []
    scene.api.replicas["infer"] = 0
    scene.waker.metric_changed(next(iter(scene.book.states)))
    await scene.settled()
    assert scene.api.writes == ["infer=1"]


async def test_a_bus_that_is_away_delays_only_what_is_told(scene: Scene) -> None:
    """The replicas are there at once."""
    scene.bus.refuse_publishes(3)
    scene.add()
    await scene.length(25)
    assert scene.api.replicas == {"infer": 3}
    assert len(scene.told()) == 1
