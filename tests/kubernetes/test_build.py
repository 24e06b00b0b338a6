"""The builder finds, checks and names binaries without compiling anything here."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.kubernetes import build
from tests.suites.table import SUITES


@pytest.fixture
def assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of somebody else's binaries, empty at first."""
    monkeypatch.setenv(build.ASSETS_VARIABLE, str(tmp_path))
    return tmp_path


def _provide(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch(mode=0o755)


def test_given_assets_are_only_checked(assets: Path) -> None:
    """A complete folder is accepted in one line."""
    _provide(assets, *(binary.name for binary in build.CONTROL_PLANE))
    result = CliRunner().invoke(build.main, [])
    assert result.exit_code == 0
    assert result.output.splitlines() == [f"Kubernetes {build.KUBERNETES_VERSION} is ready in {assets}"]


def test_incomplete_assets_name_what_is_missing(assets: Path) -> None:
    """The error names the folder, the missing programs and the two ways out."""
    _provide(assets, "etcd", "kube-apiserver")
    result = CliRunner().invoke(build.main, [])
    assert result.exit_code == 1
    assert f"{build.ASSETS_VARIABLE}={assets} lacks kube-controller-manager, kube-scheduler." in result.output
    assert "or unset" in result.output


def test_node_binaries_are_asked_for_separately(assets: Path) -> None:
    """Only `--node` wants kubelet and kube-proxy."""
    _provide(assets, *(binary.name for binary in build.CONTROL_PLANE))
    result = CliRunner().invoke(build.main, ["--node"])
    assert result.exit_code == 1
    assert "lacks kubelet, kube-proxy" in result.output


def test_cache_folder_follows_the_convention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without given assets the binaries live in the user's cache, by version."""
    monkeypatch.delenv(build.ASSETS_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert build.assets_dir() == tmp_path / "phalanx" / f"kubernetes-{build.KUBERNETES_VERSION}"


def test_go_of_the_wheel_serves_where_the_path_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Go builds with the toolchain of the locked wheel."""
    monkeypatch.setenv("PATH", "")
    assert build.find_go().parts[-3:] == ("go", "bin", "go")


def test_pinned_modules_are_of_this_version() -> None:
    """go.mod and the version that names the cache folder agree."""
    staging = build.KUBERNETES_VERSION.replace("1.", "0.", 1)
    text = (build.HERE / "go.mod").read_text()
    assert f"k8s.io/kubernetes v{build.KUBERNETES_VERSION}" in text
    assert f"k8s.io/api => k8s.io/api v{staging}" in text


def test_the_set_up_step_of_the_suites_is_understood(assets: Path) -> None:
    """The options that the table of suites passes exist, and programs of ours are built beside ready binaries."""
    _provide(assets, *(binary.name for binary in build.CONTROL_PLANE))
    (step,) = next(suite for suite in SUITES if suite.name == "kubernetes").steps
    options = [word for word in step.command if word.startswith("--")]
    known = {name for option in build.main.params for name in option.opts}
    assert set(options) <= known
