"""`phalanx config`: checks a configuration file before services read it, and prints its schema."""

import json
import sys
from pathlib import Path

import click

from services.contracts.policy_file import policy_schema, read_policy
from services.runtime.structured_file import UnusableFile


class BadInput(click.ClickException):
    """What was given cannot be read at all, which is another thing than a file with mistakes."""

    exit_code = 2


@click.group()
def config() -> None:
    """Check the configuration file, or print its JSON schema."""


@config.command(short_help="Say what is wrong in FILE, a line each.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def check(file: Path, output: str) -> None:
    """Say what is wrong in FILE (- for standard input), a line each.

    Exit code 0 where nothing is, 1 where something is, 2 where the file cannot be read.
    """
    name = "<stdin>" if str(file) == "-" else str(file)
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise BadInput(f"{name}: {error.strerror or error}") from error
    try:
        read_policy(data, name=name)
    except UnusableFile as error:
        if output == "json":
            rows = [{"line": one.line, "path": list(one.path), "what": one.what} for one in error.problems]
            click.echo(json.dumps(rows, indent=2))
        else:
            click.echo(str(error), err=True)
        raise click.exceptions.Exit(1) from error
    click.echo("[]" if output == "json" else f"{name}: good")


@config.command(name="schema")
def print_schema() -> None:
    """Print the JSON schema of the file, for editors and pipelines."""
    click.echo(json.dumps(policy_schema(), indent=2))
