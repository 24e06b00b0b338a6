"""Where binder processes come from, as the test sees it: born in milliseconds, killed, stopped, and waited for."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from services.cli.processes import ANY_PORT
from services.runtime.child_processes import dying_with_parent
from tests.e2e.waiting import eventually

MODULE = "tests.chaos.struck_binder"
_OK = 200
_TAIL_BYTES = 6000


@dataclass(slots=True, kw_only=True)
class Binder:
    """One binder process; not a child of ours, so it is watched through a descriptor of the kernel's."""

    name: str
    pid: int
    port_file: Path
    log_file: Path
    died: asyncio.Event = field(default_factory=asyncio.Event)
    _descriptor: int = -1

    def watch(self) -> None:
        """Set `died` when the process has ended."""
        try:
            self._descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            self.died.set()
            return
        asyncio.get_running_loop().add_reader(self._descriptor, self._on_end)

    def send(self, number: signal.Signals) -> None:
        """Send a signal, if the process lives."""
        if not self.died.is_set():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    async def kill(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        self.send(signal.SIGKILL)
        await self.died.wait()

    async def is_ready(self) -> bool:
        """Return whether it says that it is ready."""
        with contextlib.suppress(OSError, ValueError, KeyError, aiohttp.ClientError):
            port = json.loads(self.port_file.read_text())["http"]
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{port}/readyz") as answer,
            ):
                return answer.status == _OK
        return False

    async def ready(self) -> None:
        """Wait until it is ready. Raises AssertionError with the end of its log."""

        async def probe() -> bool:
            return self.died.is_set() or await self.is_ready()

        try:
            await eventually(probe, what=f"{self.name} is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    def tail(self) -> str:
        """Return the end of its log."""
        if not self.log_file.exists():
            return "(no log)"
        return self.log_file.read_bytes()[-_TAIL_BYTES:].decode(errors="replace")

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        self.died.set()
        # From here on the number may be another's.
        os.close(self._descriptor)
        self._descriptor = -1


class Nursery:
    """Starts binders. `environment` holds the settings of all of them."""

    def __init__(self, *, folder: Path, environment: Mapping[str, str]) -> None:
        """Keep what births need; nothing is started yet."""
        self._folder = folder
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self.binders: list[Binder] = []

    async def __aenter__(self) -> Self:
        """Start the process that forks."""
        # Threads of a numeric library would not survive the fork.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = await asyncio.create_subprocess_exec(
            *dying_with_parent([sys.executable, "-m", MODULE]),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything that lives."""
        for binder in self.living():
            binder.send(signal.SIGCONT)
            await binder.kill()
        if self._process is not None:
            self._process.kill()
            await self._process.wait()

    def living(self) -> list[Binder]:
        """Return the binders that have not ended, oldest first."""
        return [one for one in self.binders if not one.died.is_set()]

    async def bear(self, **settings: str) -> Binder:
        """Start a binder with these settings beside the common ones; it is not ready yet."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        name = f"binder-{len(self.binders) + 1}"
        port_file, log_file = self._folder / f"{name}.ports.json", self._folder / f"{name}.log"
        own = {
            "PHALANX_PORT_FILE": str(port_file),
            "PHALANX_HTTP_ADDRESS": ANY_PORT,
            "PHALANX_GRPC_ADDRESS": ANY_PORT,
            "PHALANX_INSTANCE": name,
        }
        birth = {"environment": {**self._environment, **own, **settings}, "log": str(log_file)}
        process.stdin.write(json.dumps(birth).encode() + b"\n")
        await process.stdin.drain()
        pid = int(await process.stdout.readline())
        binder = Binder(name=name, pid=pid, port_file=port_file, log_file=log_file)
        self.binders.append(binder)
        binder.watch()
        return binder
