"""Start, run and end of every service process.

Order matters: settings first (a mistake there is the operator's, exit code 2), then logs, then health, so that probes
get an answer while the service still waits for its peers. SIGTERM asks the service to finish, a second one or the drain
timeout cancels it.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import uvloop
from opentelemetry import trace
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from structlog.typing import FilteringBoundLogger

from services.runtime import health, log, telemetry
from services.runtime.clock import Clock, SystemClock
from services.runtime.health import Readiness
from services.runtime.nats_connection import OPEN, NatsAccess, inbox_of
from services.runtime.settings import CommonSettings, SettingsError, load
from services.runtime.stopping import cancelled
from services.runtime.tls import Tls, open_tls

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_SETTINGS = 2
STOPPING_CONDITION = "accepting work"
_CANCEL_TIMEOUT_S = 5.0

S = TypeVar("S", bound=CommonSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What the process gives to its service."""

    service: str
    instance: str
    readiness: Readiness
    registry: CollectorRegistry
    """Metrics of this process, served at `/metrics`."""
    tracer: trace.Tracer
    log: FilteringBoundLogger
    clock: Clock
    stopping: asyncio.Event
    """Set when the service should take nothing new, finish what it has and return."""
    tls: Tls | None = None
    """The certificates of this process; None where it has none."""
    nats_access: NatsAccess = OPEN
    """How it connects to NATS."""


App = Callable[[S, Runtime], Coroutine[Any, Any, None]]


def main(service_name: str, settings_cls: type[S], app: App[S], *, known_elsewhere: Sequence[str] = ()) -> NoReturn:
    """Run a service and exit: 0 after a clean stop, 1 after a crash or a drain that was cut, 2 for bad settings."""
    sys.exit(run(service_name, settings_cls, app, environ=os.environ, known_elsewhere=known_elsewhere))


def run(
    service_name: str,
    settings_cls: type[S],
    app: App[S],
    *,
    environ: Mapping[str, str],
    known_elsewhere: Sequence[str] = (),
) -> int:
    """As `main`, but returns the exit code."""
    try:
        settings = load(settings_cls, environ, known_elsewhere=known_elsewhere)
        provider = telemetry.setup(service_name, environ, instance=settings.instance)
    except SettingsError as error:
        print(f"phalanx-{service_name}: {error}", file=sys.stderr)  # noqa: T201 - logs do not exist yet
        return EXIT_SETTINGS
    if settings.port_file is not None:
        # A file of an earlier run would send the parent to ports that are no longer ours.
        settings.port_file.unlink(missing_ok=True)
    log.setup(service=service_name, instance=settings.instance, level=settings.log_level)
    # For libraries that make spans of their own; our code uses the runtime's tracer.
    trace.set_tracer_provider(provider)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_supervised(service_name, settings=settings, app=app, provider=provider))
    finally:
        telemetry.shutdown(provider)


async def _supervised(service_name: str, *, settings: S, app: App[S], provider: trace.TracerProvider) -> int:
    """The service between its first and its last log line."""
    clock, registry = SystemClock(), _new_registry()
    try:
        tls = open_tls(settings.tls_dir, registry=registry)
    except SettingsError as error:
        log.get(service_name).error("service.settings", problems=list(error.problems))
        return EXIT_SETTINGS
    access = NatsAccess(tls=None if tls is None else tls.client_context(), inbox=inbox_of(service_name))
    runtime = Runtime(
        service=service_name,
        instance=settings.instance,
        readiness=Readiness(clock=clock),
        registry=registry,
        tracer=provider.get_tracer(f"phalanx.{service_name}"),
        log=log.get(service_name),
        clock=clock,
        stopping=asyncio.Event(),
        tls=tls,
        nats_access=access,
    )
    hurry = asyncio.Event()
    _listen_for_signals(runtime, hurry=hurry)
    try:
        async with (
            _renewing(tls, clock=clock),
            health.serve(settings.http_address, runtime.readiness, runtime.registry) as port,
        ):
            runtime.log.info("service.started", http_port=port)
            # A plain task and not a task group: it has to be given up on when it does not end.
            task = asyncio.create_task(app(settings, runtime))
            await _ended(task, runtime=runtime, hurry=hurry, drain_timeout_s=settings.drain_timeout_s)
            return _exit_code(task, runtime=runtime)
    except Exception:
        runtime.log.exception("service.crashed")
        return EXIT_FAILED


@contextlib.asynccontextmanager
async def _renewing(tls: Tls | None, *, clock: Clock) -> AsyncIterator[None]:
    """Take new certificates while the service runs."""
    if tls is None:
        yield
        return
    following = asyncio.create_task(tls.follow(clock=clock), name="following the certificates")
    try:
        yield
    finally:
        await cancelled([following])


def _new_registry() -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def _listen_for_signals(runtime: Runtime, *, hurry: asyncio.Event) -> None:
    def received(name: str) -> None:
        runtime.log.info("service.signal", signal=name)
        if runtime.stopping.is_set():
            hurry.set()
        runtime.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, received, number.name)


async def _ended(task: asyncio.Task[None], *, runtime: Runtime, hurry: asyncio.Event, drain_timeout_s: float) -> None:
    """Wait until the service ends by itself or has been asked, and then made, to end."""
    stopping = asyncio.create_task(_until(runtime.stopping))
    hurrying = asyncio.create_task(_until(hurry))
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return
        runtime.readiness.set(STOPPING_CONDITION, ready=False, detail="stopping")
        await asyncio.wait({task, hurrying}, timeout=drain_timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            runtime.log.warning("service.drain_cut", drain_timeout_s=drain_timeout_s)
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_TIMEOUT_S)
    finally:
        stopping.cancel()
        hurrying.cancel()


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _exit_code(task: asyncio.Task[None], *, runtime: Runtime) -> int:
    if not task.done():
        runtime.log.error("service.stuck", detail="ignored its cancellation")
        return EXIT_FAILED
    if task.cancelled():
        runtime.log.error("service.cancelled")
        return EXIT_FAILED
    error = task.exception()
    if (problems := _settings_problems(error)) is not None:
        runtime.log.error("service.settings", problems=problems)
        return EXIT_SETTINGS
    if error is not None:
        runtime.log.error("service.crashed", exc_info=error)
        return EXIT_FAILED
    runtime.log.info("service.stopped")
    return EXIT_OK


def _settings_problems(error: BaseException | None) -> list[str] | None:
    """Return what is wrong with the settings, where that is all that went wrong; task groups wrap it."""
    if isinstance(error, SettingsError):
        return list(error.problems)
    if not isinstance(error, BaseExceptionGroup):
        return None
    found = [_settings_problems(one) for one in error.exceptions]
    return None if None in found else [problem for one in found for problem in one or ()]
