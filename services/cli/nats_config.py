"""`phalanx nats-config`: what a NATS server has to be told, so that each certificate has the rights of its work."""

from pathlib import Path

import click

from services.contracts.nats_config import rendered, users_of
from services.contracts.policy_file import read_policy
from services.core.policy import Policy
from services.runtime.structured_file import UnusableFile


@click.command("nats-config", short_help="Write TLS and users for a NATS server.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="PHALANX_CONFIG",
    show_envvar=True,
    help="The configuration file: trust domain, metric sources, and who may read which streams.",
)
@click.option("--namespace", default="phalanx-system", show_default=True, help="Namespace of the services.")
@click.option(
    "--tls-dir", default="/etc/nats/tls", show_default=True, help="Folder of the server's tls.crt, tls.key and ca.crt."
)
@click.option(
    "--listen",
    "listens",
    multiple=True,
    metavar="SUBJECT",
    help="Subject of a queue whose messages wake the autoscaler at once; may be given several times.",
)
def nats_config(config: Path | None, namespace: str, tls_dir: str, listens: tuple[str, ...]) -> None:
    """Write the part of a NATS server's configuration that says who may connect, and what each may do.

    Include it in the server's own file: `include "phalanx-users.conf"`. A reload takes a changed one.
    """
    try:
        policy = Policy() if config is None else read_policy(config.read_bytes(), name=str(config))
    except UnusableFile as error:
        raise click.ClickException(str(error)) from error
    click.echo(rendered(users_of(policy, namespace=namespace, listens=listens), tls_dir=tls_dir), nl=False)
