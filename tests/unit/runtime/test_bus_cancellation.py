"""A task that is cancelled once, in the middle of a request on the bus, ends."""

import asyncio
import contextlib

import pytest
from nats.js import JetStreamContext

from services.runtime.bus import Bus
from services.runtime.health import Readiness


def connected_bus() -> Bus:
    """A bus that thinks it is connected; nothing is sent."""
    bus = Bus(url="nats://127.0.0.1:1", name="test", readiness=Readiness())
    bus._context = JetStreamContext(bus._client)
    bus._connected.set()
    return bus


@pytest.mark.parametrize("is_swallowed", [True, False])
async def test_a_cancellation_that_the_library_swallowed_is_raised(*, is_swallowed: bool) -> None:
    """Whether the wait inside the request lets it through or not, nothing after the request is done."""
    bus, began, went_on = connected_bus(), asyncio.Event(), asyncio.Event()

    async def request() -> None:
        async with bus._request():
            began.set()
            with contextlib.suppress(asyncio.CancelledError) if is_swallowed else contextlib.nullcontext():
                await asyncio.Event().wait()
        went_on.set()

    task = asyncio.create_task(request())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not went_on.is_set()


async def test_a_cleanup_after_a_cancellation_may_use_the_bus() -> None:
    """Only what came during the request counts: whoever was cancelled before can still give up what it holds."""
    bus, began, released = connected_bus(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            async with bus._request():
                pass
            released.set()

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert released.is_set()
