"""The whole store of NATS is deleted in the middle of a burst: no entry explains the bound members any more."""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.chaos.burst import LARGE, bound, holding, passes
from tests.chaos.gangs import submit
from tests.chaos.stage import Stage, binders, staged
from tests.e2e.waiting import eventually
from tests.kubernetes.fixtures import require_binaries

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

HEAL_S = 120.0
"""Within which a gang is whole again."""


@pytest_asyncio.fixture
async def forgetful_stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """One of the test's own: what others remember of the stream would be void."""
    require_binaries()
    async with staged(tmp_path_factory.mktemp("lost")) as stage:
        yield stage


@pytest.mark.parametrize("is_killed_too", [False, True], ids=["alone", "with the binder"])
async def test_the_store_is_deleted_in_the_middle_of_a_burst(forgetful_stage: Stage, *, is_killed_too: bool) -> None:
    """The gang is completed, whether its binder lives or not; what lands when that is over meets a conflict."""
    stage = forgetful_stage
    api = await stage.space("lost")

    async def is_whole() -> bool:
        return len(await bound(api)) == LARGE.size and not stage.bucket.open()

    with holding(stage, "lost") as burst:
        async with binders(stage) as (binder,):
            await submit(stage, api, LARGE)
            await burst.is_in_the_middle(api, size=LARGE.size)
            await stage.nats.kill()
            shutil.rmtree(stage.nats._directory / "jetstream")
            passes(stage)
            if is_killed_too:
                await binder.kill()
            else:
                burst.let_go()
            await stage.nats.start()
            if is_killed_too:
                await stage.bear(is_elected=False)
            await eventually(is_whole, what="the gang is whole again", timeout_s=HEAL_S)
            burst.let_go()
            assert set(await burst.landed()) == ({409} if is_killed_too else {201})
            assert await stage.checker.problems(api.namespace) == []
            assert await is_whole()
