"""Unit tests run without a network, and with asyncio watching for what is forgotten or blocks."""

import asyncio
import socket
from typing import Any

import pytest


class NetworkForbidden(AssertionError):
    """A unit test reached for the network; it belongs to the integration tests, or needs a fake."""


@pytest.fixture(autouse=True)
async def _debugged_loop() -> None:
    """Let asyncio report what is forgotten; in integration tests that would cost too much time."""
    asyncio.get_running_loop().set_debug(True)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every socket but those of one machine's own kernel, such as the event loop's pipe to itself."""
    for method in ("connect", "connect_ex", "bind"):
        allowed = getattr(socket.socket, method)

        def guarded(self: socket.socket, address: Any, *, _allowed: Any = allowed, _method: str = method) -> Any:
            if self.family != socket.AF_UNIX:
                raise NetworkForbidden(f"unit tests use no network, this one called {_method}({address!r})")
            return _allowed(self, address)

        monkeypatch.setattr(socket.socket, method, guarded)
