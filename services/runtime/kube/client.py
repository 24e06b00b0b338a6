"""Requests, paged lists and watches against a Kubernetes API server, on aiohttp.

Objects stay the dictionaries that the server sent: reducing them is the watcher's work. There is no retry in here; a
caller knows whether repeating is safe. The one exception is a 401, after which rotated credentials are read again.
"""

import functools
import math
import os
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from services.runtime import telemetry
from services.runtime.kube.credentials import Credentials
from services.runtime.kube.faults import KubeUnavailable, error_from_body, error_from_status
from services.runtime.kube.lines import LineTooLongError, split_lines
from services.runtime.kube.targets import Target, target_of

MAX_REPLY_BYTES = 256 * 1024 * 1024
_CONNECT_TIMEOUT_S = 10.0
_READ_BUFFER_BYTES = 1024 * 1024
# A server ends a watch by itself after `timeoutSeconds`; silence for longer than that means that it is gone.
_WATCH_GRACE_S = 10.0
# Redirects are not followed: an API server sends none, a login page in front of it does.
_REFUSED_STATUS = 300
_UNAUTHORIZED_STATUS = 401
_QUOTED_BYTES = 200
_NOT_FOUND_STATUS = 404
_FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer of the server, whatever its status."""

    status: int
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)

    def json(self) -> Any:
        """The decoded body; KubeUnavailable when something that is no API server answered."""
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise KubeUnavailable(f"an answer is not JSON: {self.body[:_QUOTED_BYTES]!r}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """One page of a list. Items of a list carry neither `apiVersion` nor `kind`."""

    items: tuple[dict[str, Any], ...]
    resource_version: str
    continue_token: str
    """Empty on the last page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent:
    """One line of a watch: `ADDED`, `MODIFIED`, `DELETED` or `BOOKMARK`."""

    type: str
    object: dict[str, Any]
    raw_size: int
    """Bytes on the wire."""


class KubeClient:
    """One identity at one API server. Requests and watches have separate bounded connection pools."""

    def __init__(self, credentials: Credentials, *, connections: int = 64, user_agent: str = "phalanx") -> None:
        self._credentials = credentials
        self._base = credentials.host
        self._requests = _session(connections, user_agent=user_agent)
        # Watches stay open for minutes: in a shared pool, enough of them would leave no connection for requests.
        self._watches = _session(connections, user_agent=user_agent)

    @classmethod
    async def open(
        cls,
        kubeconfig: Path | None,
        *,
        connections: int = 64,
        user_agent: str = "phalanx",
        context: str = "",
        environ: Mapping[str, str] = os.environ,
    ) -> Self:
        """A client with the credentials that are found; nothing has been asked of the server yet."""
        credentials = await Credentials.find(kubeconfig, context=context, environ=environ)
        return cls(credentials, connections=connections, user_agent=user_agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close both pools; open watches end."""
        await self._requests.close()
        await self._watches.close()

    @property
    def host(self) -> str:
        """URL of the API server."""
        return self._base

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[Any] | bytes | None = None,
        content_type: str = "application/json",
        accept: str = "",
        timeout_s: float = 30.0,
    ) -> Reply:
        """Send one request and return the answer, an unsuccessful one too; KubeUnavailable when there is none."""
        data = body if isinstance(body, bytes | None) else orjson.dumps(body)
        ask = _Ask(method=method, path=path, query=query or {}, data=data, content_type=content_type, accept=accept)
        timeout = _timeout(timeout_s)
        reply = await self._reply(ask, timeout=timeout)
        if reply.status == _UNAUTHORIZED_STATUS and await self._credentials.renew():
            reply = await self._reply(ask, timeout=timeout)
        return reply

    async def request_ok(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | list[Any] | bytes | None = None,
        content_type: str = "application/json",
        accept: str = "",
        timeout_s: float = 30.0,
    ) -> Reply:
        """As `request`, but an unsuccessful answer raises KubeError (Gone for 410)."""
        reply = await self.request(
            method, path, query=query, body=body, content_type=content_type, accept=accept, timeout_s=timeout_s
        )
        if reply.status >= _REFUSED_STATUS:
            raise error_from_body(
                reply.body,
                status=reply.status,
                target=target_of(method, path, query=query or {}),
                retry_after=reply.headers.get("Retry-After"),
            )
        return reply

    async def list_pages(
        self, path: str, *, limit: int = 500, query: Mapping[str, str] | None = None, timeout_s: float = 60.0
    ) -> AsyncGenerator[ListPage, None]:
        """Pages of a list, all at one resource version; Gone when the server forgot it before the last page."""
        continue_token = ""
        while True:
            asked = {"limit": str(limit)} | dict(query or {})
            if continue_token:
                # A continue token fixes the version; naming one beside it is refused.
                asked.pop("resourceVersion", None)
                asked.pop("resourceVersionMatch", None)
                asked["continue"] = continue_token
            document = (await self.request_ok("GET", path, query=asked, timeout_s=timeout_s)).json()
            metadata = document.get("metadata") or {}
            continue_token = metadata.get("continue") or ""
            yield ListPage(
                items=tuple(document.get("items") or ()),
                resource_version=metadata.get("resourceVersion") or "",
                continue_token=continue_token,
            )
            if not continue_token:
                return

    async def watch(
        self,
        path: str,
        *,
        resource_version: str,
        timeout_s: float = 300.0,
        query: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Events after `resource_version`, bookmarks included, until the stream ends in whatever way.

        Close the iterator (`contextlib.aclosing`) when leaving early. Raises Gone when the version is too old,
        KubeError for other refusals, KubeUnavailable when the stream could not be opened.
        """
        asked = dict(query or {}) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, math.ceil(timeout_s))),
        }
        ask = _Ask(method="GET", path=path, query=asked)
        target = target_of("GET", path, query=asked)
        async with self._stream(ask, target=target, silence_s=timeout_s + _WATCH_GRACE_S) as response:
            try:
                async for line in split_lines(response.content.iter_any()):
                    yield _event(line, target=target)
            except _FAILURES:
                # A cut stream says as little as a finished one: the caller goes on from the last version it saw.
                return
            except LineTooLongError as error:
                raise KubeUnavailable(f"{target.verb} {target.path}: {error}") from error

    async def served_versions(self, group: str) -> tuple[str, ...]:
        """Versions of an API group, the server's preferred first; empty when the group is not served."""
        reply = await self.request("GET", f"/apis/{group}" if group else "/api")
        document = self._discovered(reply, path=f"/apis/{group}")
        if not group:
            return tuple(document.get("versions") or ())
        return tuple(item["version"] for item in document.get("versions") or ())

    async def resources(self, group: str, version: str) -> frozenset[str]:
        """Plural names that a group version serves, subresources as `pods/binding`; empty when it is not served."""
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        document = self._discovered(await self.request("GET", path), path=path)
        return frozenset(item["name"] for item in document.get("resources") or ())

    def _discovered(self, reply: Reply, *, path: str) -> Mapping[str, Any]:
        if reply.status == _NOT_FOUND_STATUS:
            return {}
        if reply.status >= _REFUSED_STATUS:
            raise error_from_body(reply.body, status=reply.status, target=target_of("GET", path, query={}))
        return cast("Mapping[str, Any]", reply.json())

    async def _reply(self, ask: "_Ask", *, timeout: aiohttp.ClientTimeout) -> Reply:  # noqa: ASYNC109 - per socket step
        try:
            async with await self._send(self._requests, ask=ask, timeout=timeout) as response:
                body = await _bounded_body(response)
        except _FAILURES as error:
            raise self._unavailable(ask, error=error) from error
        return Reply(status=response.status, body=body, headers=response.headers)

    @asynccontextmanager
    async def _stream(self, ask: "_Ask", *, target: Target, silence_s: float) -> AsyncIterator[aiohttp.ClientResponse]:
        """An open watch; errors before its first byte are told as for a request."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT_S, sock_read=silence_s)
        try:
            response = await self._send(self._watches, ask=ask, timeout=timeout)
            if response.status == _UNAUTHORIZED_STATUS and await self._credentials.renew():
                response.release()
                response = await self._send(self._watches, ask=ask, timeout=timeout)
            if response.status >= _REFUSED_STATUS:
                async with response:
                    body = await _bounded_body(response)
                retry_after = response.headers.get("Retry-After")
                raise error_from_body(body, status=response.status, target=target, retry_after=retry_after)
        except _FAILURES as error:
            raise self._unavailable(ask, error=error) from error
        try:
            yield response
        finally:
            # Not released to the pool: the rest of the stream would have to be read first.
            response.close()

    async def _send(
        self,
        session: aiohttp.ClientSession,
        *,
        ask: "_Ask",
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109
    ) -> aiohttp.ClientResponse:
        headers = telemetry.inject()
        if authorization := await self._credentials.authorization():
            headers["Authorization"] = authorization
        if ask.data is not None:
            headers["Content-Type"] = ask.content_type
        if ask.accept:
            headers["Accept"] = ask.accept
        return await session.request(
            ask.method,
            URL(f"{self._base}{ask.path}{_encoded(tuple(ask.query.items()))}", encoded=True),
            data=ask.data,
            headers=headers,
            timeout=timeout,
            ssl=self._credentials.ssl_context or True,
            server_hostname=self._credentials.server_name,
            proxy=self._credentials.proxy,
            allow_redirects=False,
        )

    def _unavailable(self, ask: "_Ask", *, error: BaseException) -> KubeUnavailable:
        said = str(error) or type(error).__name__
        return KubeUnavailable(f"no answer from {self._base} to {ask.method} {ask.path}: {said}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """One request, so that it can be sent again with other credentials."""

    method: str
    path: str
    query: Mapping[str, str]
    data: bytes | None = None
    content_type: str = ""
    accept: str = ""


def _session(connections: int, *, user_agent: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections, socket_factory=_watchful_socket),
        headers={
            "Accept": "application/json",
            # Compression saves bandwidth inside a cluster at the price of CPU on both sides, and adds latency.
            "Accept-Encoding": "identity",
            "User-Agent": user_agent,
        },
        read_bufsize=_READ_BUFFER_BYTES,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def _watchful_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices within half a minute that the other side vanished without a word."""
    family, kind, protocol = address[:3]
    created = socket.socket(family=family, type=kind, proto=protocol)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Linux only, as the services are; other systems keep their slower defaults.
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 30_000)):
        if number := getattr(socket, option, None):
            created.setsockopt(socket.IPPROTO_TCP, number, value)
    return created


@functools.lru_cache(maxsize=64)
def _timeout(timeout_s: float) -> aiohttp.ClientTimeout:
    """Limits of one request; callers use a handful of them, thousands of times."""
    return aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(timeout_s, _CONNECT_TIMEOUT_S))


@functools.lru_cache(maxsize=256)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    """A query with its question mark, or nothing."""
    return f"?{urlencode(query)}" if query else ""


async def _bounded_body(response: aiohttp.ClientResponse) -> bytes:
    """The whole body, up to a size that no honest page reaches."""
    if response.content_length is not None and response.content_length <= MAX_REPLY_BYTES:
        return await response.read()
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise aiohttp.ClientPayloadError(f"more than {MAX_REPLY_BYTES} bytes; ask for smaller pages")
        parts.append(part)
    return b"".join(parts)


def _event(line: bytes, *, target: Target) -> WatchEvent:
    """Decode one line; an ERROR event is raised as the refusal that it carries."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise KubeUnavailable(f"{target.verb} {target.path}: a line is not JSON: {line[:_QUOTED_BYTES]!r}") from error
    if document["type"] == "ERROR":
        raise error_from_status(document["object"], status=500, target=target)
    return WatchEvent(type=document["type"], object=document["object"], raw_size=len(line))
