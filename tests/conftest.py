"""What all tests share: how hypothesis searches, and ports that nobody uses."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from tests.kubernetes.processes import free_ports

# No deadlines, nor how long examples take to be made: on a shared machine both measure the neighbours. `make long`
# searches with the second profile.
settings.register_profile("usual", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("usual"), max_examples=5_000)
settings.load_profile("usual")


@pytest.fixture(scope="session", name="free_ports")
def _free_ports() -> Callable[[int], list[int]]:
    """Call it for that many distinct ports of the loopback address."""
    return free_ports
