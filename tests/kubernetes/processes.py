"""Runs the programs of a throw-away cluster and makes sure that none of them outlives its starter.

Each program gets its own process group, its own log file, and on Linux the order to die with its parent,
because a test run that is killed cannot clean up. When a program dies early, its log's tail becomes the error.
"""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from services.runtime.child_processes import dying_with_parent

_TAIL_LINES = 20


class ClusterError(Exception):
    """A part of the cluster did not start or died; the message holds the tail of its log."""


def free_ports(count: int) -> list[int]:
    """Distinct ports of the loopback address that nobody listens on; all are held until the last is known."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


class Program:
    """One running program with its log."""

    def __init__(self, name: str, *, command: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                dying_with_parent([shutil.which(command[0]) or command[0], *command[1:]]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id, which is the id of its process group too."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._process.poll() is None

    def log_tail(self, *, lines: int = _TAIL_LINES) -> str:
        """Last lines of its output."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def check(self) -> None:
        """Raises ClusterError with the log's tail if the program has ended."""
        if not self.is_running():
            raise ClusterError(f"{self.name} ended with {self._process.returncode}:\n{self.log_tail()}")

    def wait(self, *, timeout_s: float) -> int:
        """Waits for the program to end by itself; its exit code."""
        return self._process.wait(timeout=timeout_s)

    def terminate(self, *, timeout_s: float = 10.0) -> None:
        """Asks the program to end and waits; used where a test is about a clean end."""
        if self.is_running():
            os.killpg(self.pid, signal.SIGTERM)
            self._process.wait(timeout=timeout_s)

    def kill(self) -> None:
        """Ends the whole process group at once and reaps the program."""
        if self.is_running():
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
