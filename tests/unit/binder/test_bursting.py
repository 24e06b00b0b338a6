"""The same step for many members at once."""

import asyncio
from collections import Counter

from services.binder.bursting import LONGEST_S, each
from services.core.objects import NodeName, Uid
from services.core.transaction_values import Target
from tests.fakes.clock import FakeClock

WORKERS = 2


def targets(count: int) -> list[Target]:
    """So many members."""
    return [Target(pod=f"w-{index}", uid=Uid(f"u-{index}"), node=NodeName("n1"), version="1") for index in range(count)]


class Steps:
    """Steps of which the first tries of some members are not definite; counts tries, and how many are at work."""

    def __init__(self, *, hard: set[str] | None = None) -> None:
        self.hard = hard or set()
        self.tries: Counter[str] = Counter()
        self.at_once = 0
        self.most_at_once = 0

    def of(self, target: Target):  # type: ignore[no-untyped-def]  # noqa: ANN201 - a step of text
        """Return the step of a member."""

        async def step() -> str | None:
            self.tries[target.pod] += 1
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            await asyncio.sleep(0)
            self.at_once -= 1
            is_definite = target.pod not in self.hard or self.tries[target.pod] > 1
            return f"answer of {target.pod}" if is_definite else None

        return step


async def test_each_member_has_its_answer_in_order() -> None:
    """One try each, no more at once than there are workers."""
    steps = Steps()
    answers = await each(targets(7), steps.of, clock=FakeClock(), workers=WORKERS)
    assert list(answers.items()) == [(f"u-{index}", f"answer of w-{index}") for index in range(7)]
    assert set(steps.tries.values()) == {1}
    assert steps.most_at_once == WORKERS


async def test_nobody_waits_for_those_who_have_to_wait() -> None:
    """More members than workers get no definite answer at first; every other one is tried all the same."""
    clock = FakeClock()
    steps = Steps(hard={"w-0", "w-1", "w-2"})
    task = asyncio.create_task(each(targets(6), steps.of, clock=clock, workers=WORKERS))
    await clock.settle()
    assert dict(steps.tries) == {f"w-{index}": 1 for index in range(6)}
    assert not task.done()
    await clock.run_for(LONGEST_S)
    assert len(await task) == 6
    assert {steps.tries[pod] for pod in steps.hard} == {2}


async def test_of_nobody_nothing_is_asked() -> None:
    """No members, no answers."""
    assert await each([], Steps().of, clock=FakeClock()) == {}
