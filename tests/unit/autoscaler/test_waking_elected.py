"""Of several autoscalers one acts; the others know what it knows, and go on where it stopped."""

import pytest

from services.contracts.scaling_codec import decode_scaling
from services.contracts.streams import SCALING_STREAM
from services.core.scaling import Woken
from tests.fakes.leadership import FakeLeadership
from tests.unit.autoscaler.waking_scene import Scene


async def test_a_standby_asks_and_writes_nothing() -> None:
    """It reads its sources, so that it knows them when it leads."""
    scene = Scene(leadership=FakeLeadership(epoch=None))
    scene.add()
    async with scene.running():
        await scene.length(25)
    assert scene.api.lookups == 0
    assert scene.api.replicas == {"infer": 0}
    assert scene.queues.readings


async def test_a_standby_that_comes_to_lead_wakes_what_waits() -> None:
    """Without any further reading; the decision names its epoch."""
    scene = Scene(leadership=FakeLeadership(epoch=None))
    scene.add()
    async with scene.running():
        await scene.length(25)
        scene.leadership.give(7)
        await scene.settled()
    assert scene.api.replicas == {"infer": 3}
    (message,) = scene.bus.stored(SCALING_STREAM.name)
    decision = decode_scaling(message.data)
    assert isinstance(decision.event, Woken)
    assert decision.epoch == 7


@pytest.mark.parametrize("moment", [1, 2])
async def test_a_leader_that_is_followed_by_another_wakes_nobody_any_more(moment: int) -> None:
    """Whichever answer it waits for when its leadership ends, it writes nothing after that."""
    scene = Scene()
    scene.add()
    scene.queues.lengths["infer"] = 25

    def taken(at: int) -> None:
        if at == moment:
            scene.leadership.take()

    scene.api.before_moment = taken
    async with scene.running():
        await scene.settled()
    assert scene.api.replicas == {"infer": 0}


async def test_a_standby_that_leads_again_does_not_trust_what_it_saw_before() -> None:
    """While another led, a person scaled to zero and the condition was cleared."""
    scene = Scene()
    hpa = scene.add(replicas=2, scaled_to_zero="False")
    async with scene.running():
        await scene.settled()
        scene.leadership.take()
        await scene.settled()
        scene.api.replicas["infer"] = 0
        scene.leadership.give(9)
        await scene.length(25)
    assert scene.api.replicas == {"infer": 0}
    assert not scene.api.hpas[hpa.key].is_armed
