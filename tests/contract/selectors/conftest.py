"""The real API server, without controllers: dry runs need none."""

from collections.abc import Iterator

import pytest

from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.fixtures import require_binaries


@pytest.fixture(scope="session")
def api_server() -> Iterator[Cluster]:
    """One for all tests of the session."""
    require_binaries()
    with Cluster(ClusterConfig(controller_manager=False)) as cluster:
        yield cluster
