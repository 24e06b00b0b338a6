"""Pytest's view of the real control plane: import the fixtures into a conftest that needs them.

Where the binaries have not been built the tests are skipped and say how to get them; with `REQUIRE=all` in
the environment, as in continuous integration, that is a failure instead.
"""

import os
from collections.abc import Iterator

import pytest

from tests.kubernetes import build
from tests.kubernetes.cluster import Cluster

REQUIRE_VARIABLE = "REQUIRE"


def require_binaries() -> None:
    """Skips (or with `REQUIRE=all` fails) the calling test unless the control plane is built."""
    lacking = build.missing()
    if not lacking:
        return
    names = ", ".join(binary.name for binary in lacking)
    reason = f"make kubernetes: {names} not built"
    if os.environ.get(REQUIRE_VARIABLE) == "all":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[Cluster]:
    """One control plane with controller manager for all tests of the session; each test takes a namespace."""
    require_binaries()
    with Cluster() as cluster:
        yield cluster
        cluster.check()
