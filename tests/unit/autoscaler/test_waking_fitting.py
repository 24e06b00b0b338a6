"""Before a target is woken, the placer is asked whether its pods have a place."""

from services.core.fitting import DoesNotFit, Fits, FitUnknown
from services.core.reasons import ReasonCode
from services.core.scaling import Held, ShownCondition, WhenItDoesNotFit, Woken
from tests.fakes.hpas import FakePlacer
from tests.unit.autoscaler.waking_scene import Scene

HOLD = WhenItDoesNotFit.HOLD


async def test_what_fits_is_woken() -> None:
    """The question is about the replicas that are to be."""
    placer = FakePlacer(answer=Fits())
    scene = Scene(placer=placer, when=HOLD)
    scene.add()
    async with scene.running():
        await scene.length(25)
    assert placer.questions == ["Deployment/infer at team-a/infer: 3"]
    assert scene.api.replicas == {"infer": 3}


async def test_what_does_not_fit_is_held_and_woken_once_there_is_room() -> None:
    """Without a further message: it is asked again after a moment. Held is told once."""
    placer = FakePlacer(answer=DoesNotFit(placeable=1))
    scene = Scene(placer=placer, when=HOLD)
    hpa = scene.add()
    async with scene.running():
        await scene.length(25)
        await scene.settled()
        assert scene.api.replicas == {"infer": 0}
        assert scene.api.hpas[hpa.key].is_scaled_to_zero
        assert scene.api.hpas[hpa.key].shown == ShownCondition(status="False", reason="ReplicasDoNotFit")
        assert len(placer.questions) > 2
        placer.answer = Fits()
        await scene.settled()
    assert scene.api.replicas == {"infer": 3}
    assert [type(one) for one in scene.told()] == [Held, Woken]


async def test_the_annotation_of_an_hpa_goes_before_the_configuration() -> None:
    """Pods of which a node autoscaler shall know are made, although others are held."""
    scene = Scene(placer=FakePlacer(answer=DoesNotFit(placeable=1)), when=HOLD)
    scene.add(annotations={"phalanx.dev/when-it-does-not-fit": "create"})
    async with scene.running():
        await scene.length(25)
    assert scene.api.replicas == {"infer": 3}
    (woken,) = scene.told()
    assert isinstance(woken, Woken)
    assert [one.code for one in woken.warnings] == [ReasonCode.REPLICAS_DO_NOT_FIT]
    assert [event.split(":")[0] for event in scene.api.events] == [
        "infer Normal Woken",
        "infer Warning ReplicasDoNotFit",
    ]


async def test_a_placer_that_does_not_answer_holds_nobody() -> None:
    """And that is said."""
    scene = Scene(placer=FakePlacer(answer=FitUnknown(why="is away")), when=HOLD)
    scene.add()
    async with scene.running():
        await scene.length(25)
    assert scene.api.replicas == {"infer": 3}
    assert scene.api.events[1] == (
        "infer Warning FitUnknown: whether 3 replicas of Deployment/infer would fit is unknown: the placer is away"
    )


async def test_without_a_placer_it_is_said_only_where_people_rely_on_one() -> None:
    """An installation without one, and without the wish to hold, is told nothing."""
    for when, events in ((HOLD, 2), (WhenItDoesNotFit.CREATE, 1)):
        scene = Scene(when=when)
        scene.add()
        async with scene.running():
            await scene.length(25)
        assert scene.api.replicas == {"infer": 3}
        assert len(scene.api.events) == events


async def test_a_leader_that_is_followed_while_it_asks_wakes_nobody() -> None:
    """The answer comes too late."""
    scene = Scene(placer=(placer := FakePlacer(answer=Fits())))
    scene.add()
    scene.queues.lengths["infer"] = 25
    scene.api.before_moment = lambda at: scene.leadership.take() if at == 2 else None
    async with scene.running():
        await scene.settled()
    assert placer.questions
    assert scene.api.replicas == {"infer": 0}


async def test_an_hpa_that_is_gone_is_not_asked_about_again() -> None:
    """Nor does the moment of the next look fail."""
    placer = FakePlacer(answer=DoesNotFit(placeable=0))
    scene = Scene(placer=placer, when=HOLD)
    hpa = scene.add()
    async with scene.running():
        await scene.length(25)
        scene.waker.removed(hpa.key)
        asked = len(placer.questions)
        await scene.settled()
    assert len(placer.questions) == asked
