"""Builds the images: `python -m deploy.images`, or `make images`.

Needs a container engine that answers `docker`, and no registry: with `--base packages` the base image is made of Debian
packages (as root, with mmdebstrap).
"""

import subprocess
import sys
import tomllib

import click
from rich.console import Console
from rich.table import Table

from deploy.images import engine
from deploy.images.context import ROOT, GatheringError, gather

SERVICES = ("watcher", "placer", "binder", "autoscaler")
MAX_COMPRESSED_MB = 150
_BASE = "python:3.11-slim"
_EPOCH = "315532800"  # the earliest time that a wheel, being a ZIP file, can state


@click.command()
@click.option("--service", "services", multiple=True, type=click.Choice(SERVICES), help="only these; all without it")
@click.option(
    "--base", default=_BASE, show_default=True, help="base image, or `packages` to make it of Debian packages"
)
@click.option("--repository", default="phalanx", show_default=True, help="images are REPOSITORY-SERVICE:VERSION")
@click.option("--measure", is_flag=True, help="also tell how large each image is, compressed")
def main(services: tuple[str, ...], base: str, repository: str, *, measure: bool) -> None:
    """Build one image per service."""
    out = Console(stderr=True, soft_wrap=True)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    too_large = False
    table = Table("image", *(["compressed"] if measure else []))
    try:
        with out.status("fetching what the lock names…"):
            context = gather(ROOT / "build" / "images", revision_time=int(_git("show", "-s", "--format=%ct") or _EPOCH))
        if base == "packages":
            with out.status("making the base image of Debian packages…"):
                base = engine.import_base()
        for service in services or SERVICES:
            tag = f"{repository}-{service}:{version}"
            arguments = {"SERVICE": service, "VERSION": version, "REVISION": _git("rev-parse", "HEAD")}
            with out.status(f"building {tag}…"):
                engine.build(context, tag=tag, base=base, arguments=arguments)
            size_mb = engine.compressed_bytes(tag) / 1e6 if measure else 0.0
            too_large |= size_mb > MAX_COMPRESSED_MB
            table.add_row(tag, *([f"{size_mb:.0f} MB of {MAX_COMPRESSED_MB} MB allowed"] if measure else []))
    except (GatheringError, engine.EngineError) as error:
        raise click.ClickException(str(error)) from error
    out.print(table)
    sys.exit(1 if too_large else 0)


def _git(*command: str) -> str:
    """Return what git says of the working copy; nothing where there is none, as in a source archive."""
    done = subprocess.run(["git", *command], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout.strip() if done.returncode == 0 else ""


if __name__ == "__main__":
    main()
