"""A binder that does not lead sends no write, however far its work had come."""

from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from services.binder.adapters.kube_calls import KubeCalls
from services.binder.metrics import BinderMetrics
from services.binder.pacing import Pace
from services.binder.ports import NoAnswer
from services.runtime.health import Readiness
from services.runtime.kube import KubeClient, KubeUnavailable
from tests.fakes.clock import FakeClock


class UnreachableApi:
    """Counts what it is asked."""

    host = "https://api.example.com"

    def __init__(self) -> None:
        """Start with nothing."""
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **_given: Any) -> None:
        """Note it, and answer nothing."""
        self.asked.append(f"{method} {path}")
        raise KubeUnavailable(path)


@pytest.mark.parametrize("is_leading", [True, False])
async def test_writes_are_for_the_leader_and_reads_for_all(*, is_leading: bool) -> None:
    """Asked for each request, after the wait for its turn."""
    api, clock = UnreachableApi(), FakeClock()
    calls = KubeCalls(
        cast("KubeClient", api),
        pace=Pace(most=1, clock=clock),
        readiness=Readiness(clock=clock),
        metrics=BinderMetrics(CollectorRegistry()),
        clock=clock,
        may_write=lambda: is_leading,
    )
    for method in ("GET", "POST", "PATCH", "DELETE"):
        with pytest.raises(NoAnswer):
            await calls.write("test", method, "/pods")
    assert len(api.asked) == (4 if is_leading else 1)
