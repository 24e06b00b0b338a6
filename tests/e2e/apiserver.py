"""A sandbox in the test's event loop that can stop listening and come back at the same address."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from services.sandbox.app import CLUSTER, create_app
from services.sandbox.cluster import Cluster, ClusterSettings
from services.sandbox.faults import Faults
from services.sandbox.interference import WatchInterference
from services.sandbox.store import Store
from services.sandbox.traffic import Traffic

HOST = "127.0.0.1"


@dataclass(slots=True, kw_only=True)
class ApiServer:
    """A sandbox and its listening socket. Its objects outlive the socket, as etcd outlives an API server."""

    cluster: Cluster
    port: int
    _runner: web.AppRunner
    _site: web.TCPSite | None = None

    @property
    def url(self) -> str:
        """Where it listens, or would."""
        return f"http://{HOST}:{self.port}"

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

    async def listen(self) -> None:
        """Take connections, at the port of the last time."""
        self._site = web.TCPSite(self._runner, HOST, self.port)
        await self._site.start()
        self.port = self._runner.addresses[0][1]

    async def vanish(self) -> None:
        """Close the socket and cut every connection, as a server does that is killed."""
        site, self._site = self._site, None
        if site is not None:
            await site.stop()
        server = self._runner.server
        assert server is not None, "the runner was set up"
        self.watches.break_open()
        for connection in tuple(server.connections):
            if connection.transport is not None:
                connection.transport.abort()


@asynccontextmanager
async def serving(settings: ClusterSettings) -> AsyncIterator[ApiServer]:
    """Serve a new sandbox on a free port until the block ends."""
    app = create_app(settings)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    server = ApiServer(cluster=app[CLUSTER], port=0, _runner=runner)
    try:
        await server.listen()
        yield server
    finally:
        await runner.cleanup()
