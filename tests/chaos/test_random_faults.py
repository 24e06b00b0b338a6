"""Gangs come and go for minutes behind a proxy that injects faults, while pods, nodes and services die.

The judge looks the whole time whether a gang is partly bound without an open transaction, and once more at the end.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.chaos import extent
from tests.chaos.stage import Stage, binders, staged
from tests.chaos.timeline import Timeline
from tests.chaos.weather import Weather
from tests.chaos.workload import Workload
from tests.kubernetes.fixtures import require_binaries
from tests.kubernetes.nodes import NodesConfig

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(0)]

NODES = NodesConfig(count=6, gpus_per_node=8, is_kept=True)
LOOK_EVERY_S = 0.3


@pytest_asyncio.fixture
async def stormy_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """A control plane whose watcher too is behind the proxy."""
    require_binaries()
    async with staged(tmp_path_factory.mktemp("faults"), is_watcher_proxied=True, nodes=NODES) as stage:
        yield stage


async def test_gangs_stay_whole_under_random_faults(stormy_stage: Stage) -> None:
    """Nothing is ever left in part, nothing is bound twice, and all that was asked for finishes in the end."""
    stage, seed, timeline = stormy_stage, extent.seed(), Timeline()
    weather = Weather(random.Random(seed), timeline=timeline)
    stage.proxy.plan = weather.plan
    api = await stage.space("work")
    async with binders(stage, count=2) as elected:
        workload = Workload(stage=stage, api=api, rng=random.Random(seed + 1), timeline=timeline, elected=list(elected))
        looking = asyncio.create_task(_look(stage, timeline), name="looking")
        try:
            weather.is_bad = True
            await workload.run(for_s=extent.minutes() * 60)
            weather.is_bad = False
            await workload.close()
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking
            problems = await stage.checker.problems(api.namespace) + await stage.checker.oversubscribed()
            assert problems == []
        except BaseException:
            history = "\n".join(stage.checker.history(api.namespace)[-400:])
            extent.show(f"seed {seed} failed; what happened:\n{timeline.told()}\n{history}\n{stage.tails()}")
            raise
        finally:
            looking.cancel()
    told = ", ".join(f"{count} x {name}" for name, count in sorted(workload.acts.items()))
    faults = ", ".join(f"{count} x {name}" for name, count in sorted(weather.counts.items()))
    decided = Counter(type(one.event).__name__ for one in stage.recorder.seen)
    ended = ", ".join(f"{count} x {name}" for name, count in sorted(decided.items()))
    extent.show(f"seed {seed}, {extent.minutes():g} minutes: {told}\nfaults: {faults}\ndecided: {ended}")
    extent.show(f"the judge compared gangs with open transactions {stage.checker.looks} times")
    assert stage.checker.looks
    assert weather.counts


async def _look(stage: Stage, timeline: Timeline) -> None:
    """Look for ever. Ends with AssertionError where a gang is partly bound."""
    while True:
        problems = await stage.checker.look()
        if problems:
            timeline.note(f"the judge: {problems}")
            raise AssertionError(problems)
        await asyncio.sleep(LOOK_EVERY_S)
