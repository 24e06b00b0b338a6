"""A small HTTP client of a running sandbox, and its fixture-like context manager."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

from services.sandbox.app import RunningSandbox, running
from services.sandbox.cluster import ClusterSettings
from services.sandbox.objects import Obj
from tests.builders import NAMESPACE, namespace_manifest, pod_manifest
from tests.fakes.clock import FakeClock

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_DEADLINE_S = 10.0


class WatchStream:
    """One open watch, read event by event."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self._buffer = b""

    async def next(self) -> Obj:
        """The next event; raises EOFError at an orderly end of the stream."""
        line = self._buffer
        async with asyncio.timeout(_DEADLINE_S):
            # Not readline(), which refuses long lines.
            while b"\n" not in line:
                piece = await self.response.content.readany()
                if not piece:
                    raise EOFError("the watch has ended")
                line += piece
        line, _, self._buffer = line.partition(b"\n")
        event: Obj = orjson.loads(line)
        return event

    async def rest(self) -> list[Obj]:
        """All events until the stream ends, in order or abruptly."""
        events = []
        with contextlib.suppress(EOFError, aiohttp.ClientError):
            while True:
                events.append(await self.next())
        return events

    async def names(self, count: int) -> list[tuple[str, str]]:
        """Type and object name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


class Client:
    """Requests to one sandbox."""

    def __init__(self, session: aiohttp.ClientSession, sandbox: RunningSandbox) -> None:
        self.session = session
        self.sandbox = sandbox

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        """Code and decoded JSON of one request."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": "application/json"}
        async with self.session.request(method, path, data=data, params=query, headers=headers) as response:
            text = await response.read()
            is_json = response.content_type == "application/json"
            return response.status, orjson.loads(text) if is_json else text.decode()

    async def create_pod(self, name: str, **fields: Any) -> tuple[int, Any]:
        """Create a pod without requests."""
        return await self.call("POST", PODS, pod_manifest(name, gpus=0, **fields))

    @contextlib.asynccontextmanager
    async def watch(self, path: str = PODS, **query: str) -> AsyncIterator[WatchStream]:
        """An open watch from the current state on, unless a resourceVersion is given."""
        query.setdefault("resourceVersion", str(self.sandbox.store.revision))
        async with self.session.get(path, params={"watch": "1", **query}) as response:
            yield WatchStream(response)


@contextlib.asynccontextmanager
async def served(settings: ClusterSettings | None = None, *, clock: FakeClock | None = None) -> AsyncIterator[Client]:
    """A sandbox without controllers (unless the settings say otherwise) and a client of it."""
    settings = settings or ClusterSettings(has_controllers=False)
    async with running(settings, clock=clock) as sandbox:
        timeout = aiohttp.ClientTimeout(total=_DEADLINE_S * 2)
        async with aiohttp.ClientSession(sandbox.url, timeout=timeout) as session:
            client = Client(session, sandbox)
            await client.call("POST", "/api/v1/namespaces", namespace_manifest())
            yield client
