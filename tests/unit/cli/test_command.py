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


@pytest.mark.parametrize(
    "arguments", [["config", "check"], ["plan", "-f"], ["audit", "--from-dump"]], ids=lambda one: one[0]
)
def test_a_file_that_is_not_there_is_bad_input(arguments: list[str], tmp_path: Path) -> None:
    """Exit code 2 for every command, and the file is named."""
    missing = str(tmp_path / "missing.yaml")
    result = CliRunner(env={"COLUMNS": "400"}).invoke(main, [*arguments, missing])
    assert result.exit_code == 2
    assert missing in result.output


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
    """Every variable on one line with its type, default and meaning, however narrow the terminal; and no others."""
    result = CliRunner(env={"COLUMNS": "40"}).invoke(main, ["settings", service])
    assert result.exit_code == 0
    lines = [line.strip() for line in result.output.splitlines() if "PHALANX_" in line]
    rows = describe(SETTINGS[service])
    assert len(lines) == len(rows)
    for line, row in zip(lines, rows, strict=True):
        assert line.startswith(f"{row.variable} ({row.type}; default: ")
        assert line.endswith(" ".join(row.doc.split()))


def test_settings_of_all_services() -> None:
    """Those that several services share stand once, below the names of these services."""
    lines = [line.strip() for line in CliRunner().invoke(main, ["settings"]).output.splitlines()]
    variables = [line.split()[0] for line in lines if line.startswith("PHALANX_")]
    assert len(variables) == len(set(variables))
    assert lines[0] == "all services:"
    for heading, variable in (
        ("watcher, binder, autoscaler, signer:", "PHALANX_KUBECONFIG"),
        ("placer, binder, autoscaler:", "PHALANX_LEADER_ELECTION"),
        ("placer, binder:", "PHALANX_GRPC_ADDRESS"),
        ("placer:", "PHALANX_SETTLE_MS"),
        ("autoscaler:", "PHALANX_PLACER"),
    ):
        assert lines[lines.index(heading) + 1].startswith(variable)


def test_settings_of_no_service() -> None:
    """The names that there are stand in the error."""
    result = CliRunner().invoke(main, ["settings", "scheduler"])
    assert result.exit_code == 2
    assert all(f"'{service}'" in result.output for service in SETTINGS)


def test_decisions_of_what_is_no_gang() -> None:
    """The error shows what a gang id looks like."""
    result = CliRunner().invoke(main, ["decisions", "--gang", "team-a/train"])
    assert result.exit_code == 2
    assert "podgroup/team-a/train" in result.output


@pytest.mark.parametrize("group", [(), ("dead-letters",), ("config",)], ids=" ".join)
def test_no_line_of_the_list_of_commands_is_cut(group: tuple[str, ...]) -> None:
    """On a terminal of 80 columns every command is described by a whole sentence."""
    listed = CliRunner(env={"COLUMNS": "80"}).invoke(main, [*group, "--help"]).output.split("Commands:")[1]
    assert "..." not in listed
