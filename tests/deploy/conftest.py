"""The real tools, and one control plane for all tests."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.deploy.tools import Kubectl, Tools
from tests.kubernetes import build
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.fixtures import REQUIRE_VARIABLE, kubernetes

__all__ = ["kubernetes"]

Objects = list[dict[str, Any]]


@pytest.fixture(scope="session")
def tools() -> Tools:
    """Helm and kubectl; where they were not built, the tests say how to get them."""
    lacking = build.missing(build.DEPLOYING)
    if lacking:
        reason = f"make deploy-tools: {', '.join(one.name for one in lacking)} not built"
        if os.environ.get(REQUIRE_VARIABLE) == "all":
            pytest.fail(reason)
        pytest.skip(reason)
    return Tools(folder=build.assets_dir())


@pytest.fixture(scope="session")
def render(tools: Tools) -> Callable[..., Objects]:
    """The chart with values, as objects."""

    def rendered(**values: Any) -> Objects:
        return [one for one in yaml.safe_load_all(tools.render(values)) if one]

    return rendered


@pytest.fixture(scope="module")
def kubectl(tools: Tools, kubernetes: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Kubectl as an administrator of a real cluster."""
    home = tmp_path_factory.mktemp("kubectl")
    return Kubectl(program=tools.kubectl, kubeconfig=kubernetes.kubeconfig, home=home)
