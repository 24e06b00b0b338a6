"""The two sides of the contract, each started once per session by the first of its rows."""

import functools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.contract.kubernetes_api.performances import Performances, compact_etcd, performing
from tests.contract.kubernetes_api.rows import Row, Side
from tests.contract.kubernetes_api.sandbox_side import running_sandbox
from tests.contract.kubernetes_api.table import ROWS, rows_of
from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries

_UNCACHED = "leases.coordination.k8s.io"
"""The kind that the API server reads from etcd, so that a compaction shows at once."""


class Sides:
    """Starts a side, with all its selected rows in play, when it is first asked for."""

    def __init__(self, *, stack: AsyncExitStack, selected: frozenset[str]) -> None:
        self._stack = stack
        self._selected = selected
        self._started: dict[Side, Performances] = {}

    async def performances(self, side: Side) -> Performances:
        """The rows of a side in play."""
        if side not in self._started:
            rows = tuple(row for row in rows_of(side) if f"test_row[{side}-{row.name}]" in self._selected)
            self._started[side] = await (self._sandbox(rows) if side == "sandbox" else self._kubernetes(rows))
        return self._started[side]

    async def _kubernetes(self, rows: tuple[Row, ...]) -> Performances:
        require_binaries()
        config = ClusterConfig(apiserver_args=(f"--watch-cache-sizes={_UNCACHED}#0",))
        cluster = await self._stack.enter_async_context(Cluster(config))
        return await self._stack.enter_async_context(
            performing(
                rows,
                url=cluster.url,
                token=cluster.token,
                tls=cluster.ssl_context(),
                forget_history=functools.partial(compact_etcd, cluster.etcd_url),
            )
        )

    async def _sandbox(self, rows: tuple[Row, ...]) -> Performances:
        sandbox = await self._stack.enter_async_context(running_sandbox())
        return await self._stack.enter_async_context(
            performing(rows, url=sandbox.url, token="any", forget_history=sandbox.forget_history)
        )


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sides(request: pytest.FixtureRequest) -> AsyncIterator[Sides]:
    """The sandbox and the real control plane."""
    async with AsyncExitStack() as stack:
        yield Sides(stack=stack, selected=frozenset(item.name for item in request.session.items))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts the rows that are true on one side only, with their reasons, so that holes stay in sight."""
    one_sided = [row for row in ROWS if row.only]
    terminalreporter.write_line(
        f"contract of the Kubernetes API: {len(ROWS)} rows, {len(one_sided)} of them on one side only"
    )
    for row in one_sided:
        terminalreporter.write_line(f"  {row.name} ({row.only}): {row.because}")
