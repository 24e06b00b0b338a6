"""Channels of a gRPC client whose certificates are renewed: no call fails for it, however long it lasts.

The library takes a client's certificates once, when a channel is made. So with new ones a new channel is made for the
calls that begin from now on, and the old one is closed when the last call on it has ended.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio

from services.runtime.tls import Tls, TlsMaterial, channel_credentials


@dataclass(slots=True, kw_only=True)
class _Lease:
    """One channel, what it shows, and how many calls are on it."""

    channel: grpc.aio.Channel
    material: TlsMaterial | None
    calls: int = 0


class RenewedChannel:
    """Calls to one server. `server_name` is whom its certificate has to name, where that is not the target's host.

    Without `tls` nothing is shown and nothing is checked: for a server on the loopback interface.
    """

    def __init__(
        self, target: str, *, tls: Tls | None, server_name: str = "", options: Sequence[tuple[str, Any]] = ()
    ) -> None:
        """Keep what a channel needs; none is made yet."""
        self._target = target
        self._tls = tls
        self._options = [*options, *options_for(server_name)]
        self._current: _Lease | None = None
        self._open: dict[int, _Lease] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close every channel."""
        await self.close()

    async def close(self) -> None:
        """Close every channel; calls that are still on one are cut."""
        for lease in tuple(self._open.values()):
            await self._close(lease)

    @contextlib.asynccontextmanager
    async def calling(self) -> AsyncIterator[grpc.aio.Channel]:
        """A channel for calls that end within the block: with the certificates that are in force when it begins."""
        lease = self._lease()
        lease.calls += 1
        try:
            yield lease.channel
        finally:
            lease.calls -= 1
            if lease is not self._current and not lease.calls:
                await self._close(lease)

    @property
    def channel_count(self) -> int:
        """How many channels are open: more than one while calls from before a renewal go on."""
        return len(self._open)

    def _lease(self) -> _Lease:
        material, before = None if self._tls is None else self._tls.material, self._current
        if before is not None and before.material == material:
            return before
        if material is None:
            channel = grpc.aio.insecure_channel(self._target, options=self._options)
        else:
            channel = grpc.aio.secure_channel(self._target, channel_credentials(material), options=self._options)
        self._current = lease = _Lease(channel=channel, material=material)
        self._open[id(lease)] = lease
        return lease

    async def _close(self, lease: _Lease) -> None:
        if self._open.pop(id(lease), None) is not None:
            await lease.channel.close()


def options_for(server_name: str) -> list[tuple[str, str]]:
    """Return the options of a channel whose server has another name than its address, as behind a port-forward."""
    return [("grpc.ssl_target_name_override", server_name)] if server_name else []
