"""Waiting for what can be observed, with a deadline: the only way in which end-to-end tests let time pass."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

DEADLINE_S = 30.0
POLL_S = 0.02

T = TypeVar("T")


async def eventually(probe: Callable[[], Awaitable[T | None]], *, what: str, timeout_s: float = DEADLINE_S) -> T:
    """Return the first true answer of the probe. Raises AssertionError that says what was waited for, and last seen."""
    answer: T | None = None
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                answer = await probe()
                if answer:
                    return answer
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s:g} s: {what}; last answer {answer!r}") from None


async def until(condition: Callable[[], object], *, what: str, timeout_s: float = DEADLINE_S) -> None:
    """Wait until something in this process is true."""

    async def probe() -> object:
        return condition()

    await eventually(probe, what=what, timeout_s=timeout_s)
