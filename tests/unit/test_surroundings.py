"""What every unit test is given: asyncio in debug mode, and no network."""

import asyncio
import socket

import pytest

from tests.unit.conftest import NetworkForbidden


async def test_asyncio_is_in_debug_mode() -> None:
    """The loop says so: coroutines that nobody awaits are then reported with where they were made."""
    assert asyncio.get_running_loop().get_debug()


def test_the_network_is_out_of_reach() -> None:
    """A connection is refused before it is tried, and a listener too."""
    with socket.socket() as one, pytest.raises(NetworkForbidden, match="connect"):
        one.connect(("127.0.0.1", 9))
    with socket.socket() as one, pytest.raises(NetworkForbidden, match="bind"):
        one.bind(("127.0.0.1", 0))


def test_sockets_of_the_machine_itself_work() -> None:
    """Event loops wake themselves through a pair of them."""
    left, right = socket.socketpair()
    with left, right:
        left.sendall(b"x")
        assert right.recv(1) == b"x"
