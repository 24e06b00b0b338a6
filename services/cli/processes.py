"""The services as local processes: started, waited for, killed and started again.

Used by `phalanx demo`, `phalanx up` and end-to-end tests. Each service is the same process that runs in a cluster; only
its addresses are on the loopback interface, on free ports.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from services.runtime.addresses import is_free_port
from services.runtime.child_processes import dying_with_parent

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 15.0
POLL_S = 0.05
ANY_PORT = "127.0.0.1:0"
TAIL_BYTES = 4000

SERVICES = ("watcher", "placer", "binder", "autoscaler")

PLACER_VARIABLE = "PHALANX_PLACER"

_ADDRESSES = {"http": "PHALANX_HTTP_ADDRESS", "grpc": "PHALANX_GRPC_ADDRESS"}
"""Settings with a listen address, by the name under which its port is announced."""


class ServiceFailed(RuntimeError):
    """A process ended or did not become ready; the message has the end of its log."""


@dataclass(slots=True, kw_only=True)
class LocalProcess:
    """One `python -m services.<name>`, or another module, with its log file.

    `environment` is added to this process's own, minus every inherited `PHALANX_*` variable. A service that may
    take any port takes the one from before a restart, else the preferred one (by `http`, `grpc`), else any free one.
    """

    name: str
    folder: Path
    environment: Mapping[str, str]
    arguments: Sequence[str] = ()
    module: str = ""
    preferred_ports: Mapping[str, int] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None
    _ports: dict[str, int] = field(default_factory=dict)
    _former_ports: dict[str, int] = field(default_factory=dict)

    @property
    def log_file(self) -> Path:
        """Where the process writes its log."""
        return self.folder / f"{self.name}.log"

    @property
    def port_file(self) -> Path:
        """Where the process says which ports it took."""
        return self.folder / f"{self.name}.ports.json"

    @property
    def http_url(self) -> str:
        """Address of `/livez`, `/readyz` and `/metrics`, once the process is up."""
        return f"http://127.0.0.1:{self._ports['http']}"

    @property
    def grpc_target(self) -> str:
        """Address of gRPC, once the process is up."""
        return f"127.0.0.1:{self._ports['grpc']}"

    @property
    def has_grpc(self) -> bool:
        """True for a process that also answers gRPC, once it is up."""
        return "grpc" in self._ports

    @property
    def has_all_ports(self) -> bool:
        """True once each port that the process was to take is known."""
        return all(name in self._ports for name, variable in _ADDRESSES.items() if variable in self.environment)

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return None if self._process is None else self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit code of a process that ended by itself, None while it runs or was never started."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the process; its ports are known only when it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._process is not None:
            # Nobody may have waited for the process that ended: its ports are still in the file.
            self._read_ports()
        self.port_file.unlink(missing_ok=True)
        self._former_ports |= self._ports
        self._ports = {}
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("PHALANX_")}
        environment = inherited | dict(self.environment) | self._addresses()
        environment["PHALANX_PORT_FILE"] = str(self.port_file)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                dying_with_parent([sys.executable, "-m", self.module or f"services.{self.name}", *self.arguments]),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    async def wait_ready(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until `/readyz` says 200. Raises ServiceFailed with what it waits for, or with the end of the log."""
        detail = "it did not say which ports it took"
        try:
            async with asyncio.timeout(timeout_s), aiohttp.ClientSession() as session:
                while True:
                    self.check_alive()
                    if self._read_ports():
                        is_ready, detail = await self._readyz(session)
                        if is_ready:
                            return
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            raise ServiceFailed(f"{self.name} was not ready after {timeout_s:g} s: {detail}\n{self.tail()}") from error

    async def wait_announced(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the process has said which ports it took; it need not be ready. Raises ServiceFailed."""
        try:
            async with asyncio.timeout(timeout_s):
                while not (self._read_ports() and self.has_all_ports):
                    self.check_alive()
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            raise ServiceFailed(f"{self.name} took no ports within {timeout_s:g} s\n{self.tail()}") from error

    def kill(self) -> None:
        """End the process as a crash would, and wait until it is gone."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def pause(self, *, is_paused: bool) -> None:
        """Stop the process from running, or let it go on, without ending it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP if is_paused else signal.SIGCONT)

    async def stop(self) -> None:
        """Ask the process to end, and kill it where it does not."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await asyncio.to_thread(process.wait)
        except TimeoutError:
            process.kill()
            await asyncio.to_thread(process.wait)

    def tail(self) -> str:
        """Return the end of the log."""
        if not self.log_file.exists():
            return "(no log)"
        return self.log_file.read_bytes()[-TAIL_BYTES:].decode(errors="replace")

    def check_alive(self) -> None:
        """Raise ServiceFailed with the end of the log where the process has ended."""
        if self._process is None or self._process.poll() is not None:
            code = None if self._process is None else self._process.returncode
            raise ServiceFailed(f"{self.name} ended with code {code}; its log {self.log_file} ends:\n{self.tail()}")

    def _addresses(self) -> dict[str, str]:
        """Return the addresses to listen on, where any port would do."""
        wanted = dict(self.preferred_ports) | self._former_ports
        return {
            variable: f"127.0.0.1:{wanted[name]}"
            for name, variable in _ADDRESSES.items()
            if self.environment.get(variable) == ANY_PORT and name in wanted and is_free_port(wanted[name])
        }

    def _read_ports(self) -> bool:
        # The file may be seen half written; the next look finds it whole.
        with contextlib.suppress(OSError, ValueError):
            self._ports = json.loads(self.port_file.read_text())
        return "http" in self._ports

    async def _readyz(self, session: aiohttp.ClientSession) -> tuple[bool, str]:
        try:
            async with session.get(f"{self.http_url}/readyz") as answer:
                return answer.status == 200, await answer.text()  # noqa: PLR2004 - HTTP OK
        except aiohttp.ClientError as error:
            return False, str(error)


def _is_asking(name: str) -> bool:
    """Tell whether a service is told where the placer answers, and so starts after it."""
    return name == "autoscaler"


@dataclass(slots=True, kw_only=True)
class LocalServices:
    """All services against one API server and one bus.

    `environment` holds the settings for all of them, `own_environment` those of single ones by service,
    `preferred_ports` ports to take where they are free, by service.
    Entering starts them and waits until each is ready.
    """

    folder: Path
    nats_url: str
    kubeconfig: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    own_environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    names: Sequence[str] = SERVICES
    preferred_ports: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    processes: dict[str, LocalProcess] = field(default_factory=dict)

    async def __aenter__(self) -> Self:
        """Start all services."""
        try:
            for name in sorted(self.names, key=_is_asking):
                self.processes[name] = self._process(name)
                if _is_asking(name) and (placer := self.processes.get("placer")) is not None:
                    await placer.wait_announced()
                    known = {PLACER_VARIABLE: placer.grpc_target} | dict(self.processes[name].environment)
                    self.processes[name].environment = known
                self.processes[name].start()
            async with asyncio.TaskGroup() as group:
                for process in self.processes.values():
                    group.create_task(process.wait_ready())
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all services."""
        await self.close()

    async def close(self) -> None:
        """Stop all services, side by side."""
        await asyncio.gather(*(process.stop() for process in self.processes.values()))

    async def restart(self, name: str) -> None:
        """Start a killed service again, and wait until it is ready."""
        process = self.processes[name]
        process.start()
        await process.wait_ready()

    def _process(self, name: str) -> LocalProcess:
        settings = {
            "PHALANX_NATS_URL": self.nats_url,
            "PHALANX_HTTP_ADDRESS": ANY_PORT,
            "PHALANX_INSTANCE": f"{name}-local",
        }
        if name in {"watcher", "binder", "autoscaler"}:
            settings["PHALANX_KUBECONFIG"] = str(self.kubeconfig)
        if name in {"placer", "binder"}:
            settings["PHALANX_GRPC_ADDRESS"] = ANY_PORT
        if name != "watcher":
            # There is one of each here, and the next is started only when it is gone: it need not wait for a key.
            settings["PHALANX_LEADER_ELECTION"] = "false"
        return LocalProcess(
            name=name,
            folder=self.folder,
            environment=settings | dict(self.environment) | dict(self.own_environment.get(name, {})),
            preferred_ports=self.preferred_ports.get(name, {}),
        )
