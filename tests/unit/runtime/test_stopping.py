"""Work that a stop need not wait for."""

import asyncio
import contextlib

import pytest

from services.runtime.stopping import unless_stopped


async def test_work_that_ends_first_is_returned() -> None:
    """Without a stop, the work's own result counts."""

    async def work() -> int:
        return 7

    assert await unless_stopped(work(), stopping=asyncio.Event()) == 7


async def test_a_stop_cancels_the_work() -> None:
    """A stop ends work that waits for something that may never come."""
    stopping, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        stopping.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()
        return "done"

    assert await unless_stopped(work(), stopping=stopping) is None
    assert cancelled.is_set()


async def test_work_that_swallows_a_cancellation_is_cancelled_again() -> None:
    """A library that loses the first cancellation does not keep the process alive."""
    stopping = asyncio.Event()

    async def work() -> str:
        stopping.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()
        await asyncio.get_running_loop().create_future()
        return "done"

    async with asyncio.timeout(10):
        assert await unless_stopped(work(), stopping=stopping) is None


async def test_a_failure_of_the_work_is_raised() -> None:
    """Errors are not taken for a stop."""

    async def work() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await unless_stopped(work(), stopping=asyncio.Event())
