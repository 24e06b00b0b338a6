"""`phalanx settings`: every setting of every service, as the services read them."""

import click
from rich.console import Console
from rich.table import Table

from services.autoscaler.settings import AutoscalerSettings
from services.binder.settings import BinderSettings
from services.placer.settings import PlacerSettings
from services.runtime.settings import describe
from services.watcher.settings import WatcherSettings

SETTINGS: dict[str, type] = {
    "watcher": WatcherSettings,
    "placer": PlacerSettings,
    "binder": BinderSettings,
    "autoscaler": AutoscalerSettings,
}


@click.command()
@click.argument("service", type=click.Choice(sorted(SETTINGS)), required=False)
def settings(service: str | None) -> None:
    """List the environment variables of SERVICE, or of all services."""
    console = Console()
    for name in [service] if service else list(SETTINGS):
        table = Table(title=f"phalanx-{name}", title_justify="left")
        for column in ("variable", "type", "default", "meaning"):
            table.add_column(column, overflow="fold")
        for row in describe(SETTINGS[name]):
            table.add_row(row.variable, row.type, row.default, row.doc)
        console.print(table)
