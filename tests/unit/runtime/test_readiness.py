"""Readiness conditions, heartbeats and the connection policy that reports through them."""

import pytest

from services.runtime.backoff import connecting, repeating
from services.runtime.health import Readiness
from tests.fakes.clock import FakeClock


def test_a_silent_process_is_not_ready() -> None:
    """Nothing registered means that start-up has not come that far."""
    assert not Readiness().is_ready


def test_ready_needs_every_condition() -> None:
    """One open condition is enough to refuse work."""
    readiness = Readiness()
    readiness.set("nats", ready=True)
    assert readiness.is_ready
    readiness.set("state", ready=False, detail="120 of 400 objects")
    assert not readiness.is_ready
    readiness.remove("state")
    assert readiness.is_ready
    assert [condition.name for condition in readiness.conditions] == ["nats"]


def test_listeners_hear_changes_only() -> None:
    """A listener is called when the answer changes, not for each new detail, and not after it left."""
    readiness = Readiness()
    heard: list[bool] = []
    leave = readiness.subscribe(lambda: heard.append(readiness.is_ready))
    readiness.set("nats", ready=False, detail="refused")
    readiness.set("nats", ready=False, detail="refused again")
    readiness.set("nats", ready=True)
    readiness.set("nats", ready=False)
    leave()
    readiness.set("nats", ready=True)

    assert heard == [True, False]


def test_a_heartbeat_is_late_after_its_limit() -> None:
    """Silence beyond the promised limit is a fault; ending on purpose is none."""
    clock = FakeClock()
    readiness = Readiness(clock=clock)
    readiness.beat("solver", 5.0)
    clock.advance(5.0)
    assert [beat.is_late for beat in readiness.heartbeats] == [False]
    clock.advance(0.1)
    assert [beat.is_late for beat in readiness.heartbeats] == [True]
    readiness.beat("solver", 5.0)
    assert [beat.is_late for beat in readiness.heartbeats] == [False]
    readiness.end_beat("solver")
    assert readiness.heartbeats == ()


class SlowClock(FakeClock):
    """Sleeps pass at once and are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


async def test_connecting_tries_for_ever_and_says_why() -> None:
    """Each failure becomes the detail of the condition; waits start short and never exceed five seconds."""
    readiness, clock = Readiness(), SlowClock()
    failures = iter([ConnectionRefusedError("refused")] * 20)
    details: list[str] = []

    async def dial() -> str:
        details.append(readiness.conditions[0].detail)
        if error := next(failures, None):
            raise error
        return "connected"

    policy = connecting(readiness, condition="nats", target="NATS at n:4222", clock=clock)

    assert await policy(dial) == "connected"
    assert len(clock.slept) == 20
    assert clock.slept[0] == 0.1
    assert all(0.1 <= seconds <= 5.0 for seconds in clock.slept)
    assert details[0] == "waiting for NATS at n:4222"
    assert details[1] == "waiting for NATS at n:4222: refused"
    assert not readiness.is_ready


async def test_connecting_passes_other_errors_on() -> None:
    """Only the declared kinds of failure are worth another try."""

    async def dial() -> None:
        raise KeyError("bug")

    with pytest.raises(KeyError):
        await connecting(Readiness(), condition="nats", target="x", clock=SlowClock())(dial)


async def test_repeating_gives_the_last_error_back() -> None:
    """When time is up the caller sees the error itself, not a wrapper."""

    async def act() -> None:
        raise TimeoutError("no answer")

    with pytest.raises(TimeoutError, match="no answer"):
        await repeating(limit_s=0.0, retry_on=(TimeoutError,), clock=SlowClock())(act)
