"""A proxy in front of the real API server that does what networks, balancers and overloaded servers do.

It ends TLS with a certificate of its own, so that it can tell a binding from a watch. What becomes of each request is
decided by a plan that the test puts in; without one, everything passes.
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson
import yaml
from aiohttp import web
from yarl import URL

from tests.kubernetes.certificates import create_authority, issue
from tests.kubernetes.connection import Target

HOST = "127.0.0.1"
_NOT_PASSED_ON = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive", "host"})
_UPSTREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)
_GATEWAY_ERROR = 502


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, as far as a plan needs to know it."""

    method: str
    path: str
    query: Mapping[str, str]
    agent: str

    @property
    def is_write(self) -> bool:
        """True where it may change something."""
        return self.method != "GET"

    @property
    def is_binding(self) -> bool:
        """True for a binding that is no dry run."""
        return self.method == "POST" and self.path.endswith("/binding") and "dryRun" not in self.query

    @property
    def is_watch(self) -> bool:
        """True for a stream of events."""
        return "watch" in self.query


@dataclass(frozen=True, slots=True, kw_only=True)
class Delay:
    """The request is passed on after a while."""

    s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """The request is answered in the server's place, and has no effect."""

    status: int
    reason: str
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CutBefore:
    """The connection is cut, and the request has no effect. A watch is cut after `s` seconds."""

    s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """The request takes effect, and then the connection is cut."""


@dataclass(slots=True, kw_only=True)
class Hold:
    """The request is kept, whatever becomes of its sender, until it is let go."""

    is_held: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    #: What the server answered at last, 0 before.
    status: int = 0
    is_answered: asyncio.Event = field(default_factory=asyncio.Event)


Fate = Delay | Refuse | CutBefore | LoseAnswer | Hold
"""What becomes of a request."""

Plan = Callable[[Ask], Fate | None]
"""Decides what becomes of each request; None lets it pass."""


class Proxy:
    """Passes requests on to one API server."""

    def __init__(self, target: Target, *, session: aiohttp.ClientSession) -> None:
        """Let everything pass until a plan says otherwise."""
        self.plan: Plan = lambda _ask: None
        self.url = ""
        self._target = target
        self._session = session
        self._watches: set[asyncio.Timeout] = set()

    def close(self) -> None:
        """Cut every watch; those of dead clients are noticed only at their next event."""
        for limit in self._watches:
            if not limit.expired():
                limit.reschedule(0.0)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        body = await request.read()
        ask = Ask(
            method=request.method,
            path=request.path,
            query=request.query,
            agent=request.headers.get("User-Agent", ""),
        )
        fate = self.plan(ask)
        match fate:
            case Refuse():
                return _refusal(fate)
            case CutBefore() if not ask.is_watch:
                return _cut(request)
            case Delay(s=s):
                await asyncio.sleep(s)
            case Hold():
                fate.is_held.set()
                await fate.let_go.wait()
            case _:
                pass
        try:
            return await self._passed_on(request, body=body, fate=fate)
        except aiohttp.ClientError:
            # As a balancer in front of a dead server would, or as a lost connection.
            return _cut(request)

    async def _passed_on(self, request: web.BaseRequest, *, body: bytes, fate: Fate | None) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _NOT_PASSED_ON}
        async with self._session.request(
            request.method,
            URL(self._target.url + request.raw_path, encoded=True),
            data=body or None,
            headers=headers,
            ssl=self._target.tls or True,
            timeout=_UPSTREAM_TIMEOUT,
            allow_redirects=False,
        ) as reply:
            kept = {key: value for key, value in reply.headers.items() if key.lower() not in _NOT_PASSED_ON}
            if "watch" in request.query:
                limit_s = fate.s if isinstance(fate, CutBefore) else None
                return await self._streamed(request, reply=reply, headers=kept, limit_s=limit_s)
            answer = await reply.read()
            if isinstance(fate, Hold):
                fate.status = reply.status
                fate.is_answered.set()
            if isinstance(fate, LoseAnswer):
                return _cut(request)
            return web.Response(status=reply.status, body=answer, headers=kept)

    async def _streamed(
        self,
        request: web.BaseRequest,
        *,
        reply: aiohttp.ClientResponse,
        headers: Mapping[str, str],
        limit_s: float | None,
    ) -> web.StreamResponse:
        """Pass a watch on as it comes, perhaps only for a while."""
        response = web.StreamResponse(status=reply.status, headers=headers)
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s) as limit:
                self._watches.add(limit)
                try:
                    async for part in reply.content.iter_any():
                        await response.write(part)
                finally:
                    self._watches.discard(limit)
                await response.write_eof()
                return response
        return _cut(request)


def _cut(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=_GATEWAY_ERROR)


def _refusal(fate: Refuse) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": fate.reason,
        "message": f"the proxy says {fate.reason}",
        "code": fate.status,
    }
    headers = {"Content-Type": "application/json"}
    if fate.retry_after_s is not None:
        headers["Retry-After"] = str(fate.retry_after_s)
    return web.Response(status=fate.status, body=orjson.dumps(status), headers=headers)


def through(proxy: Proxy, kubeconfig: Path, *, authority: Path) -> Path:
    """Write a kubeconfig that says the same of the proxy as a given one says of the API server."""
    document = yaml.safe_load(kubeconfig.read_text())
    for one in document["clusters"]:
        one["cluster"]["server"] = proxy.url
        one["cluster"]["certificate-authority-data"] = base64.b64encode(authority.read_bytes()).decode()
    file = kubeconfig.with_suffix(".proxied.kubeconfig")
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(document))
    return file


@asynccontextmanager
async def proxying(target: Target, *, folder: Path) -> AsyncIterator[tuple[Proxy, Path]]:
    """Run a proxy until the block ends; yields it with the certificate of the authority to trust."""
    authority = create_authority(folder, name="proxy-ca")
    certificate, key = issue(authority, folder=folder, name="proxy")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
        proxy = Proxy(target, session=session)
        runner = web.ServerRunner(web.Server(proxy.answer, access_log=None), shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, HOST, 0, ssl_context=tls)
        await site.start()
        proxy.url = f"https://{HOST}:{runner.addresses[0][1]}"
        try:
            yield proxy, authority.certificate_file
        finally:
            proxy.close()
            await runner.cleanup()
