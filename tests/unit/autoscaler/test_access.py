"""Answers about rights are kept for a while, and not for ever; no answer is no right."""

import pytest

from services.autoscaler import access as limits
from services.autoscaler.access import ALLOWED_S, DENIED_S, AccessDesk, MetricAccess
from services.autoscaler.ports import ApiFailed
from services.core.front_proxy import Requester
from tests.fakes.aggregation import FakeAggregation
from tests.fakes.clock import FakeClock


def wish(user: str = "hpa", metric: str = "m") -> MetricAccess:
    """Somebody wants to read a metric."""
    return MetricAccess(requester=Requester(user=user), namespace="team-a", metric=metric)


async def test_an_answer_is_kept_until_its_time_is_over() -> None:
    """A right that is taken away ends then."""
    api, clock = FakeAggregation(allowed={("hpa", "team-a", "m")}), FakeClock()
    desk = AccessDesk(api, clock=clock)
    assert await desk.is_allowed(wish())
    api.allowed.clear()
    clock.advance(ALLOWED_S - 1)
    assert await desk.is_allowed(wish())
    clock.advance(2)
    assert not await desk.is_allowed(wish())
    assert api.reviews == 2


async def test_a_right_that_is_given_is_soon_seen() -> None:
    """A refusal is kept for a shorter time."""
    api, clock = FakeAggregation(), FakeClock()
    desk = AccessDesk(api, clock=clock)
    assert not await desk.is_allowed(wish())
    api.allowed.add(("hpa", "team-a", "m"))
    assert not await desk.is_allowed(wish())
    clock.advance(DENIED_S)
    assert await desk.is_allowed(wish())


async def test_everything_about_who_asks_counts() -> None:
    """One user's right is not another's, nor one metric's another's."""
    desk = AccessDesk(FakeAggregation(allowed={("hpa", "team-a", "m")}), clock=FakeClock())
    assert await desk.is_allowed(wish())
    assert not await desk.is_allowed(wish(user="other"))
    assert not await desk.is_allowed(wish(metric="n"))


async def test_no_answer_is_no_right_and_is_not_kept() -> None:
    """It is asked again."""
    api = FakeAggregation(allowed={("hpa", "team-a", "m")}, is_away=True)
    desk = AccessDesk(api, clock=FakeClock())
    with pytest.raises(ApiFailed):
        await desk.is_allowed(wish())
    api.is_away = False
    assert await desk.is_allowed(wish())


async def test_only_so_many_answers_are_kept() -> None:
    """The oldest are asked for again."""
    api = FakeAggregation()
    desk = AccessDesk(api, clock=FakeClock())
    for number in range(limits.MAX_ANSWERS + 1):
        await desk.is_allowed(wish(metric=f"m{number}"))
    assert len(desk._answers) == limits.MAX_ANSWERS
    await desk.is_allowed(wish(metric="m0"))
    assert api.reviews == limits.MAX_ANSWERS + 2
