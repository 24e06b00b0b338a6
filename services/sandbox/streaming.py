"""Writing one watch to its client: events as they come, bookmarks in between, and an orderly end."""

import random
from dataclasses import dataclass

import orjson
from aiohttp import web

from services.runtime.clock import Clock
from services.sandbox.cluster import Cluster
from services.sandbox.failures import ApiError
from services.sandbox.requests import Target, flag, number, revision_of, scope_of
from services.sandbox.watching import Scope, Watch, event_line

_DEFAULT_TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """When the watch ends and when its next bookmark is due, on the monotonic clock."""

    clock: Clock
    ends_at: float
    bookmark_interval_s: float

    def left_s(self) -> float:
        return self.ends_at - self.clock.monotonic()


async def stream(cluster: Cluster, request: web.Request, target: Target) -> web.StreamResponse:
    """Answer a watch request until it times out, is broken, overflows, or the client leaves."""
    try:
        scope = scope_of(target, request.query)
        revision = revision_of(request.query)
        timeout_s = number(request.query, "timeoutSeconds")
        watch = _opened(cluster, scope, revision)
    except ApiError as error:
        if error.code != web.HTTPGone.status_code:
            return web.json_response(error.status(), status=error.code, dumps=_dumps)
        return await _failed(request, error)
    # Clients that give no limit are spread out, so that they do not all come back at once.
    limit_s = timeout_s or _DEFAULT_TIMEOUT_S * (1 + random.random())  # noqa: S311 - no secret, only spread
    pace = _Pace(
        clock=cluster.clock,
        ends_at=cluster.clock.monotonic() + limit_s,
        bookmark_interval_s=cluster.settings.bookmark_interval_s,
    )
    response = _response()
    outlet = _Outlet(request, response, watch)
    try:
        await response.prepare(request)
        await _pump(cluster, outlet, pace, wants_bookmarks=flag(request.query, "allowWatchBookmarks"))
    except ConnectionError:
        # The client has gone, or was cut off; there is nobody left to tell.
        pass
    finally:
        cluster.store.unwatch(watch)
    return response


class _Outlet:
    """The way to one client; a client that is cut off while a write waits for it is cut off at once."""

    def __init__(self, request: web.Request, response: web.StreamResponse, watch: Watch) -> None:
        self.watch = watch
        self._response = response
        self._transport = request.transport
        self._is_writing = False
        watch.on_close = self._closed

    async def write(self, piece: bytes) -> None:
        """Send a piece, waiting for a client that reads slowly."""
        self._is_writing = True
        try:
            await self._response.write(piece)
        finally:
            self._is_writing = False

    async def end(self) -> None:
        """End the stream in order, unless the watch was broken."""
        if not self.watch.is_broken:
            await self._response.write_eof()

    def _closed(self) -> None:
        if self._transport is not None and (self.watch.is_broken or self._is_writing):
            self._transport.abort()


def _dumps(obj: object) -> str:
    return orjson.dumps(obj).decode()


def _response() -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    return response


def _opened(cluster: Cluster, scope: Scope, revision: int) -> Watch:
    cluster.watches.check(scope)
    return cluster.store.watch(scope, after=revision or None)


async def _failed(request: web.Request, error: ApiError) -> web.StreamResponse:
    response = _response()
    await response.prepare(request)
    await response.write(event_line("ERROR", orjson.dumps(error.status())))
    await response.write_eof()
    return response


def _bookmark(scope: Scope, revision: int) -> bytes:
    meta = {"metadata": {"resourceVersion": str(revision), "creationTimestamp": None}}
    return event_line("BOOKMARK", scope.kind.heads[scope.version] + orjson.dumps(meta)[1:])


async def _pump(cluster: Cluster, outlet: _Outlet, pace: _Pace, *, wants_bookmarks: bool) -> None:
    watch = outlet.watch
    while watch.is_open:
        left_s = pace.left_s()
        woken = left_s > 0 and await watch.wait(min(left_s, pace.bookmark_interval_s))
        if lines := watch.take():
            await outlet.write(lines)
        elif not woken and wants_bookmarks and watch.is_open:
            # Nothing is queued, so everything up to the current revision has been sent.
            await outlet.write(_bookmark(watch.scope, cluster.store.revision))
        if left_s <= 0:
            break
    await outlet.end()
