"""The same step for many members at once, each repeated until its answer is definite.

A burst of a thousand bindings is the hot path of the binder: what is spent on each member beside its request is spent a
thousand times while the API server waits for the next one. So a few workers take members off one list, and only a
member whose first try was not definite gets a task and a patient repetition of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

from tenacity import AsyncRetrying, retry_if_result, wait_random_exponential

from services.runtime.clock import Clock

SHORTEST_S, LONGEST_S = 0.05, 2.0
"""Waits between two tries of one member."""

WORKERS = 16
"""Members of one burst that are tried at once; the adapter's pace bounds the requests of all bursts together."""

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
K_co = TypeVar("K_co", bound=Hashable, covariant=True)


class Keyed(Protocol[K_co]):
    """What a step is taken for: a member or a claim."""

    @property
    def key(self) -> K_co:
        """What tells it from the others."""


Step = Callable[[], Awaitable[T | None]]
"""One try; None where the answer was not definite."""


async def each(
    targets: Sequence[Keyed[K]], steps: Callable[[Any], Step[T]], *, clock: Clock, workers: int = WORKERS
) -> dict[K, T]:
    """Take the step for every member and return the definite answers, in the order of the members."""
    answers: dict[K, T] = {}
    waiting = iter(targets)

    async def repeat(step: Step[T], target: Keyed[K]) -> None:
        answers[target.key] = await _until_definite(step, clock=clock)

    async def work() -> None:
        for target in waiting:
            step = steps(target)
            answer = await step()
            if answer is None:
                # Not here: whoever waits must not keep others from their first try.
                group.create_task(repeat(step, target))
            else:
                answers[target.key] = answer

    async with asyncio.TaskGroup() as group:
        for _ in range(min(workers, len(targets))):
            group.create_task(work())
    return {target.key: answers[target.key] for target in targets}


async def _until_definite(step: Step[T], *, clock: Clock) -> T:
    """Repeat a step that was tried once, after a wait, until it has an answer."""
    is_first = True

    async def again() -> T | None:
        nonlocal is_first
        if is_first:
            is_first = False
            return None
        return await step()

    patient = AsyncRetrying(
        retry=retry_if_result(lambda answer: answer is None),
        wait=wait_random_exponential(multiplier=SHORTEST_S, max=LONGEST_S),
        sleep=clock.sleep,
    )
    answer: T | None = await patient(again)
    if answer is None:
        raise AssertionError("retried for ever, and yet ended")
    return answer
