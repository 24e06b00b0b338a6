"""Killed at every moment of a wake: the target is awake in the end, and a person's next zero counts."""

from dataclasses import replace

from tests.unit.autoscaler.waking_scene import Scene

ENOUGH = 40
"""More moments than a wake has."""


async def test_a_successor_finishes_every_wake() -> None:
    """The first autoscaler hears nothing any more from some moment on, and dies; the second is given what is live."""
    moments = 0
    for strike_at in range(1, ENOUGH):
        first = Scene()
        first.api.strike_at = strike_at
        hpa = first.add()
        first.queues.lengths["infer"] = 25
        async with first.running():
            await first.settled()
        was_struck = first.api.struck.is_set()
        moments += was_struck
        second = Scene(api=first.api, bus=first.bus)
        second.queues.lengths["infer"] = 25
        live = first.api.hpas[hpa.key]
        second.waker.put(live)
        async with second.running():
            await second.settled()
        assert second.api.replicas == {"infer": 3}, f"struck at {strike_at}"
        assert not second.api.hpas[hpa.key].is_scaled_to_zero, f"struck at {strike_at}"
        if not was_struck:
            break
    assert moments >= 7, "replicas and condition are struck before and after their effect"


async def test_a_zero_that_a_person_sets_after_the_death_of_an_autoscaler_counts_once_it_is_seen() -> None:
    """Replicas were set and the condition was not: the successor clears it while the target runs."""
    for strike_at in range(1, ENOUGH):
        first = Scene()
        first.api.strike_at = strike_at
        hpa = first.add()
        first.queues.lengths["infer"] = 25
        async with first.running():
            await first.settled()
        if first.api.replicas["infer"]:
            break
    assert first.api.hpas[hpa.key].is_scaled_to_zero
    second = Scene(api=first.api, bus=first.bus)
    second.queues.lengths["infer"] = 25
    second.waker.put(first.api.hpas[hpa.key])
    async with second.running():
        await second.settled()
        second.api.replicas["infer"] = 0
        second.waker.put(replace(second.api.hpas[hpa.key], warnings=()))
        await second.length(50)
    assert second.api.replicas == {"infer": 0}
