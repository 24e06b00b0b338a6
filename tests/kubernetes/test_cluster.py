"""The control plane starts as configured, tells why it cannot, and leaves nothing behind."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.kubernetes.cluster import Cluster, ClusterConfig
from tests.kubernetes.connection import RequestError, Target, connected
from tests.kubernetes.fixtures import require_binaries
from tests.kubernetes.processes import ClusterError, Program

pytestmark = pytest.mark.kubernetes


def _target(cluster: Cluster, *, user: str = "admin") -> Target:
    return Target.from_kubeconfig(cluster.kubeconfig_of(user))


async def test_kubeconfig_lets_the_administrator_in(kubernetes: Cluster) -> None:
    """The kubeconfig is enough to talk to the server, whose version is the pinned one."""
    async with connected(_target(kubernetes)) as connection:
        version = await connection.request("GET", "/version")
        assert version["gitVersion"] == "v1.37.2"
        groups = await connection.request("GET", "/apis/scheduling.k8s.io")
        assert {"v1", "v1beta1", "v1alpha3"} <= {each["version"] for each in groups["versions"]}


async def test_switches_change_what_is_served() -> None:
    """With the gate off and only v1alpha3 served, the link of a pod is dropped and v1beta1 is not found."""
    require_binaries()
    config = ClusterConfig(
        controller_manager=False,
        feature_gates={"GenericWorkload": False},
        runtime_config={"scheduling.k8s.io/v1alpha3": True},
        users={"viewer": ("viewers",)},
    )
    async with Cluster(config) as cluster, connected(_target(cluster)) as connection:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "x"}], "schedulingGroup": {"podGroupName": "g"}},
        }
        created = await connection.request("POST", "/api/v1/namespaces/default/pods", body=pod)
        assert "schedulingGroup" not in created["spec"]
        with pytest.raises(RequestError, match="404"):
            await connection.request("GET", "/apis/scheduling.k8s.io/v1beta1/podgroups")
        async with connected(_target(cluster, user="viewer")) as stranger:
            with pytest.raises(RequestError, match="403 Forbidden"):
                await stranger.request("GET", "/api/v1/nodes")


def test_wrong_flags_are_explained_by_the_log() -> None:
    """A component that refuses to start shows the tail of its log, and its neighbours are stopped."""
    require_binaries()
    cluster = Cluster(ClusterConfig(apiserver_args=("--no-such-flag",)))
    complaint = r"(?s)kube-apiserver ended with 1:\n.*unknown flag: --no-such-flag"
    with pytest.raises(ClusterError, match=complaint), cluster:
        pass
    assert not any(program.is_running() for program in cluster.programs)


def test_leaving_removes_processes_and_files() -> None:
    """An exception inside the block ends everything too."""
    require_binaries()
    cluster = Cluster(ClusterConfig(controller_manager=False))
    with contextlib.suppress(RuntimeError), cluster:
        assert all(program.is_running() for program in cluster.programs)
        raise RuntimeError("inside")
    assert not any(program.is_running() for program in cluster.programs)
    assert not cluster.folder.exists()


def test_a_killed_parent_takes_its_programs_along(tmp_path: Path) -> None:
    """Not even SIGKILL of the starter leaves a program behind."""
    script = (
        "import pathlib, sys\n"
        "from tests.kubernetes.processes import Program\n"
        "program = Program('sleeper', command=['sleep', '600'], log=pathlib.Path(sys.argv[1]))\n"
        "print(program.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        os.kill(parent.pid, signal.SIGKILL)
        child.wait(timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_a_dead_program_is_reported(tmp_path: Path) -> None:
    """`check` tells which program ended, how, and what it said last."""
    program = Program("speaker", command=["sh", "-c", "echo last words; exit 3"], log=tmp_path / "log")
    program.wait(timeout_s=10)
    with pytest.raises(ClusterError, match="speaker ended with 3:\nlast words"):
        program.check()
