"""Streams that vanish while everything runs, as by an operator or with a lost volume: the binder needs no restart."""

import pytest

from services.contracts.streams import PLACEMENT_STREAM, TRANSACTIONS_STREAM, Stream
from services.core.decisions import Committed
from tests.integration.binder.harness import Scene
from tests.integration.binder.test_faults import ready


async def is_back(scene: Scene, stream: Stream) -> None:
    """Wait until somebody has made a stream again."""
    names: list[str] = []

    async def look() -> None:
        names[:] = [one.config.name or "" for one in await scene.bus._jetstream.streams_info()]

    while stream.name not in names:
        await look()


@pytest.mark.parametrize("stream", [PLACEMENT_STREAM, TRANSACTIONS_STREAM], ids=lambda one: one.name)
async def test_a_stream_that_vanishes_is_made_again_by_whoever_needs_it(scene: Scene, stream: Stream) -> None:
    """A gang before and a gang after: both are bound, and the numbers of the stream begin anew between them."""
    first, second = scene.gang("first", size=2), scene.gang("second", size=2)
    scene.pods("first", size=2)
    scene.pods("second", size=2)
    binder = await ready(scene, await scene.start_binder())
    await scene.propose(first, dict.fromkeys(("first-0", "first-1"), "node-001"), transaction="t1")
    await scene.decision(Committed, transaction="t1")
    await scene.until(lambda: binder.count("phalanx_journal_writes_total", result="removed") == 1)
    await scene.bus._jetstream.delete_stream(stream.name)
    if stream is PLACEMENT_STREAM:
        # The journal is written when there is something to write; decisions are read all the time.
        await is_back(scene, stream)
    await scene.propose(second, dict.fromkeys(("second-0", "second-1"), "node-002"), transaction="t2")
    await scene.decision(Committed, transaction="t2")
    await is_back(scene, stream)
    assert len(scene.bound()) == 4
    assert binder.runtime.readiness.is_ready
