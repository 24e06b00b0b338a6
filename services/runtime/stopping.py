"""Work that a stop need not wait for."""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Iterator
from typing import Any, TypeVar

CANCEL_AGAIN_S = 0.5

T = TypeVar("T")


async def unless_stopped(work: Coroutine[Any, Any, T], *, stopping: asyncio.Event) -> T | None:
    """Return what the work returns, or None where the process is asked to stop first: then the work is cancelled."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        waiting.cancel()
        # More than once: before Python 3.12, a wait inside a library may swallow a cancellation.
        while not working.done():
            working.cancel()
            await asyncio.wait({working}, timeout=CANCEL_AGAIN_S)


def end_if_cancelled() -> None:
    """Raise CancelledError where this task was asked to end, and a wait inside a library swallowed that.

    For loops of tasks that are cancelled only once, as those of a TaskGroup are.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


@contextlib.contextmanager
def heeding_cancellation() -> Iterator[None]:
    """Raise CancelledError after the block where this task was asked to end within it, and the block swallowed that.

    Before Python 3.12 a wait inside a library swallows a cancellation that comes together with its answer. What was
    asked before the block does not count: a cleanup may do what it has to.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


async def cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel until all have ended: before Python 3.12, a wait inside a library may swallow a cancellation."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
