"""Real servers of metric sources, from the packages of the system, as fixtures of a module each.

Where one is not installed its tests are skipped and say how to get it; with `REQUIRE=all`, as in continuous
integration, that is a failure.
"""

import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.kubernetes.fixtures import REQUIRE_VARIABLE
from tests.kubernetes.processes import ClusterError, Program, free_ports

START_TIMEOUT_S = 60.0
PASSWORD = "opensesame"
_ATTEMPTS = 3
"""A port that was free a moment ago may be taken by somebody else on a busy machine."""


def require_tool(name: str) -> str:
    """Return the path of a program; skip, or with `REQUIRE=all` fail, the calling test without it."""
    path = shutil.which(name)
    if path is None:
        reason = f"{name} is not installed: apt-get install {name}"
        if os.environ.get(REQUIRE_VARIABLE) == "all":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def serving(
    name: str, *, folder: Path, command: Callable[[int], list[str]], is_ready: Callable[[int], bool]
) -> Iterator[int]:
    """Run a program on a free port, and yield the port while it serves."""
    for attempt in range(_ATTEMPTS):
        (port,) = free_ports(1)
        program = Program(name, command=command(port), log=folder / f"{name}-{attempt}.log")
        try:
            _wait(program, lambda: is_ready(port))  # noqa: B023 - called before the next turn
        except ClusterError:
            program.kill()
            if attempt + 1 == _ATTEMPTS:
                raise
            continue
        try:
            yield port
        finally:
            program.kill()
        return


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A Redis server with a password, which keeps nothing on disk."""
    tool, folder = require_tool("redis-server"), tmp_path_factory.mktemp("redis")

    def command(port: int) -> list[str]:
        settings = {"port": port, "bind": "127.0.0.1", "requirepass": PASSWORD, "save": "", "dir": folder}
        return [tool, *(part for key, value in settings.items() for part in (f"--{key}", str(value)))]

    def is_ready(port: int) -> bool:
        with Redis(port=port, password=PASSWORD, socket_timeout=5) as client:
            try:
                return bool(client.ping())
            except RedisError:
                return False

    yield from serving("redis-server", folder=folder, command=command, is_ready=is_ready)


@pytest.fixture(scope="module")
def prometheus_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus server that scrapes nothing."""
    tool, folder = require_tool("prometheus"), tmp_path_factory.mktemp("prometheus")
    (folder / "prometheus.yml").write_text("{}\n")

    def command(port: int) -> list[str]:
        return [
            tool,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]

    def is_ready(port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    for port in serving("prometheus", folder=folder, command=command, is_ready=is_ready):
        yield f"http://127.0.0.1:{port}"


def _wait(program: Program, is_ready: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while not is_ready():
        program.check()
        if time.monotonic() > deadline_s:
            raise ClusterError(f"{program.name} was not ready after {START_TIMEOUT_S:.0f} s:\n{program.log_tail()}")
        time.sleep(0.05)
