"""GET requests to metric sources: bounded in time and size, with certificate and token from files that may change."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from services.autoscaler.ports import SourceFailed

REQUEST_TIMEOUT_S = 5.0
MAX_BYTES = 2**20
MAX_CONNECTIONS = 32
_OK = 200
_QUOTED = 120


class HttpReader:
    """One pool of connections for all sources."""

    def __init__(self, *, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        """Give up each request after so long."""
        self._timeout_s = timeout_s

    async def __aenter__(self) -> Self:
        """Make the pool; nothing is asked yet."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=MAX_CONNECTIONS),
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "phalanx-autoscaler", "Accept": "application/json"},
        )
        #: Contexts by the content of the file of their authority.
        self._contexts: dict[bytes, ssl.SSLContext] = {}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the pool."""
        await self._session.close()

    async def json(
        self, url: str, *, query: Mapping[str, str] | None = None, token_file: str = "", ca_file: str = ""
    ) -> Any:
        """Return the document that a server answers. Raises SourceFailed.

        The message has no query, in which there may be a secret.
        """
        named = url.partition("?")[0]
        try:
            headers = {"Authorization": f"Bearer {_text(token_file)}"} if token_file else {}
            async with self._session.get(
                url, params=query, headers=headers, ssl=self._context(ca_file), allow_redirects=False
            ) as answer:
                body = await answer.content.read(MAX_BYTES + 1)
                # `read` returns what has come; the rest has to be waited for.
                while len(body) <= MAX_BYTES and (more := await answer.content.read(MAX_BYTES)):
                    body += more
        except TimeoutError as error:
            raise SourceFailed(f"gave no answer within {self._timeout_s:g} s ({named})") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise SourceFailed(f"gave no answer ({named}): {str(error) or type(error).__name__}") from error
        if len(body) > MAX_BYTES:
            raise SourceFailed(f"answered more than {MAX_BYTES} bytes ({named}); expected one number")
        return _document(body, answer=answer, named=named)

    def _context(self, ca_file: str) -> ssl.SSLContext | bool:
        """Return how certificates are verified: by a file where there is one, else as the system does."""
        if not ca_file:
            return True
        content = Path(ca_file).read_bytes()
        if content not in self._contexts:
            # Of several versions of files only the last are in use; a few more do no harm.
            while len(self._contexts) >= MAX_CONNECTIONS:
                self._contexts.pop(next(iter(self._contexts)))
            self._contexts[content] = ssl.create_default_context(cadata=content.decode())
        return self._contexts[content]


def _document(body: bytes, *, answer: aiohttp.ClientResponse, named: str) -> Any:
    """Return the JSON of an answer. Raises SourceFailed."""
    start = body[:_QUOTED].decode(errors="replace")
    if answer.status != _OK:
        raise SourceFailed(f"answered with status {answer.status} ({named}): {start!r}")
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise SourceFailed(f"answered {answer.content_type}, expected JSON ({named}): {start!r}") from error


def _text(path: str) -> str:
    return Path(path).read_text().strip()
