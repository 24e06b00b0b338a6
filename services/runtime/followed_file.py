"""A file that may change while the process runs: the last version that could be used is the one in force.

The content is compared once a second, whatever the file is made of: a mounted ConfigMap changes by a swap of symbolic
links, an editor renames, and `kubectl cp` writes in place. Notifications of the kernel know only some of these.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

from services.runtime.clock import Clock
from services.runtime.log import get

CHECK_INTERVAL_S = 1.0

_log = get("runtime.followed_file")

T = TypeVar("T")


class FollowedFileMetrics:
    """What is counted about the configuration file."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register everything, so that each series exists from the start."""
        self.loads = Counter(
            "phalanx_config_loads_total",
            "Versions of the configuration file that were read, by what became of them.",
            ["result"],
            registry=registry,
        )
        self.refused = Gauge(
            "phalanx_config_refused",
            "1 while the file's present version cannot be used and an earlier one is in force.",
            registry=registry,
        )
        for result in ("accepted", "refused"):
            self.loads.labels(result=result)


class FollowedFile(Generic[T]):
    """The content in force. `read` turns bytes into a value and raises ValueError where they cannot be used."""

    def __init__(self, path: Path, *, read: Callable[[bytes], T], clock: Clock, metrics: FollowedFileMetrics) -> None:
        """Read the file once. Raises ValueError and OSError: at the start nothing else is in force."""
        self._path = path
        self._read = read
        self._clock = clock
        self._metrics = metrics
        self._seen: bytes | str = path.read_bytes()
        self._value = read(self._seen)
        self._changed = asyncio.Event()
        metrics.loads.labels(result="accepted").inc()

    @property
    def value(self) -> T:
        """The content of the last version that could be used."""
        return self._value

    async def changed(self, *, since: T) -> T:
        """Wait until another version is in force, and return it."""
        while self._value == since:
            await self._changed.wait()
        return self._value

    async def follow(self) -> None:
        """Look for new versions for ever."""
        while True:
            await self._clock.sleep(CHECK_INTERVAL_S)
            await self.look()

    async def look(self) -> None:
        """Take a new version where there is one; one that cannot be used is refused, and told once."""
        seen = await asyncio.to_thread(self._content)
        if seen == self._seen:
            return
        self._seen = seen
        if isinstance(seen, str):
            self._refuse(seen)
            return
        try:
            value = self._read(seen)
        except ValueError as error:
            self._refuse(str(error))
            return
        self._metrics.loads.labels(result="accepted").inc()
        self._metrics.refused.set(0)
        _log.info("config.accepted", path=str(self._path), is_changed=value != self._value)
        self._value = value
        self._changed.set()
        self._changed = asyncio.Event()

    def _refuse(self, detail: str) -> None:
        self._metrics.loads.labels(result="refused").inc()
        self._metrics.refused.set(1)
        _log.error("config.refused", path=str(self._path), detail=detail)

    def _content(self) -> bytes | str:
        """Return what is in the file, or why it cannot be read."""
        try:
            return self._path.read_bytes()
        except OSError as error:
            return f"{self._path}: {error.strerror or error}"
