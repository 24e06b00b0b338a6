"""The whole store of NATS is deleted in the middle of a burst: no entry explains the bound members any more."""

import shutil
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.core.decisions import RolledBack
from tests.chaos.burst import LARGE, Burst, bound, holding, passes
from tests.chaos.gangs import HOPELESS, Scenario, refuse_some, submit
from tests.chaos.nursery import Binder
from tests.chaos.stage import Stage, binders, staged
from tests.e2e.waiting import eventually
from tests.kubernetes.fixtures import require_binaries

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

HOPELESS_BURST = Scenario(
    name="hopeless-burst", ending=RolledBack, last_member=HOPELESS, repair_window="0s", size=LARGE.size
)
"""The same gang, with a member that is refused everywhere."""

HEAL_S = 120.0
"""Within which a gang is whole again."""


@pytest_asyncio.fixture
async def forgetful_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """One of the test's own: what others remember of the stream would be void."""
    require_binaries()
    async with staged(tmp_path_factory.mktemp("lost")) as stage:
        yield stage
        # pytest shows it for tests that fail.
        sys.stdout.write("\n".join([*stage.checker.history("lost"), stage.tails()]))


@pytest.mark.parametrize("is_killed_too", [False, True], ids=["alone", "with the binder"])
async def test_the_store_is_deleted_in_the_middle_of_a_burst(forgetful_stage: Stage, *, is_killed_too: bool) -> None:
    """The gang is completed, whether its binder lives or not; what lands when that is over meets a conflict."""
    stage = forgetful_stage
    api = await stage.space("lost")

    async def is_whole() -> bool:
        return len(await bound(api)) == LARGE.size and not stage.bucket.open()

    with holding(stage, "lost") as burst:
        async with binders(stage, is_reporting=False) as (binder,):
            await submit(stage, api, LARGE)
            await burst.is_in_the_middle(api, size=LARGE.size)
            await _lose_the_store(stage, burst, dying=binder if is_killed_too else None)
            await eventually(is_whole, what="the gang is whole again", timeout_s=HEAL_S)
            burst.let_go()
            assert set(await burst.landed()) == ({409} if is_killed_too else {201})
            assert await stage.checker.problems(api.namespace) == []
            assert await is_whole()


@pytest.mark.parametrize("is_killed_too", [False, True], ids=["alone", "with the binder"])
async def test_a_gang_that_cannot_be_completed_is_released_whole(
    forgetful_stage: Stage, *, is_killed_too: bool
) -> None:
    """Its bound members are nobody's promise and our act: they are taken back, and no late binding brings one back."""
    stage = forgetful_stage
    await refuse_some(stage)
    api = await stage.space("lost")

    async def is_released() -> bool:
        return not await bound(api) and not stage.bucket.open()

    with holding(stage, "lost") as burst:
        async with binders(stage, is_reporting=False) as (binder,):
            await submit(stage, api, HOPELESS_BURST)
            await burst.is_in_the_middle(api, size=HOPELESS_BURST.size)
            await _lose_the_store(stage, burst, dying=binder if is_killed_too else None)
            await eventually(is_released, what="the gang is released", timeout_s=HEAL_S)
            burst.let_go()
            await burst.landed()
            assert await stage.checker.problems(api.namespace) == []
            assert await is_released()


async def _lose_the_store(stage: Stage, burst: Burst, *, dying: Binder | None) -> None:
    """Delete what NATS has stored, while a binder dies with bindings on their way, or lives and has them answered."""
    await stage.nats.kill()
    shutil.rmtree(stage.nats._directory / "jetstream")
    passes(stage)
    if dying is None:
        burst.let_go()
    else:
        await dying.kill()
    await stage.nats.start()
    if dying is not None:
        await stage.bear(is_elected=False)
