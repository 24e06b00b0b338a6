"""The container engine, as its command line: building, importing and measuring images."""

import gzip
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

PACKAGED_BASE = "phalanx-base:bookworm"
"""Base image of Debian packages, for machines without an image registry."""

_SUITE = "bookworm"
_PACKAGES = (
    "python3.11-minimal",
    "libpython3.11-stdlib",
    "python3-minimal",
    "libstdc++6",  # grpcio, numpy and highspy are linked with it
    "libc-bin",
    "ca-certificates",
)
_CHUNK = 2**20


class EngineError(Exception):
    """The engine, or a program beside it, did not do what was asked; the message says what and why."""


def build(context: Path, *, tag: str, base: str, arguments: Mapping[str, str]) -> None:
    """Build one image without network. Raises EngineError."""
    given = {"BASE_IMAGE": base, **arguments}
    options = [part for name, value in given.items() for part in ("--build-arg", f"{name}={value}")]
    _run(["docker", "build", "--quiet", "--network=none", "--tag", tag, *options, str(context)], what=f"build {tag}")


def import_base() -> str:
    """Make the base image of packages where it is not there yet, and return its name. Raises EngineError."""
    if not _fails(["docker", "image", "inspect", PACKAGED_BASE]):
        return PACKAGED_BASE
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch) / "base.tar"
        command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(_PACKAGES)}"]
        _run([*command, _SUITE, str(archive)], what="make a base image of Debian packages (as root, with mmdebstrap)")
        _run(["docker", "import", str(archive), PACKAGED_BASE], what=f"import {PACKAGED_BASE}")
    return PACKAGED_BASE


def compressed_bytes(tag: str) -> int:
    """Return how large the image is in a registry or on the wire: its archive, compressed with gzip."""
    saving = subprocess.Popen(["docker", "save", tag], stdout=subprocess.PIPE)
    with tempfile.TemporaryFile() as sink, gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=6) as packed:
        while saving.stdout is not None and (chunk := saving.stdout.read(_CHUNK)):
            packed.write(chunk)
        packed.close()
        size = sink.tell()
    if saving.wait():
        raise EngineError(f"docker save {tag} ended with {saving.returncode}")
    return size


def _fails(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


def _run(command: list[str], *, what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EngineError(f"cannot {what}: {command[0]} is not installed") from error
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-20:])
        raise EngineError(f"cannot {what}: {' '.join(command[:3])} … ended with {done.returncode}:\n{tail}")
