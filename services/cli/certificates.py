"""The certificates of the commands: the same folder that services use, named by the same variable.

`PHALANX_TLS_DIR` names the folder. `PHALANX_TLS_SERVER_NAME` is whom the other side's certificate has to name, where
that is not the address: behind a port-forward the address is this machine.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from services.runtime.nats_connection import OPEN, NatsAccess
from services.runtime.settings import TLS_SERVER_NAME_VARIABLE
from services.runtime.tls import TlsMaterial, UnusableTls, client_context, read_folder

TLS_DIR_VARIABLE = "PHALANX_TLS_DIR"


def own_material(environ: Mapping[str, str] = os.environ) -> TlsMaterial | None:
    """Return what the folder holds, None where none is named. Raises click.ClickException."""
    folder = environ.get(TLS_DIR_VARIABLE)
    if not folder:
        return None
    try:
        return read_folder(Path(folder))
    except UnusableTls as error:
        raise click.ClickException(f"{TLS_DIR_VARIABLE}: given {folder!r}: {error}") from error


def server_name(environ: Mapping[str, str] = os.environ) -> str:
    """Return whom the other side's certificate has to name; nothing where its address says so."""
    return environ.get(TLS_SERVER_NAME_VARIABLE, "")


def nats_access(*, inbox: str = OPEN.inbox, environ: Mapping[str, str] = os.environ) -> NatsAccess:
    """Return how the commands connect to NATS. Raises click.ClickException."""
    material = own_material(environ)
    if material is None:
        return OPEN
    try:
        return NatsAccess(tls=client_context(material), inbox=inbox, server_name=server_name(environ))
    except UnusableTls as error:
        raise click.ClickException(f"{TLS_DIR_VARIABLE}: {error}") from error
