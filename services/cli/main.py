"""The `phalanx` command, also installed as `kubectl-phalanx`. Sub-commands are imported when they are called."""

import importlib
from collections.abc import Mapping

import click

COMMANDS: Mapping[str, str] = {
    "demo": "services.cli.demo.command:demo",
    "up": "services.cli.up:up",
    "why": "services.cli.why:why",
    "plan": "services.cli.plan:plan",
    "coldstart": "services.cli.coldstart.command:coldstart",
    "decisions": "services.cli.follow_decisions:decisions",
    "dead-letters": "services.cli.dead_letters:dead_letters",
    "config": "services.cli.config_file:config",
    "nats-config": "services.cli.nats_config:nats_config",
    "audit": "services.cli.audit.command:audit",
    "taint": "services.cli.taint.command:taint",
    "settings": "services.cli.settings_reference:settings",
}


class LazyGroup(click.Group):
    """A group whose commands load when they are asked for, so that none pays for what another needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return a command, or None for an unknown name."""
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{target} is not a command")
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="phalanx")
def main() -> None:
    """Place groups of pods on Kubernetes all at once, or not at all."""
