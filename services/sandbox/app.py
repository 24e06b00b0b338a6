"""The sandbox as an aiohttp application, and running it on a free port inside an event loop.

`create_app` is for servers that the caller starts; `running` is for tests and the demo:

    async with running(ClusterSettings(nodes=8)) as sandbox:
        ... sandbox.url, sandbox.store, sandbox.faults ...
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web

from services.runtime.addresses import join_address
from services.runtime.clock import Clock
from services.sandbox.cluster import Cluster, ClusterSettings
from services.sandbox.controllers.loop import ControllerLoop
from services.sandbox.controllers.table import controllers
from services.sandbox.faults import Faults
from services.sandbox.handler import Handler
from services.sandbox.interference import WatchInterference
from services.sandbox.store import Store
from services.sandbox.traffic import Traffic

CLUSTER: web.AppKey[Cluster] = web.AppKey("cluster", Cluster)
LOOP: web.AppKey[ControllerLoop] = web.AppKey("controller_loop", ControllerLoop)
_BODY_LIMIT_BYTES = 3 * 1024 * 1024


def create_app(settings: ClusterSettings | None = None, *, clock: Clock | None = None) -> web.Application:
    """An application that serves a new cluster, found under `app[CLUSTER]`.

    Run it with `handler_cancellation=True`, so that a watch ends as soon as its client leaves.
    """
    cluster = Cluster(settings, clock=clock)
    app = web.Application(client_max_size=_BODY_LIMIT_BYTES)
    app[CLUSTER] = cluster
    app.router.add_route("*", "/{path:.*}", Handler(cluster).handle)
    if cluster.settings.has_controllers:
        loop = ControllerLoop(controllers(cluster), clock=cluster.clock)
        cluster.follow(loop.on_change)
        app[LOOP] = loop
        app.cleanup_ctx.append(_running_controllers)
    app.on_shutdown.append(_end_watches)
    return app


async def _running_controllers(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.create_task(app[LOOP].run(), name="sandbox-controllers")
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _end_watches(app: web.Application) -> None:
    # Open watches would keep the server from stopping until their timeout.
    app[CLUSTER].watches.break_open()
    app[CLUSTER].faults.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSandbox:
    """A sandbox that answers at `url`, and the handles by which tests look into it."""

    host: str
    port: int
    cluster: Cluster

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http://{join_address(self.host, port=self.port)}"

    @property
    def store(self) -> Store:
        """The objects themselves."""
        return self.cluster.store

    @property
    def faults(self) -> Faults:
        """Scripted faults of requests."""
        return self.cluster.faults

    @property
    def watches(self) -> WatchInterference:
        """Open watches and what may be done to them."""
        return self.cluster.watches

    @property
    def traffic(self) -> Traffic:
        """Counts and the log of writes."""
        return self.cluster.traffic


@contextlib.asynccontextmanager
async def running(
    settings: ClusterSettings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Clock | None = None,
) -> AsyncIterator[RunningSandbox]:
    """Serve a new sandbox until the block ends; port 0 takes a free one."""
    app = create_app(settings, clock=clock)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        bound = runner.addresses[0]
        yield RunningSandbox(host=bound[0], port=bound[1], cluster=app[CLUSTER])
    finally:
        await runner.cleanup()
