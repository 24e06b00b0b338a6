"""Metrics that are not ours, asked of the adapter that served the API before.

It is asked as ourselves, because only the API server's front proxy may speak in the name of others; whoever asks was
judged before. What it says about our own rights is no answer to anybody else.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import aiohttp
import orjson

from services.autoscaler.ports import SourceFailed
from services.runtime.kube import KubeFault

REQUEST_TIMEOUT_S = 5.0
MAX_BYTES = 4 * 2**20
MAX_CONNECTIONS = 16
MARK = "X-Phalanx-Forwarded"
"""Header of what was forwarded: it is not forwarded again, should somebody forward it to where it came from."""

_OK, _NOT_FOUND = 200, 404


class ForwardedAnswer(NamedTuple):
    """Status and document of the other adapter."""

    status: int
    document: Mapping[str, Any]


class Forwarder:
    """Asks one other adapter. `authorization` is the header of our own identity there."""

    def __init__(self, *, url: str, ca_file: Path | None, authorization: Callable[[], Awaitable[str | None]]) -> None:
        """Ask nothing yet."""
        self._url = url.rstrip("/")
        self._ca_file = ca_file
        self._authorization = authorization

    async def __aenter__(self) -> Self:
        """Make the pool of connections. Raises OSError where the authority cannot be read."""
        tls = ssl.create_default_context(cafile=None if self._ca_file is None else str(self._ca_file))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "phalanx-autoscaler", "Accept": "application/json", MARK: "true"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        await self._session.close()

    async def answer(self, path: str, *, query: Mapping[str, str]) -> ForwardedAnswer:
        """Return what the other adapter says: numbers, or that it does not know either. Raises SourceFailed."""
        try:
            authorization = await self._authorization()
            headers = {"Authorization": authorization} if authorization else {}
            async with self._session.get(
                f"{self._url}{path}", params=query, headers=headers, allow_redirects=False
            ) as answer:
                body = await _bounded(answer)
        except (aiohttp.ClientError, KubeFault, TimeoutError, OSError) as error:
            raise SourceFailed(f"gave no answer ({self._url}): {str(error) or type(error).__name__}") from error
        if answer.status not in {_OK, _NOT_FOUND}:
            said = body[:200].decode(errors="replace")
            raise SourceFailed(f"answered with status {answer.status} ({self._url}): {said!r}")
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict) or document.get("kind") not in {"ExternalMetricValueList", "Status"}:
            raise SourceFailed(f"answered something else than metrics ({self._url})")
        return ForwardedAnswer(status=answer.status, document=document)


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    body = b""
    async for part in answer.content.iter_any():
        body += part
        if len(body) > MAX_BYTES:
            raise aiohttp.ClientPayloadError(f"more than {MAX_BYTES} bytes")
    return body
