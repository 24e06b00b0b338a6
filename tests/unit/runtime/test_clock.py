"""The fake clock keeps the promises of a real one."""

import asyncio

from services.runtime.clock import Clock, SystemClock
from tests.fakes.clock import FakeClock


def test_both_clocks_are_clocks() -> None:
    """Time of the system is in UTC; both satisfy the protocol."""
    clocks: list[Clock] = [SystemClock(), FakeClock()]

    assert all(str(clock.now().tzinfo) == "UTC" for clock in clocks)
    assert clocks[0].monotonic() <= clocks[0].monotonic()


async def test_sleepers_wake_in_the_order_of_their_deadlines() -> None:
    """A loop that sleeps again inside an advance is woken as often as in real time."""
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def every(seconds: float, *, name: str) -> None:
        while True:
            await clock.sleep(seconds)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(every(2, name="slow")), asyncio.create_task(every(1.5, name="fast"))]
    await clock.settle()
    assert clock.sleeper_count == 2
    await clock.run_for(4)
    for task in tasks:
        task.cancel()

    assert woken == [("fast", 1.5), ("slow", 2.0), ("fast", 3.0), ("slow", 4.0)]
    assert (clock.now() - FakeClock().now()).total_seconds() == 4
