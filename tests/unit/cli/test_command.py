"""`phalanx` itself: what it lists, what it says about mistakes, and its second name."""

import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from services.cli.main import COMMANDS, main
from services.cli.settings_reference import SETTINGS
from services.runtime.settings import describe

ROOT = Path(__file__).resolve().parents[3]


def test_help_lists_every_command() -> None:
    """With one line about each."""
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.output.splitlines() if line.startswith("  ") and line.strip()}
    for name in COMMANDS:
        assert len(lines[name].split()) > 3, f"{name} says nothing about itself"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str) -> None:
    """Each loads, and describes all of its options."""
    result = CliRunner().invoke(main, [name, "-h"])
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: main {name}")


def test_unknown_command_is_told() -> None:
    """Exit code 2, as for every misuse."""
    result = CliRunner().invoke(main, ["bind"])
    assert result.exit_code == 2
    assert "No such command 'bind'" in result.output


def test_version() -> None:
    """The version is that of the distribution."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert CliRunner().invoke(main, ["--version"]).output.strip().endswith(version)


def test_it_is_also_a_plugin_of_kubectl() -> None:
    """`kubectl phalanx` finds `kubectl-phalanx` on the PATH."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-phalanx"] == scripts["phalanx"] == "services.cli.main:main"


@pytest.mark.parametrize("service", sorted(SETTINGS))
def test_settings_of_a_service(service: str) -> None:
    """Every variable, with its meaning; and of this service only."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["settings", service])
    assert result.exit_code == 0
    assert f"phalanx-{service}" in result.output
    for row in describe(SETTINGS[service]):
        assert row.variable in result.output
        assert row.doc.split()[0] in result.output
    assert ("PHALANX_SETTLE_MS" in result.output) == (service == "placer")


def test_settings_of_all_services() -> None:
    """Without a name, all of them."""
    output = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["settings"]).output
    assert all(f"phalanx-{service}" in output for service in SETTINGS)


def test_settings_of_no_service() -> None:
    """The names that there are stand in the error."""
    result = CliRunner().invoke(main, ["settings", "scheduler"])
    assert result.exit_code == 2
    assert all(f"'{service}'" in result.output for service in SETTINGS)


def test_decisions_of_what_is_no_gang() -> None:
    """The error shows what a gang id looks like."""
    result = CliRunner().invoke(main, ["decisions", "--gang", "train"])
    assert result.exit_code == 2
    assert "podgroup/team-a/train" in result.output
