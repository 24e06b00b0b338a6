"""The health server as a kubelet, a person and Prometheus use it."""

import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from services.runtime import health
from services.runtime.health import Readiness
from tests.fakes.clock import FakeClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A health server and what it looks at."""

    session: aiohttp.ClientSession
    readiness: Readiness
    registry: CollectorRegistry
    clock: FakeClock

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and text of one request."""
        async with self.session.get(path, headers=headers) as response:
            return response.status, await response.text()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    """A health server on a free port."""
    clock, registry = FakeClock(), CollectorRegistry()
    readiness = Readiness(clock=clock)
    async with (
        health.serve("127.0.0.1:0", readiness, registry) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield Served(session=session, readiness=readiness, registry=registry, clock=clock)


async def test_a_starting_process_lives_but_is_not_ready(served: Served) -> None:
    """Before anything is registered, liveness passes and readiness does not."""
    assert await served.get("/livez") == (200, "ok\n")
    status, text = await served.get("/readyz")
    assert status == 503
    assert "nothing has been registered yet" in text


async def test_readiness_says_what_is_waited_for(served: Served) -> None:
    """The detail of each condition is in the body, as text and as JSON."""
    served.readiness.set("nats", ready=False, detail="waiting for NATS at n:4222: connection refused")
    served.readiness.set("state", ready=True, detail="400 objects")

    status, text = await served.get("/readyz")
    assert status == 503
    assert text.splitlines() == [
        "not ok",
        "NOT nats: waiting for NATS at n:4222: connection refused",
        "ok  state: 400 objects",
    ]
    async with served.session.get("/readyz?format=json") as response:
        assert response.status == 503
        assert await response.json() == {
            "ok": False,
            "conditions": [
                {"name": "nats", "ready": False, "detail": "waiting for NATS at n:4222: connection refused"},
                {"name": "state", "ready": True, "detail": "400 objects"},
            ],
        }

    served.readiness.set("nats", ready=True)
    assert (await served.get("/readyz"))[0] == 200


async def test_liveness_ignores_peers_and_sees_stuck_loops(served: Served) -> None:
    """A lost peer is no reason for a restart; a loop that stopped beating is."""
    served.readiness.set("nats", ready=False, detail="gone")
    served.readiness.beat("solver", 30)
    assert (await served.get("/livez"))[0] == 200

    served.clock.advance(31)
    status, text = await served.get("/livez")
    assert status == 503
    assert "solver: last beat 31.0 s ago, limit 30 s" in text


async def test_metrics_are_in_the_format_that_is_asked_for(served: Served) -> None:
    """Prometheus negotiates; both of its text formats carry the counter."""
    Counter("phalanx_gangs_total", "Gangs seen.", registry=served.registry).inc(3)

    assert "phalanx_gangs_total 3.0" in (await served.get("/metrics"))[1]
    status, text = await served.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert text.endswith("# EOF\n")


async def test_a_taken_port_is_an_error() -> None:
    """Two processes never share a health port by accident."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="address already in use"):
        async with health.serve(f"127.0.0.1:{taken.getsockname()[1]}", Readiness(), CollectorRegistry()):
            pass
