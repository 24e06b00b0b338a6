"""Lengths of lists and streams in Redis.

Of a stream's group counts what it has not read yet (`lag`, which Redis knows since version 7) and what it has not
acknowledged. Nothing is ever created.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis.asyncio import BlockingConnectionPool, Redis, SSLConnection
from redis.exceptions import RedisError, ResponseError

from services.autoscaler.ports import SourceFailed
from services.core.metric_readings import Sample
from services.core.metric_sources import RedisSource, SourceSpec
from services.runtime.clock import Clock

REQUEST_TIMEOUT_S = 5.0
MAX_CONNECTIONS = 4
"""To one server; requests are short."""

_Place = tuple[str, int, str, str, bool, str]


class RedisQueues:
    """Satisfies `services.autoscaler.ports.Queues` for RedisSource, with a few connections to each server."""

    def __init__(self, *, clock: Clock) -> None:
        """Connect to nobody yet."""
        self._clock = clock
        self._clients: dict[_Place, tuple[str, Redis]] = {}

    async def __aenter__(self) -> Self:
        """Connections are made when they are needed."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        for _, client in self._clients.values():
            await _closed(client)
        self._clients.clear()

    async def read(self, source: SourceSpec) -> Sequence[Sample]:
        """Return the length of a list or stream. Raises SourceFailed."""
        assert isinstance(source, RedisSource)
        try:
            length = await self._length(await self._client(source), source=source)
        except ResponseError as error:
            raise SourceFailed(f"was refused ({source}): {error}") from error
        except (RedisError, OSError, TimeoutError) as error:
            raise SourceFailed(f"gave no answer ({source}): {str(error) or type(error).__name__}") from error
        return (Sample(value=float(length), taken_at=self._clock.now()),)

    @contextlib.asynccontextmanager
    async def listening(self, source: SourceSpec, *, hint: Callable[[], None]) -> AsyncIterator[bool]:
        """Redis tells only whom its administrator lets it tell, so it is asked."""
        del source, hint
        yield False

    async def _length(self, client: Redis, *, source: RedisSource) -> int:
        if source.list_key:
            return int(await client.llen(source.list_key))
        if not source.group:
            return int(await client.xlen(source.stream_key))
        for found in await client.xinfo_groups(source.stream_key):
            if _text(found["name"]) == source.group:
                return _waiting(found, source=source)
        raise SourceFailed(f"does not exist ({source}); create it, for it is never created by Phalanx")

    async def _client(self, source: RedisSource) -> Redis:
        """Return the client of a server; another one where the password is another by now."""
        password = _secret(source.password_file)
        place = (source.address, source.database, source.username, source.password_file, source.tls, source.ca_file)
        known = self._clients.get(place)
        if known is not None and known[0] == password:
            return known[1]
        client = _connected(source, password=password)
        self._clients[place] = (password, client)
        if known is not None:
            await _closed(known[1])
        return client


def _connected(source: RedisSource, *, password: str) -> Redis:
    host, _, port = source.address.rpartition(":")
    secured: dict[str, Any] = {}
    if source.tls:
        secured = {"connection_class": SSLConnection, "ssl_ca_certs": source.ca_file or None}
    pool = BlockingConnectionPool(
        host=host.strip("[]"),
        port=int(port),
        db=source.database,
        username=source.username or None,
        password=password or None,
        socket_timeout=REQUEST_TIMEOUT_S,
        socket_connect_timeout=REQUEST_TIMEOUT_S,
        max_connections=MAX_CONNECTIONS,
        timeout=REQUEST_TIMEOUT_S,
        **secured,
    )
    return Redis.from_pool(pool)


def _waiting(group: Mapping[str, Any], *, source: RedisSource) -> int:
    """Return what a group has before it. Raises SourceFailed where Redis cannot tell."""
    lag = group.get("lag")
    if lag is None:
        # Entries were deleted from the middle of the stream, or the server is older than version 7.
        raise SourceFailed(
            f"cannot tell its lag ({source}); Redis knows it since version 7, unless entries were deleted"
        )
    return int(lag) + int(group["pending"])


def _secret(path: str) -> str:
    """Return what is in a file, which is small and may be another by now. Raises OSError."""
    return Path(path).read_text().strip() if path else ""


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


async def _closed(client: Redis) -> None:
    with contextlib.suppress(RedisError, OSError):
        await client.aclose()
