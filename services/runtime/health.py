"""Liveness, readiness and metrics over HTTP, in every service.

Readiness is a set of named conditions that adapters keep ("nats", "cluster state"), each with a sentence that says
what is being waited for. Liveness never depends on a peer: it fails only when a loop of this process stopped beating.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from services.runtime.addresses import announce_port, parse_address
from services.runtime.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that must hold before this process may be given work."""

    name: str
    ready: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A loop that promised to beat again within `limit_s`."""

    name: str
    age_s: float
    limit_s: float

    @property
    def is_late(self) -> bool:
        """Whether the promise is broken."""
        return self.age_s > self.limit_s


class Readiness:
    """What this process waits for, and whether its loops are alive."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._conditions: dict[str, Condition] = {}
        self._beats: dict[str, tuple[float, float]] = {}
        self._listeners: list[Callable[[], None]] = []

    def set(self, name: str, *, ready: bool, detail: str = "") -> None:
        """Register or change a condition; listeners hear about it when ready or not changes."""
        known = self._conditions.get(name)
        if known is not None and known.ready is ready and known.detail == detail:
            # Told with every answer of a peer, so it has to cost nothing while nothing changes.
            return
        before = self.is_ready
        self._conditions[name] = Condition(name=name, ready=ready, detail=detail)
        self._notify(before=before)

    def remove(self, name: str) -> None:
        """Forget a condition that no longer applies, as for a peer that was configured away."""
        before = self.is_ready
        self._conditions.pop(name, None)
        self._notify(before=before)

    def beat(self, name: str, limit_s: float) -> None:
        """Say that the loop `name` is alive and will beat again within `limit_s`."""
        self._beats[name] = (self._clock.monotonic(), limit_s)

    def end_beat(self, name: str) -> None:
        """Say that the loop `name` ended on purpose, so that its silence is no fault."""
        self._beats.pop(name, None)

    @property
    def is_ready(self) -> bool:
        """Whether something was registered and all of it holds: a process that says nothing is not ready."""
        return bool(self._conditions) and all(condition.ready for condition in self._conditions.values())

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions by name."""
        return tuple(self._conditions[name] for name in sorted(self._conditions))

    @property
    def heartbeats(self) -> tuple[Heartbeat, ...]:
        """All heartbeats by name, with their age now."""
        now = self._clock.monotonic()
        return tuple(
            Heartbeat(name=name, age_s=now - beaten_at, limit_s=limit_s)
            for name, (beaten_at, limit_s) in sorted(self._beats.items())
        )

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change of `is_ready`; returns the call that ends this."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _notify(self, *, before: bool) -> None:
        if before == self.is_ready:
            return
        for listener in tuple(self._listeners):
            listener()


@asynccontextmanager
async def serve(address: str, readiness: Readiness, registry: CollectorRegistry) -> AsyncIterator[int]:
    """Serve `/livez`, `/readyz` and `/metrics`; yields the bound port, also announced as `http`."""
    host, port = parse_address(address)
    runner = web.AppRunner(_application(readiness, registry=registry), access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = cast("int", runner.addresses[0][1])
        announce_port("http", port=bound)
        yield bound
    finally:
        await runner.cleanup()


def _application(readiness: Readiness, *, registry: CollectorRegistry) -> web.Application:
    async def livez(request: web.Request) -> web.Response:
        beats = readiness.heartbeats
        late = any(beat.is_late for beat in beats)
        lines = [f"{beat.name}: last beat {beat.age_s:.1f} s ago, limit {beat.limit_s:g} s" for beat in beats]
        document = [
            {"name": beat.name, "late": beat.is_late, "age_s": beat.age_s, "limit_s": beat.limit_s} for beat in beats
        ]
        return _answer(request, passed=not late, lines=lines, document={"heartbeats": document})

    async def readyz(request: web.Request) -> web.Response:
        conditions = readiness.conditions
        lines = [f"{'ok ' if item.ready else 'NOT'} {item.name}: {item.detail or 'ready'}" for item in conditions]
        document = [{"name": item.name, "ready": item.ready, "detail": item.detail} for item in conditions]
        return _answer(
            request,
            passed=readiness.is_ready,
            lines=lines or ["NOT starting: nothing has been registered yet"],
            document={"conditions": document},
        )

    async def metrics(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    application = web.Application()
    application.add_routes([web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    return application


def _answer(request: web.Request, *, passed: bool, lines: list[str], document: dict[str, object]) -> web.Response:
    """200 or 503, as text for people or as JSON for `?format=json`."""
    status = 200 if passed else 503
    if request.query.get("format") == "json":
        return web.Response(
            status=status, body=orjson.dumps({"ok": passed} | document), content_type="application/json"
        )
    return web.Response(status=status, text="\n".join(["ok" if passed else "not ok", *lines]) + "\n")
