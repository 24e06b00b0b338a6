"""The bound on requests in flight."""

import asyncio

from services.binder.pacing import Pace
from tests.fakes.clock import FakeClock


async def enter_many(pace: Pace, count: int) -> list[asyncio.Task[None]]:
    """Start so many requests that take for ever."""

    async def request() -> None:
        async with pace:
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(request()) for _ in range(count)]
    for _ in range(10):
        await asyncio.sleep(0)
    return tasks


async def end(tasks: list[asyncio.Task[None]]) -> None:
    """End all requests."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_no_more_than_allowed_are_in_flight() -> None:
    """The others wait for a place."""
    pace = Pace(most=3, clock=FakeClock())
    tasks = await enter_many(pace, 5)
    assert pace.in_flight == 3
    await end(tasks)
    assert pace.in_flight == 0


async def test_a_busy_server_halves_the_limit_and_pauses() -> None:
    """Nothing is sent until Retry-After has passed."""
    clock = FakeClock()
    pace = Pace(most=8, clock=clock)
    pace.slow_down(retry_after_s=2)
    assert pace.limit == 4
    tasks = await enter_many(pace, 8)
    assert pace.in_flight == 0
    clock.advance(2)
    await clock.settle()
    assert pace.in_flight == 4
    await end(tasks)


async def test_the_limit_comes_back_with_answers() -> None:
    """One more with each round of answers, never more than allowed."""
    pace = Pace(most=4, clock=FakeClock())
    pace.slow_down(retry_after_s=0)
    pace.slow_down(retry_after_s=0)
    assert pace.limit == 1
    for _ in range(50):
        async with pace:
            pass
    assert pace.limit == 4


async def test_a_silly_retry_after_is_bounded() -> None:
    """An hour is not waited for."""
    clock = FakeClock()
    pace = Pace(most=1, clock=clock)
    pace.slow_down(retry_after_s=3600)
    tasks = await enter_many(pace, 1)
    clock.advance(60)
    await clock.settle()
    assert pace.in_flight == 1
    await end(tasks)


async def test_a_place_is_given_in_order() -> None:
    """Whoever comes later does not slip in before those who wait."""
    pace = Pace(most=1, clock=FakeClock())
    order: list[int] = []

    async def request(number: int) -> None:
        async with pace:
            order.append(number)

    async with pace:
        tasks = [asyncio.create_task(request(number)) for number in range(3)]
        await asyncio.sleep(0)
    tasks.append(asyncio.create_task(request(3)))
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2, 3]
    assert pace.in_flight == 0


async def test_a_place_that_was_given_to_a_cancelled_request_goes_on() -> None:
    """Cancelled in the moment in which it would have begun, it gives the place to the next."""
    pace = Pace(most=1, clock=FakeClock())
    async with pace:
        first, second = await enter_many(pace, 2)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    for _ in range(10):
        await asyncio.sleep(0)
    assert pace.in_flight == 1
    await end([second])
    assert pace.in_flight == 0
