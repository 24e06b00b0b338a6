"""A real Kubernetes control plane in a temporary folder, for tests, measurements and the demo.

    with Cluster() as cluster:          # or: async with Cluster() as cluster
        print(cluster.url, cluster.kubeconfig)

etcd and kube-apiserver always run; controller manager and scheduler by configuration. There are no machines
behind it: `tests.kubernetes.nodes` plays the kubelets. Needs the binaries of `tests.kubernetes.build`; knows
nothing of pytest.
"""

import argparse
import asyncio
import base64
import http.client
import os
import secrets
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import yaml

from tests.kubernetes import build
from tests.kubernetes.certificates import Authority, create_authority, create_service_account_key, issue
from tests.kubernetes.processes import ClusterError, Program, free_ports

ADMIN = "admin"
"""User in the group system:masters, whose token and kubeconfig the cluster hands out."""

_CONTROLLER_MANAGER_USER = "system:kube-controller-manager"
_SCHEDULER_USER = "system:kube-scheduler"
_READY_TIMEOUT_S = 90.0
_POLL_EVERY_S = 0.05
_PORT_COUNT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """What runs and with which switches."""

    controller_manager: bool = True
    """Without it claims are not made from templates and deletions of PodGroups and namespaces hang."""

    scheduler: bool = False
    """The native scheduler. With GenericWorkload on and scheduling.k8s.io/v1beta1 off it never gets ready."""

    feature_gates: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({"GenericWorkload": True}))
    """Gates of all three components."""

    runtime_config: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({"api/all": True}))
    """Served APIs, as `{"scheduling.k8s.io/v1alpha3": True}`."""

    users: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Further users with their groups; each gets a token and, on request, a kubeconfig."""

    service_account_admission: bool = False
    """Off by default: with it a pod has to wait until the controller manager made the namespace's account."""

    client_qps: int = 2000
    """Requests per second of controller manager and scheduler; with the defaults (20, 50) they crawl."""

    apiserver_args: tuple[str, ...] = ()
    """Further flags of kube-apiserver, after ours."""

    controller_manager_args: tuple[str, ...] = ()
    """Further flags of kube-controller-manager."""

    scheduler_args: tuple[str, ...] = ()
    """Further flags of kube-scheduler."""


class Cluster:
    """Starts on entering, is gone without a trace on leaving, also when entering fails or the parent dies."""

    def __init__(self, config: ClusterConfig | None = None) -> None:
        self.config = config or ClusterConfig()
        self.programs: list[Program] = []
        self._entered = False

    def __enter__(self) -> Self:
        try:
            for wait in self._start():
                wait()
        except BaseException:
            self._stop()
            raise
        return self

    async def __aenter__(self) -> Self:
        try:
            # Programs start in this thread: the kernel ties their life to the thread that forked them.
            for wait in self._start():
                await asyncio.to_thread(wait)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def token(self) -> str:
        """Bearer token of the administrator."""
        return self.tokens[ADMIN]

    @property
    def etcd_url(self) -> str:
        """Address of the storage, for tests that compact it."""
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.kubeconfig_of(ADMIN)

    def kubeconfig_of(self, user: str) -> Path:
        """Kubeconfig file of a user; written on first use."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            certificate = base64.b64encode(self.ca_file.read_bytes()).decode()
            path.write_text(
                yaml.safe_dump(_kubeconfig(self.url, certificate=certificate, user=user, token=self.tokens[user]))
            )
            path.chmod(0o600)
        return path

    def ssl_context(self) -> ssl.SSLContext:
        """A client context that trusts only this cluster."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def program(self, name: str) -> Program:
        """The running program of that name, as `kube-apiserver`."""
        return next(program for program in self.programs if program.name == name)

    def check(self) -> None:
        """Raises ClusterError with the log's tail if a part has died."""
        for program in self.programs:
            program.check()

    def kill_apiserver(self) -> None:
        """Ends the API server as a crash would; etcd keeps its objects."""
        program = self.program("kube-apiserver")
        self.programs.remove(program)
        program.kill()

    async def start_apiserver(self) -> None:
        """Starts a killed API server again, at the same address, and waits until it serves."""
        await asyncio.to_thread(self._run_apiserver())

    def _start(self) -> Iterator[Callable[[], None]]:
        """Starts one program after the other; each item waits until the one just started serves."""
        if self._entered:
            raise ClusterError("a Cluster starts once: make a new one")
        lacking = build.missing()
        if lacking:
            names = ", ".join(binary.name for binary in lacking)
            raise ClusterError(f"{names} not found in {build.assets_dir()}: run `make kubernetes`")
        self._entered = True
        self.folder = Path(tempfile.mkdtemp(prefix="phalanx-kubernetes-"))
        self._ports = free_ports(_PORT_COUNT)
        etcd_port, _, _, controller_port, scheduler_port = self._ports
        self.url = f"https://127.0.0.1:{self._ports[2]}"
        self._write_identity()
        yield self._run("etcd", self._etcd_args(), ready=_http_ready(etcd_port, path="/health"))
        yield self._run_apiserver()
        unverified = _unverified_context()
        if self.config.controller_manager:
            yield self._run(
                "kube-controller-manager",
                self._controller_manager_args(),
                ready=_http_ready(controller_port, path="/healthz", tls=unverified),
            )
        if self.config.scheduler:
            yield self._run(
                "kube-scheduler",
                self._scheduler_args(),
                ready=_http_ready(scheduler_port, path="/readyz", tls=unverified),
            )

    def _write_identity(self) -> None:
        """Certificates, keys and tokens."""
        self._authority: Authority = create_authority(self.folder, name="ca")
        self.ca_file = self._authority.certificate_file
        self._certificate = issue(self._authority, folder=self.folder, name="apiserver")
        self._account_key, self._account_public = create_service_account_key(self.folder)
        groups: dict[str, tuple[str, ...]] = {
            ADMIN: ("system:masters",),
            _CONTROLLER_MANAGER_USER: ("system:masters",),
            _SCHEDULER_USER: (),
            **self.config.users,
        }
        self.tokens = {user: secrets.token_hex(16) for user in groups}
        lines = [f'{self.tokens[user]},{user},{user},"{",".join(names)}"' for user, names in groups.items()]
        tokens_file = self.folder / "tokens.csv"
        tokens_file.touch(mode=0o600)
        tokens_file.write_text("\n".join(lines) + "\n")

    def _run_apiserver(self) -> Callable[[], None]:
        ready = _http_ready(
            self._ports[2],
            path="/readyz",
            then="/api/v1/namespaces/default",
            tls=self.ssl_context(),
            token=self.token,
        )
        return self._run("kube-apiserver", self._apiserver_args(), ready=ready)

    def _run(self, name: str, args: list[str], *, ready: Callable[[], bool]) -> Callable[[], None]:
        command = [str(build.assets_dir() / name), *args]
        self.programs.append(Program(name, command=command, log=self.folder / f"{name}.log"))
        return lambda: self._wait(name, ready)

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while not ready():
            self.check()
            if time.monotonic() > deadline_s:
                tail = self.program(name).log_tail()
                raise ClusterError(f"{name} was not ready after {_READY_TIMEOUT_S:.0f} s:\n{tail}")
            time.sleep(_POLL_EVERY_S)

    def _stop(self) -> None:
        """Kills at once: nothing in the folder is worth a clean end."""
        for program in reversed(self.programs):
            program.kill()
        if self._entered:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _etcd_args(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{port}" for port in self._ports[:2])
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver_args(self) -> list[str]:
        certificate, key = self._certificate
        disabled = [] if self.config.service_account_admission else ["ServiceAccount"]
        return [
            f"--etcd-servers=http://127.0.0.1:{self._ports[0]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[2]}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.ca_file}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._account_public}",
            f"--service-account-signing-key-file={self._account_key}",
            "--service-cluster-ip-range=10.0.0.0/16",
            f"--disable-admission-plugins={','.join(disabled)}",
            "--endpoint-reconciler-type=none",
            f"--feature-gates={_switches(self.config.feature_gates)}",
            f"--runtime-config={_switches(self.config.runtime_config)}",
            *self.config.apiserver_args,
        ]

    def _controller_manager_args(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig_of(_CONTROLLER_MANAGER_USER)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[3]}",
            f"--cert-dir={self.folder / 'controller-manager'}",
            "--leader-elect=false",
            f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={self._account_key}",
            f"--kube-api-qps={self.config.client_qps}",
            f"--kube-api-burst={2 * self.config.client_qps}",
            f"--feature-gates={_switches(self.config.feature_gates)}",
            *self.config.controller_manager_args,
        ]

    def _scheduler_args(self) -> list[str]:
        path = self.folder / "scheduler.yaml"
        connection = {
            "kubeconfig": str(self.kubeconfig_of(_SCHEDULER_USER)),
            "qps": self.config.client_qps,
            "burst": 2 * self.config.client_qps,
        }
        settings = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
        }
        path.write_text(yaml.safe_dump(settings))
        return [
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[4]}",
            f"--cert-dir={self.folder / 'scheduler'}",
            f"--feature-gates={_switches(self.config.feature_gates)}",
            *self.config.scheduler_args,
        ]


def _switches(values: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(value).lower()}" for name, value in values.items())


def _kubeconfig(url: str, *, certificate: str, user: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "phalanx", "cluster": {"server": url, "certificate-authority-data": certificate}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "phalanx", "context": {"cluster": "phalanx", "user": user}}],
        "current-context": "phalanx",
    }


def _unverified_context() -> ssl.SSLContext:
    """For the health ports of controller manager and scheduler, which sign their own certificates."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _http_ready(
    port: int, *, path: str, then: str = "", tls: ssl.SSLContext | None = None, token: str = ""
) -> Callable[[], bool]:
    """A check that all given paths of a local port answer 200."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def answers(each: str) -> bool:
        connection = (
            http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=tls)
            if tls
            else http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        )
        try:
            connection.request("GET", each, headers=headers)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return lambda: all(answers(each) for each in (path, then) if each)


def main() -> None:
    """Runs a control plane until interrupted, to try things by hand: `python -m tests.kubernetes.cluster`."""
    argparse.ArgumentParser(
        description="Runs a control plane until Ctrl-C; SCHEDULER=1 adds kube-scheduler."
    ).parse_args()
    with Cluster(ClusterConfig(scheduler=os.environ.get("SCHEDULER") == "1")) as cluster:
        print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
        try:
            while True:
                cluster.check()
                time.sleep(1)
        except KeyboardInterrupt:
            print("stopping")


if __name__ == "__main__":
    main()
