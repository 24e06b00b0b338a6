"""Connections of this process: a test that leaves one half closed would fail the next one with a warning."""

import psutil

from tests.e2e.waiting import until


async def until_closed(port: int) -> None:
    """Wait until this process has no socket left at a port, on either side."""
    await until(lambda: not _open_at(port), what=f"connections at port {port} are closed")


def _open_at(port: int) -> list[object]:
    connections = psutil.Process().net_connections(kind="tcp")
    return [one for one in connections if port in {getattr(end, "port", None) for end in (one.laddr, one.raddr)}]
