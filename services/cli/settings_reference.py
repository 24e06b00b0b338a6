"""`phalanx settings`: every setting of every service, as the services read them."""

from collections.abc import Iterator, Sequence

import click

from services.autoscaler.settings import AutoscalerSettings
from services.binder.settings import BinderSettings
from services.placer.settings import PlacerSettings
from services.runtime.settings import SettingDoc, describe
from services.signer.settings import SignerSettings
from services.watcher.settings import WatcherSettings

SETTINGS: dict[str, type] = {
    "watcher": WatcherSettings,
    "placer": PlacerSettings,
    "binder": BinderSettings,
    "autoscaler": AutoscalerSettings,
    "signer": SignerSettings,
}


NOTE = "Tracing follows the standard OTEL_* variables and is off by default."


@click.command(short_help="List the environment variables of the services.")
@click.argument("service", type=click.Choice(sorted(SETTINGS)), required=False)
def settings(service: str | None) -> None:
    """List the environment variables of SERVICE, or of all services: each on a line of its own, with its meaning."""
    for line in _lines([service] if service else list(SETTINGS)):
        click.echo(line)


def _lines(names: Sequence[str]) -> Iterator[str]:
    """Yield a paragraph for each set of services that share settings, those with the most services first."""
    readers: dict[SettingDoc, tuple[str, ...]] = {}
    for name in names:
        for row in describe(SETTINGS[name]):
            readers[row] = (*readers.get(row, ()), name)
    for group in sorted(set(readers.values()), key=lambda group: (-len(group), group)):
        yield "all services:" if len(group) == len(SETTINGS) else f"{', '.join(group)}:"
        yield from (f"  {_line(row)}" for row, read_by in readers.items() if read_by == group)
        yield ""
    yield NOTE


def _line(row: SettingDoc) -> str:
    return f"{row.variable} ({row.type}; default: {row.default or 'unset'}): {' '.join(row.doc.split())}"
