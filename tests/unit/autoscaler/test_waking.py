"""Waking on an API in memory: what is written, in which order, and what happens when something comes between."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from services.core.scaling import Held, Refused, ShownCondition, Woken
from tests.e2e.waiting import until
from tests.unit.autoscaler.waking_scene import Scene


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    """A waker that runs."""
    made = Scene()
    async with made.running():
        await made.settled()
        yield made


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


async def test_hints_do_not_make_one_failure_many(scene: Scene) -> None:
    """The fallback waits for failures an interval apart, however busy the stream is."""
    scene.add(annotations={"phalanx.dev/fallback": "2/3"})
    for _ in range(5):
        await scene.length("is down")
    assert scene.queues.readings > 5
    assert scene.api.writes == []
    for _ in range(2):
        await scene.clock.run_for(3600)
        await scene.length("is down")
    assert scene.api.replicas == {"infer": 2}


async def test_a_number_from_before_its_sleep_wakes_nobody() -> None:
    """What the target had still to do when it ran is done; a new reading, which comes at once, says so."""
    scene = Scene()
    hpa = scene.add(replicas=2, scaled_to_zero="False")
    scene.queues.lengths["infer"] = 5
    async with scene.running():
        await scene.settled()
        await scene.clock.run_for(1)
        scene.queues.lengths["infer"] = 0
        scene.api.replicas["infer"] = 0
        asleep = replace(scene.api.hpas[hpa.key], is_scaled_to_zero=True)
        scene.api.hpas[hpa.key] = asleep
        scene.waker.put(asleep)
        await scene.settled()
        assert scene.api.writes == []
        await scene.length(15)
    assert scene.api.replicas == {"infer": 2}


async def test_a_source_without_hints_is_read_often_while_somebody_sleeps() -> None:
    """Nobody tells when something comes; regular readings are an hour apart here."""
    scene = Scene()
    scene.queues.has_hints = False
    async with scene.running():
        scene.add()
        await scene.settled()
        scene.queues.lengths["infer"] = 25
        await until(lambda: "infer=3" in scene.api.writes, what="it is woken")
