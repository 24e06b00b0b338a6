"""Plays the selected rows of one side beside each other, so that a suite lasts as long as its longest waits."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import aiohttp

from tests.contract.kubernetes_api.rows import Row
from tests.contract.kubernetes_api.runner import Api, ForgetHistory, play

_AT_ONCE = 8
"""Rows of one side in play at the same time; more would only stretch each other's deadlines."""

Performances = Mapping[str, "asyncio.Task[None]"]
"""Row name -> its play, which ends with the row's Departure if there is one."""


@asynccontextmanager
async def performing(
    rows: Iterable[Row],
    *,
    url: str,
    token: str,
    forget_history: ForgetHistory,
    tls: ssl.SSLContext | bool = True,
) -> AsyncIterator[Performances]:
    """The rows in play; what is still in play at the end is cancelled."""
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        api = Api(url=url, session=session, tls=tls, forget_history=forget_history)
        tasks: dict[str, asyncio.Task[None]] = {}
        gate = asyncio.Semaphore(_AT_ONCE)
        for row in sorted(rows, key=lambda each: each.forgets_history):
            # A lost history would break the pages and watches of other rows: such rows play when all else is done.
            others = tuple(tasks.values()) if row.forgets_history else ()
            tasks[row.name] = asyncio.create_task(_perform(row, api, gate=gate, after=others), name=row.name)
        try:
            yield tasks
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)


async def _perform(row: Row, api: Api, *, gate: asyncio.Semaphore, after: tuple["asyncio.Task[None]", ...]) -> None:
    if after:
        await asyncio.wait(after)
    async with gate:
        await play(row, api=api)


async def compact_etcd(etcd_url: str) -> None:
    """Makes a real cluster's storage forget all revisions but the newest."""
    async with aiohttp.ClientSession(base_url=etcd_url, raise_for_status=True) as session:
        async with session.post("/v3/kv/range", json={"key": "AA=="}) as response:
            revision = (await response.json())["header"]["revision"]
        await (await session.post("/v3/kv/compaction", json={"revision": revision, "physical": True})).read()
