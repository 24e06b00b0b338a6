"""Raw JSON requests and watches against any Kubernetes API, for the players of the test cluster.

Bytes and orjson instead of client models: the fake kubelets share two cores with the API server that is measured.
"""

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp
import orjson
import tenacity
import yaml

_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=60)
_RETRY_FOR_S = 30
_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class RequestError(Exception):
    """The API refused a request; `code` and `reason` are those of its Status."""

    def __init__(self, verb: str, path: str, *, code: int, reason: str, message: str) -> None:
        super().__init__(f"{verb} {path} answered {code} {reason}: {message}")
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where an API is and how to be let in."""

    url: str
    token: str = ""
    tls: ssl.SSLContext | None = None

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """The current context's cluster; users with a token, a client certificate or nothing at all."""
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"]).get("user") or {}
        tls = _tls(cluster, user) if cluster["server"].startswith("https:") else None
        return cls(url=cluster["server"], token=user.get("token", ""), tls=tls)


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    data = cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=cluster.get("certificate-authority"), cadata=base64.b64decode(data).decode() if data else None
    )
    if "client-certificate" in user:
        context.load_cert_chain(user["client-certificate"], user["client-key"])
    elif "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("tls.crt", "tls.key")]
            for file, key in zip(files, ("client-certificate-data", "client-key-data"), strict=True):
                file.touch(mode=0o600)
                file.write_bytes(base64.b64decode(user[key]))
            context.load_cert_chain(str(files[0]), str(files[1]))
    return context


class Connection:
    """Requests to one API."""

    def __init__(self, target: Target, *, session: aiohttp.ClientSession) -> None:
        self._target = target
        self._session = session

    @tenacity.retry(
        retry=tenacity.retry_if_exception_type(aiohttp.ClientConnectionError),
        wait=tenacity.wait_exponential(multiplier=0.1, max=2),
        stop=tenacity.stop_after_delay(_RETRY_FOR_S),
        reraise=True,
    )
    async def request(
        self,
        verb: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """The decoded answer; raises RequestError for everything from 400. Sent again while the API is away."""
        async with self._session.request(
            verb,
            self._target.url + path,
            params=query,
            data=None if body is None else orjson.dumps(body),
            headers={"Content-Type": content_type},
            ssl=self._target.tls or True,
            timeout=_REQUEST_TIMEOUT,
        ) as response:
            text = await response.read()
            if response.status >= 400:
                status = _status(text)
                raise RequestError(
                    verb,
                    path,
                    code=response.status,
                    reason=str(status.get("reason", "")),
                    message=str(status.get("message", "")),
                )
            return orjson.loads(text)

    async def watch(self, path: str, *, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """The events of one watch until the server closes it; raises RequestError if it is refused or expired."""
        async with self._session.get(
            self._target.url + path,
            params={**query, "watch": "true"},
            ssl=self._target.tls or True,
            timeout=_STREAM_TIMEOUT,
        ) as response:
            if response.status >= 400:
                raise RequestError("WATCH", path, code=response.status, reason="", message=await response.text())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = orjson.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise RequestError(
                            "WATCH",
                            path,
                            code=status.get("code", 0),
                            reason=status.get("reason", ""),
                            message=status.get("message", ""),
                        )
                    yield event

    async def follow(self, path: str, *, query: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
        """Events for ever: a list as ADDED events, then watches, relisting whenever one cannot be resumed."""
        while True:
            listed = await self.request("GET", path, query=query)
            yield {"type": "LISTED", "object": listed}
            version = listed["metadata"]["resourceVersion"]
            try:
                while True:
                    resume = {"resourceVersion": version, "allowWatchBookmarks": "true"}
                    async for event in self.watch(path, query={**query, **resume}):
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            yield event
            except RequestError as error:
                if error.code != 410:
                    raise
            except aiohttp.ClientError:
                # The server went away in mid-stream; the list tells whether it is back.
                await asyncio.sleep(0)


def _status(text: bytes) -> dict[str, Any]:
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"message": text.decode(errors="replace")}
    return decoded if isinstance(decoded, dict) else {"message": str(decoded)}


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Connection]:
    """A connection pool to an API."""
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    # Watches hold connections of their own, so the pool itself is unlimited and users bound their concurrency.
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        yield Connection(target, session=session)
